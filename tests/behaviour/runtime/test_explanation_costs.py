"""The cost of an explanation where many tokens hold a frontier back."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import DEADLINE_S, settle
from tests.kit.runtime.stuck_flows import deploy, reading
from tidewheel.runtime.description.plan import Schedule

LEAKED = (
    "nothing schedules {!r} again. Unless a thread still works on it, which then has to call context.activate(), the "
)


def waiting(context: tw.OperatorContext) -> Schedule:
    """Build an operator that keeps its initial token until its input ends."""
    token = context.token()

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        if token.is_live and not len(input.frontier):
            token.discard()

    return schedule


def keeping(count: int) -> tw.Dataflow:
    """Return a dataflow of so many operators in a row that each keep a token."""
    flow = tw.Dataflow("keeping")
    stream = flow.input("numbers")
    for number in range(count):
        stream = stream.unary(waiting, name=f"keep {number}")
    stream.probe("done")
    return flow


def side_by_side(count: int) -> tw.Dataflow:
    """Return a dataflow of so many windows that are fed by one input, by way of as many operators in a row."""
    flow = tw.Dataflow("windows")
    stream = flow.input("numbers")
    for number in range(count):
        stream = stream.unary(reading(lambda worker: True), name=f"pass {number}")
    made = [stream.unary(waiting, name=f"window {number}") for number in range(count)]
    made[0].concat(*made[1:]).probe("done")
    return flow


def calls(function: Callable[[], object]) -> int:
    """Count the calls of Python functions meanwhile."""
    counted: Iterator[int] = iter(range(sys.maxsize))

    def count(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            next(counted)

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return next(counted)


@pytest.mark.parametrize("describe", [keeping, side_by_side])
def test_explaining_is_linear_in_the_holders(describe: Callable[[int], tw.Dataflow]) -> None:
    """Of four times as many operators that keep tokens, explaining takes about four times as many steps."""
    steps, found = [], []
    for count in (30, 120):
        with deploy(describe(count), 1) as job:
            job.input("numbers").advance_to(1)
            settle(job)
            steps.append(calls(lambda: job.explain("done")))
            found.append(len(job.explain("done").holders))
            job.input("numbers").close()
            job.wait(DEADLINE_S)
    assert steps[1] < 6 * steps[0]
    assert found == [31, 121]
