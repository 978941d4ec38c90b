"""What an operator keeps is where the runtime finds it: built anew from that, it goes on as if nothing had happened."""

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.operators.all_cases import all_cases
from tests.kit.operators.harness import DEADLINE_S, MOST_ROUNDS, Bags, Feed, feeds, operator_settings
from tests.kit.operators.operator_case import OperatorCase, plain_bags
from tidewheel.operators.sources.source import source_build
from tidewheel.runtime.description.plan import OperatorPlan, Schedule
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.worker.operator_context import instance_of
from tidewheel.runtime.worker.operator_instance import OperatorInstance
from tidewheel.runtime.worker.worker_core import WorkerCore

MOST_REBUILT = 100
"""In so many rounds operators are built anew; each time, some open an event loop, with files, until the job ends."""


class ContextWithNotificators(tw.OperatorContext):
    """The context of an operator that finds its notificators again."""

    def __init__(self, core: WorkerCore, instance: OperatorInstance) -> None:
        super().__init__(core, instance, [""] * core.workers)
        self._known = iter(instance.kept.notificators)

    def notificator(self) -> tw.Notificator:
        return next(self._known)


def build_anew(core: WorkerCore, instance: OperatorInstance, operator: OperatorPlan) -> None:
    """Build an operator again with a copy of its state and its notificators; all else that it kept is gone."""
    instance.kept.states = pickle.loads(pickle.dumps(instance.kept.states))
    if operator.stages:
        instance.use_stages(operator.stages)
    else:
        instance.schedule = operator.build(ContextWithNotificators(core, instance))


def run_round(job: LocalJob) -> bool:
    """Run a round, then build all operators anew that have inputs; sources take a token when they are built."""
    has_run = job.run_round()
    for core in job._cores:
        for instance, operator in zip(core._instances, job.plan.operators, strict=True):
            if instance.inputs:
                build_anew(core, instance, operator)
    return has_run


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_an_operator_that_is_built_anew_after_every_round_goes_on(case: OperatorCase) -> None:
    """The result is what plain Python says, though nothing is left of what an operator kept in variables of its own."""

    @operator_settings(max_examples=8)
    @given(feeds(), st.sampled_from(case.kinds), st.sampled_from((1, 2)))
    def holds(feed: Feed, kind: Any, workers: int) -> None:
        flow = tw.Dataflow("test")
        case.describe(flow.input("numbers")).capture("results")
        with tw.run(flow, workers=workers, engine="local") as job:
            assert isinstance(job, LocalJob)
            with job.input("numbers") as handle:
                for time, numbers in feed:
                    handle.advance_to(time)
                    handle.send(kind.make(numbers))
                    run_round(job)
            rounds = MOST_REBUILT
            while run_round(job) and rounds:
                rounds -= 1
            job.wait(DEADLINE_S)
            assert plain_bags(job.captured("results")) == case.expected(feed)

    holds()


def read_on(source: Any, states: list[dict[str, Any]], rounds: int) -> Bags:
    """Run a source on two workers, which go on from ``states``, for some rounds; keep what it keeps there."""
    build = source_build("source", source, None, 1)

    def build_from_state(context: tw.OperatorContext) -> Schedule:
        instance_of(context).kept.states = pickle.loads(pickle.dumps(states[context.worker]))
        return build(context)

    flow = tw.Dataflow("test")
    (stream,) = flow.operator("source", [], 1, build_from_state)
    stream.capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        assert isinstance(job, LocalJob)
        for _ in range(rounds):
            job.run_round()
        states[:] = [core._instances[0].kept.states for core in job._cores]
        results = plain_bags(job.captured("results"))
        job.stop()
    return results


def lines_in(folder: Path) -> tw.LineSource:
    """Return a source over three files of which each has three lines."""
    for name in "abc":
        (folder / name).write_text("".join(f"{name}{number}\n" for number in range(3)))
    return tw.LineSource(folder, batch_size=1, epoch_every="file")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "records": lambda folder: tw.RecordSource(range(20), batch_size=2, epoch_every=3),
    "lines": lines_in,
    "replay": lambda folder: tw.ReplaySource([tw.Captured(time // 2, [time, time]) for time in range(9)]),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_a_source_goes_on_where_it_was(make: Callable[[Path], Any], rounds: int, tmp_path: Path) -> None:
    """How much was sent of each partition is state: built from that, a source sends the rest, and nothing twice."""
    source = make(tmp_path)
    whole = read_on(source, [{}, {}], MOST_ROUNDS)
    states: list[dict[str, Any]] = [{}, {}]
    first = read_on(source, states, rounds)
    rest = read_on(source, states, MOST_ROUNDS)
    assert bool(first) == bool(rounds)
    assert rest
    assert {time: first.get(time, Counter()) + rest.get(time, Counter()) for time in {*first, *rest}} == whole
