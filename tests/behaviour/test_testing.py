"""A user's own tests find dataflows that do not go on after crashes."""

from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.testing import Crash, check_crashes, run_with_crash

NUMBERS = {"numbers": [[3, 1, 2], [5, 3], [4, 4], [1, 6, 2]]}


def described(build: Callable[[tw.Stream[int]], tw.Stream[Any]]) -> Callable[[], tw.Dataflow]:
    def describe() -> tw.Dataflow:
        flow = tw.Dataflow("test")
        build(flow.input("numbers")).capture("results")
        return flow

    return describe


def walk(numbers: tw.Stream[int]) -> tw.Stream[int]:
    """Send each number round a loop as often as it says."""
    return numbers.iterate(lambda left: (left.map(lambda n: n - 1).filter(lambda n: n > 0), left))


@pytest.mark.parametrize("build", [walk, lambda numbers: numbers.exchange(lambda n: n).count()], ids=["loop", "count"])
def test_a_dataflow_that_keeps_its_state_passes(build: Any) -> None:
    """State of operators of the library, and records on their way round a loop, are in the snapshot."""
    check_crashes(described(build), NUMBERS, workers=(2,), crashes=8)


def build_forgetful(context: tw.OperatorContext) -> Any:
    total = 0

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        nonlocal total
        for token, batch in input:
            total += sum(batch)
            output.send(token, [total])

    return schedule


def test_state_in_a_variable_is_found() -> None:
    """The error says what differs, when the run crashed, and the seed by which it can be repeated."""
    forgetful = described(lambda numbers: numbers.unary(build_forgetful, name="total"))
    with raises(AssertionError):
        check_crashes(forgetful, NUMBERS, workers=(1,), seed=7)


def test_a_crash_can_be_chosen() -> None:
    """One run has one crash, at a moment that the test chooses; before the first epoch too."""
    describe = described(walk)
    undisturbed = run_with_crash(describe, NUMBERS, None)
    assert run_with_crash(describe, NUMBERS, Crash(0, 0, 4, 3, 1, 1)) == undisturbed
    assert run_with_crash(describe, NUMBERS, Crash(2, 1, 2, 1, 2, 2)) == undisturbed
