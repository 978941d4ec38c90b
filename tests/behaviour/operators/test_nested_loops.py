"""Loops within loops, three deep."""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.operators.harness import LISTS, Case, bags, expected, feeds, operator_settings, run


class Odometer(NamedTuple):
    """Three digits that count down, the last one fastest, and how often one of them was turned."""

    high: int
    middle: int
    low: int
    turns: int = 0


Digits: TypeAlias = tw.Stream[Odometer]
Both: TypeAlias = tuple[Digits, Digits]


def start(number: int) -> Odometer:
    return Odometer(abs(number) % 3, abs(number) // 3 % 3, abs(number) // 9 % 3)


def innermost(digits: Digits) -> Both:
    turning = digits.exchange(lambda odometer: odometer.low)
    again = turning.filter(lambda odometer: odometer.low > 0).map(
        lambda odometer: odometer._replace(low=odometer.low - 1, turns=odometer.turns + 1)
    )
    return again, turning.filter(lambda odometer: odometer.low == 0)


def middle(digits: Digits) -> Both:
    zeros = digits.iterate(innermost, name="innermost")
    again = zeros.filter(lambda odometer: odometer.middle > 0).map(
        lambda odometer: odometer._replace(middle=odometer.middle - 1, low=2, turns=odometer.turns + 1)
    )
    return again, zeros.filter(lambda odometer: odometer.middle == 0)


def outermost(digits: Digits) -> Both:
    zeros = digits.iterate(middle, name="middle").exchange(lambda odometer: odometer.high)
    again = zeros.filter(lambda odometer: odometer.high > 0).map(
        lambda odometer: odometer._replace(high=odometer.high - 1, middle=2, low=2, turns=odometer.turns + 1)
    )
    return again, zeros.filter(lambda odometer: odometer.high == 0)


def turns(numbers: Iterable[int]) -> list[int]:
    """Count the turns in plain Python: the digits are the number to base three."""
    return [9 * digits.high + 3 * digits.middle + digits.low for digits in map(start, numbers)]


@operator_settings(20)
@given(feeds(), st.integers(1, 3))
def test_three_loops_count_like_three_digits(feed: Any, workers: int) -> None:
    """A record that goes round the inner loop again for each round of the outer ones ends where plain Python does."""
    results = run(
        lambda stream: stream.map(start).iterate(outermost, name="outermost").map(lambda odometer: odometer.turns),
        Case(feed, LISTS, workers),
    )
    assert bags(results) == expected(feed, turns)


def test_times_have_a_coordinate_for_each_loop() -> None:
    """Three loops in, a time is (((t, round), round), round), and leaving takes one away."""
    times: dict[str, Any] = {}

    def noting(name: str) -> Any:
        def build(context: tw.OperatorContext) -> Any:
            def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
                for token, batch in input:
                    times[name] = token.time
                    output.send(token, batch)

            return schedule

        return build

    def describe(stream: tw.Stream[int]) -> tw.Stream[int]:
        with stream.flow.scope("a") as a, a.inner("b") as b, b.inner("c") as c:
            assert c._scope.path == "a/b/c"
            inside = stream.enter(a).enter(b).enter(c).unary(noting("inside"), name="inside")
            return inside.leave().unary(noting("between"), name="between").leave().leave()

    results = run(describe, Case([(4, [1])]))
    assert [(result.time, result.batch) for result in results] == [(4, [1])]
    assert times == {"inside": (((4, 0), 0), 0), "between": ((4, 0), 0)}
