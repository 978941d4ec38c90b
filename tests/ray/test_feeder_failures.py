"""Whoever feeds a job on Ray can fail it, here or in another process, and is told when it is over."""

import time
from functools import partial
from typing import Any

import pytest
import ray

import tidewheel as tw
from tests.waiting import eventually
from tidewheel.runtime.inputs.fed_job import FedJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
ENDS_WITHIN_S = 10.0
TOLD_WITHIN_S = 2.5


def fed_flow(name: str) -> tw.Dataflow:
    flow = tw.Dataflow(name)
    flow.input("numbers").probe("done")
    return flow


class Feeder:
    """Has a handle, in an actor."""

    def __init__(self, handles: list[tw.types.InputHandle]) -> None:
        self.told: list[str] = []
        [self.handle] = handles
        self.handle.send([1])
        FedJob(self.handle).when_over(lambda failure: self.told.append(str(failure)))

    def fail(self, reason: str) -> None:
        """Fail the job."""
        FedJob(self.handle).fail(reason)

    def has_been_told(self) -> list[str]:
        """Return what it was told of the job's end."""
        return self.told


def has_been_told(feeder: Any) -> bool:
    return len(ray.get(feeder.has_been_told.remote(), timeout=DEADLINE_S)) == 1


def test_another_process_fails_the_job() -> None:
    """Soon, with its reason; one more, which feeds the job as well, is told without having sent anything."""
    job = tw.run(fed_flow("fed"))
    actor: Any = ray.remote(Feeder)
    feeders = [actor.options(num_cpus=0).remote([job.input("numbers").clone()]) for _ in range(2)]
    try:
        ray.get([feeder.__ray_ready__.remote() for feeder in feeders], timeout=DEADLINE_S)
        job.input("numbers").close()
        feeders[0].fail.remote("it rains")
        with pytest.raises(tw.JobError, match="incomplete: input 'numbers' cannot be fed any more: it rains"):
            job.wait(timeout_s=ENDS_WITHIN_S)
        job.stop()
        for feeder in feeders:
            assert eventually(partial(has_been_told, feeder))
    finally:
        job.stop()
        for feeder in feeders:
            ray.kill(feeder)


@pytest.mark.parametrize("added", [pytest.param(False, marks=pytest.mark.long), True])
def test_another_process_learns_soon_that_the_job_was_stopped(added: bool) -> None:
    """Nothing tells it why its workers are gone, so it does not wait for that; also where the workers go on."""
    with tw.run(fed_flow("host")) as host:
        job = host.add(fed_flow("added")) if added else host
        actor: Any = ray.remote(Feeder)
        feeder = actor.options(num_cpus=0).remote([job.input("numbers")])
        try:
            ray.get(feeder.__ray_ready__.remote(), timeout=DEADLINE_S)
            job.stop()
            stopped_at = time.monotonic()
            assert eventually(partial(has_been_told, feeder))
            assert time.monotonic() - stopped_at < TOLD_WITHIN_S
        finally:
            ray.kill(feeder)
        host.stop()


@pytest.mark.parametrize("fails", [False, True])
def test_a_job_tells_those_who_feed_it_here(fails: bool) -> None:
    """That it has failed, and how, or that it was stopped; on a thread of its own."""
    told: list[Exception | None] = []
    flow = tw.Dataflow("fed")
    flow.input("numbers").map(lambda number: 1 // number).probe("done")
    job = tw.run(flow)
    FedJob(job.input("numbers")).when_over(told.append)
    if fails:
        job.input("numbers").send([0])
        assert eventually(lambda: bool(told))
        assert "ZeroDivisionError" in str(told[0])
    job.stop()
    assert [failure is not None for failure in told] == [fails]
