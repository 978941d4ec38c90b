"""Jobs with one operator between an input and a capture, for tests of what an operator may do with its tokens."""

from collections.abc import Callable
from typing import Any, TypeAlias

import tidewheel as tw
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.engines.local_job import LocalJob

DEADLINE_S = 60.0
MOST_ROUNDS = 5000

Results: TypeAlias = list[tuple[Any, Any]]
"""(time, batch) of what was captured."""


def scheduled(schedule: Callable[..., None]) -> Build:
    """Return a build function for a schedule function that keeps nothing and needs no context."""

    def build(context: tw.OperatorContext) -> Schedule:
        return schedule

    return build


def ignore(input: tw.InputPort, output: tw.OutputPort) -> None:
    """Take what comes and send nothing."""
    for _ in input:
        pass


def flow_of(build: Build, name: str = "subject") -> tw.Dataflow:
    """Return a dataflow of the input ``numbers``, the operator, and the capture ``results``."""
    flow = tw.Dataflow("test")
    flow.input("numbers").unary(build, name=name).probe("done").capture("results")
    return flow


def run_flow(flow: tw.Dataflow, *epochs: list[int], workers: int = 1) -> Results:
    """Send each batch at the next epoch, close, wait, and return what was captured."""
    with tw.run(flow, workers=workers, engine="local") as job:
        feed(job, *epochs)
        job.wait(DEADLINE_S)
        return captured(job)


def run_operator(schedule: Callable[..., None], *epochs: list[int], workers: int = 1) -> Results:
    """Run a job with the operator that ``schedule`` is."""
    return run_flow(flow_of(scheduled(schedule)), *epochs, workers=workers)


def fail_operator(schedule: Callable[..., None], *epochs: list[int]) -> tw.JobError:
    """Run a job that is to fail in the operator that ``schedule`` is, and return its error."""
    return fail_flow(flow_of(scheduled(schedule)), *epochs)


def fail_flow(flow: tw.Dataflow, *epochs: list[int], workers: int = 1) -> tw.JobError:
    """Run a job that is to fail, and return its error."""
    try:
        run_flow(flow, *epochs, workers=workers)
    except tw.JobError as error:
        return error
    raise AssertionError("the job should have failed")


def feed(job: tw.types.Job, *epochs: list[int], close: bool = True) -> None:
    """Send each batch to the input ``numbers`` at the next epoch, and close it unless told not to."""
    for time, batch in enumerate(epochs):
        job.input("numbers").advance_to(time)
        job.input("numbers").send(batch)
    if close:
        job.input("numbers").close()


def captured(job: tw.types.Job, name: str = "results") -> Results:
    """Return what was captured so far."""
    return [(result.time, result.batch) for result in job.captured(name)]


def settle(job: tw.types.Job) -> None:
    """Run a local job until it has nothing left to do."""
    assert isinstance(job, LocalJob)
    for _ in range(MOST_ROUNDS):
        if not job.run_round():
            return
    raise AssertionError(f"there is no end after {MOST_ROUNDS} rounds")
