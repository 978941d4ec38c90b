"""Which worker reads which partition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tidewheel.operators.sources.contract import Partition
from tidewheel.operators.sources.dealing import Deal, Dealing, DealPact, reader_of


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 5))
def test_partitions_are_spread_evenly(arrivals: list[int], workers: int) -> None:
    """However many come at a time, the loads of two workers differ by at most one."""
    dealing, there, loads = Dealing(), list[str](), [0] * workers
    for number, count in enumerate(arrivals):
        there += [f"{number}-{one}" for one in range(count)]
        for deal in dealing.deal(there, set(), workers):
            loads[reader_of(deal.number, workers)] += 1
    assert sum(loads) == len(there)
    assert max(loads) - min(loads) <= 1
    assert len(set(dealing.numbers.values())) == len(there)


def test_a_worker_whose_partitions_have_ended_gets_the_next() -> None:
    """It has the fewest."""
    dealing = Dealing()
    dealing.deal(["a", "b", "c", "d"], set(), 2)
    deals = dealing.deal(["a", "b", "c", "d", "e", "f"], {"b", "d"}, 2)
    assert [reader_of(deal.number, 2) for deal in deals] == [1, 1]


def test_each_is_dealt_once() -> None:
    """As long as it is listed; a name that was listed no more after its end is free."""
    dealing = Dealing()
    ended: set[Partition] = {"a"}
    assert len(dealing.deal(["a", "b"], set(), 1)) == 2
    assert dealing.deal(["a", "b", "b"], ended, 1) == []
    assert dealing.deal(["b"], ended, 1) == []
    assert ended == set()
    assert [deal.partition for deal in dealing.deal(["a", "b"], ended, 1)] == ["a"]


def test_a_partition_that_is_not_listed_and_has_not_ended_stays() -> None:
    """A list may be late."""
    dealing = Dealing()
    dealing.deal(["a"], set(), 1)
    assert dealing.deal([], set(), 1) == []
    assert dealing.deal(["a"], set(), 1) == []


@pytest.mark.parametrize("name", [None, 1.5, True, ("a", 1)])
def test_a_name_is_a_string_or_an_integer(name: object) -> None:
    """Others may not be equal after they were pickled, or cannot be shown."""
    with raises(TypeError):
        Dealing().deal([name], set(), 1)  # type: ignore[list-item]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_a_deal_on_its_way_goes_to_who_reads_the_partition(workers: int) -> None:
    """The pact and the state of readers agree for any number of workers."""
    deals = [Deal(number, f"{number}") for number in range(7)]
    for worker, part in enumerate(DealPact().split(deals, workers)):
        assert [reader_of(deal.number, workers) for deal in part or []] == [worker] * len(part or [])
