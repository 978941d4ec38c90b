"""Dataflows that get stuck for one reason each, for tests of what is said about that."""

from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import scheduled
from tidewheel.progress import SpreadName
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.engines.local_job import LocalJob

every_spread = pytest.mark.parametrize("progress", ["broadcast", "accumulated"])


def deploy(
    flow: tw.Dataflow, workers: int = 2, progress: SpreadName = "broadcast", *, paused: bool = False
) -> LocalJob:
    """Deploy on the local engine."""
    job = tw.run(flow, workers=workers, engine="local", config=tw.RuntimeConfig(progress=progress), paused=paused)
    assert isinstance(job, LocalJob)
    return job


def straight() -> tw.Dataflow:
    """Return a dataflow in which nothing can get stuck but its input: two operators once it is fused."""
    flow = tw.Dataflow("straight")
    flow.input("numbers").map(str).exchange(lambda text: text).filter(bool).probe("done").capture("results")
    return flow


def hoarding(kept: list[tw.TimestampToken], at: Callable[[Any], Any] = lambda time: time) -> Build:
    """Return an operator that keeps a token for each message, at a time that may be later, and sends the message on."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            kept.append(lent.delayed(at(lent.time)))
            output.send(lent, batch)

    return scheduled(schedule)


def reading(on_worker: Callable[[int], bool]) -> Build:
    """Return an operator that passes on what it gets on some workers, and on the others does not even read it."""

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input if on_worker(context.worker) else ():
                output.send(lent, batch)

        return schedule

    return build


def endless() -> tw.Dataflow:
    """Return a dataflow whose loop feeds back what it gets, for ever."""

    def body(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        spread = numbers.exchange(lambda number: number)
        return spread, spread.filter(lambda number: False)

    flow = tw.Dataflow("endless")
    flow.input("numbers").iterate(body, name="ring").probe("done")
    return flow


def ticking(kept: list[tw.TimestampToken]) -> tw.Dataflow:
    """Return a dataflow whose only operator without inputs keeps its initial token."""

    def build(context: tw.OperatorContext) -> Schedule:
        kept.append(context.token())
        return lambda output: None

    flow = tw.Dataflow("ticking")
    (ticks,) = flow.operator([], 1, build, name="ticker")
    ticks.map(str).probe("done")
    return flow


def words(holder: Any) -> tuple[Any, ...]:
    """Return what a holder says but for its texts."""
    return holder.operator, holder.time, holder.workers, holder.route, holder.path.describe(), holder.arrives


def windows(context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends the sum of ten epochs with the token of the first that it got."""
    held: dict[int, tuple[tw.TimestampToken, list[int]]] = {}

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            window = lent.time // 10
            if window not in held:
                held[window] = (lent.retain(), [])
            held[window][1].extend(batch)
        for window in [one for one in held if not input.frontier.less_equal(10 * one + 9)]:
            token, records = held.pop(window)
            with token:
                output.send(token, [sum(records)])

    return schedule
