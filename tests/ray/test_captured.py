"""Captured results on Ray: their place, and for how long they stay."""

import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import ray

import tidewheel as tw
from tidewheel.runtime.engines.captured import CapturedOnWorkers, Kept

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


def lengths(kept: Kept, add: int) -> Iterator[int]:
    """Yield how long the batches of a worker are, and something more."""
    yield from (len(batch) + add for _, batch in kept)


def capturing() -> tw.Dataflow:
    flow = tw.Dataflow("capturing")
    flow.input("numbers", int).probe("kept").capture("numbers")
    return flow


def test_it_is_as_of_when_it_was_asked_for() -> None:
    """Later batches are not in it, wherever it is looked at; it is a sequence like a list, also after the job."""
    with tw.run(capturing(), workers=2) as job:
        with job.input("numbers") as handle:
            assert list(job.probe("kept").frontier) == [0]
            assert job.captured("numbers") == []
            handle.send([1, 2, 3])
            handle.send([4])
            handle.advance_to(1)
            job.probe("kept").wait_until(1, DEADLINE_S)
            captured = job.captured("numbers")
            handle.send([5, 6])
        job.wait(DEADLINE_S)
        everything = job.captured("numbers")
        assert isinstance(captured, CapturedOnWorkers)

        yielded = [[ray.get(one) for one in made] for made in captured.on_workers(lengths, 10)]
        assert yielded == [[13], [11]]
    assert len(captured) == 2
    assert list(captured) == [tw.types.Captured(0, [1, 2, 3]), tw.types.Captured(0, [4])] == [captured[0], captured[1]]
    assert captured[1:] == [tw.types.Captured(0, [4])]
    assert len(everything) == 3
    assert captured != everything
    both = [*captured, *everything]
    assert captured + everything == both
    assert list(captured) + everything == both
    assert repr(captured) == "[Captured(time=0, batch=[1, 2, 3]), Captured(time=0, batch=[4])]"
    assert pickle.loads(pickle.dumps(captured)) == list(captured)
    assert tw.ReplaySource(captured) is not None


def test_what_cannot_be_pickled_is_told_at_once() -> None:
    """The capture is named; the error is that of the worker."""

    def lock(_: int) -> Any:
        return threading.Lock()

    flow = tw.Dataflow("capturing")
    flow.input("numbers").map(lock).capture("locks")
    with tw.run(flow, workers=1) as job:
        with job.input("numbers") as handle:
            handle.send([1])
        job.wait(DEADLINE_S)
        with pytest.raises(tw.JobError, match=r"(?s)capture 'locks' cannot be fetched.*cannot pickle"):
            job.captured("locks")


def test_a_worker_of_an_ended_job_makes_nothing() -> None:
    """Its last object says why."""
    with tw.run(capturing(), workers=1) as job:
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        captured = job.captured("numbers")
    assert isinstance(captured, CapturedOnWorkers)
    (made,) = captured.on_workers(lengths, 0)
    *_, last = made
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(last)
