"""The costs of a `MutableAntichain`: comparisons, counted, and times that it remembers."""

from collections.abc import Callable, Iterator
from math import log2
from random import Random

import pytest

from tests.laws.domains import VectorClockDomain
from tidewheel.progress import IntegerDomain, MutableAntichain, Time

Plan = Iterator[list[tuple[Time, int]]]


class CountingIntegers(IntegerDomain):
    """Integers that count how often two of them are compared."""

    compared = 0

    def less_equal(self, a: Time, b: Time) -> bool:
        type(self).compared += 1
        return super().less_equal(a, b)


class CountingClocks(VectorClockDomain):
    """Vector clocks that count how often two of them are compared."""

    compared = 0

    def less_equal(self, a: Time, b: Time) -> bool:
        type(self).compared += 1
        return super().less_equal(a, b)


def cost(counts: MutableAntichain, changes: Plan) -> int:
    """Return how many comparisons it takes to apply changes."""
    domain = type(counts.domain)
    assert issubclass(domain, CountingIntegers | CountingClocks)
    domain.compared = 0
    for batch in changes:
        counts.update(batch)
    return domain.compared


def filled(times: list[Time]) -> MutableAntichain:
    counts = MutableAntichain(CountingIntegers())
    for time in times:
        counts.update([(time, 1)])
    return counts


def take_least(counts: MutableAntichain, number: int) -> Plan:
    for _ in range(number):
        [least] = counts.elements()
        yield [(least, -1)]


def in_order(number: int) -> list[Time]:
    return list(range(number))


def backwards(number: int) -> list[Time]:
    return list(range(number))[::-1]


def shuffled(number: int) -> list[Time]:
    times = list(range(number))
    Random(number).shuffle(times)
    return times


@pytest.mark.parametrize("arrange", [in_order, backwards, shuffled])
@pytest.mark.parametrize("number", [1_000, 10_000])
def test_taking_the_least_costs_the_logarithm(arrange: Callable[[int], list[Time]], number: int) -> None:
    """Of many epochs in flight, however they came, one after the other completes."""
    counts = filled(arrange(number))
    assert cost(counts, take_least(counts, number)) < 4 * number * log2(number)
    assert len(counts) == 0
    assert not counts._below


@pytest.mark.parametrize("number", [1_000, 10_000])
def test_a_window_that_moves_on_costs_the_logarithm(number: int) -> None:
    """As many epochs begin as complete, in a batch or by themselves; those in flight stay as many."""
    counts = filled(in_order(number))
    moves = ([(time, -1), (time + number, 1)] for time in range(number))
    assert cost(counts, moves) < 4 * number * log2(number)
    singles = ([change] for time in range(number, 2 * number) for change in ((time + number, 1), (time, -1)))
    assert cost(counts, singles) < 4 * number * log2(number)
    assert (len(counts), len(counts._below)) == (number, number)


@pytest.mark.parametrize("number", [1_000, 10_000])
def test_what_comes_and_goes_behind_a_frontier_costs_next_to_nothing(number: int) -> None:
    """While an early epoch stays open, later ones cost one comparison each, and none to take away in any order."""
    counts = filled([0])
    assert cost(counts, ([(time, 1)] for time in range(1, number))) == number - 1
    assert cost(counts, ([(time, -1)] for time in shuffled(number) if time)) < number
    assert list(counts.frontier) == [0]


def test_the_least_that_comes_and_goes_does_not_disturb_the_rest() -> None:
    """An earlier time that is put before many others and taken away again costs a few comparisons each time."""
    counts = filled(in_order(5_000))
    for _ in range(2):
        counts.update([(0, -1)])
        counts.update([(0, 1)])
    assert cost(counts, ([(0, change)] for _ in range(1_000) for change in (-1, 1))) < 10_000


def test_unordered_times_cost_as_much_as_the_frontier_is_wide() -> None:
    """Two processes whose clocks run on by themselves: the logarithm, twice."""
    number = 4_000
    counts = MutableAntichain(CountingClocks(processes=2))
    for time in shuffled(number):
        counts.update([((time + 1, 0), 1), ((0, time + 1), 1)])

    def take_both() -> Plan:
        for time in range(1, number + 1):
            assert set(counts.elements()) == {(time, 0), (0, time)}
            yield [((time, 0), -1)]
            yield [((0, time), -1)]

    assert cost(counts, take_both()) < 4 * 2 * number * 2 * log2(number)
    assert len(counts) == 0


@pytest.mark.parametrize("live", [0, 10, 500])
def test_no_more_is_remembered_than_is_counted(live: int) -> None:
    """Behind a frontier that stays, times that are gone are forgotten: twice those that are counted, and a few."""
    counts = filled([0, *range(1_000_000, 1_000_000 + live)])
    most = 0
    for time in range(1, 20_000):
        counts.update([(time, 1)])
        counts.update([(time, -1)])
        most = max(most, len(counts._below))
        assert sum(map(len, counts._below.values())) < len(counts._below)
    assert most <= 2 * len(counts) + 100
    assert len(counts) == live + 1


def test_no_more_is_remembered_when_many_go_at_once() -> None:
    """A burst of ten thousand times that is over leaves next to nothing behind when the next few have come."""
    counts = filled([0])
    counts.update([(time, 1) for time in range(1, 10_000)])
    counts.update([(time, -1) for time in range(1, 10_000)])
    for time in range(10_000, 10_040):
        counts.update([(time, 1)])
    assert len(counts._below) <= 2 * len(counts) + 100


def test_times_counted_below_zero_are_not_hung_anywhere() -> None:
    """Reports that come before what they undo are counted, and no more."""
    counts = filled([0])
    for time in range(1, 5_000):
        counts.update([(time, -1)])
    assert (len(counts), len(counts._below)) == (5_000, 1)
    for time in range(1, 5_000):
        counts.update([(time, 1)])
    assert (len(counts), len(counts._below)) == (1, 1)
