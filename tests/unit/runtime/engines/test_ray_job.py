"""A job on Ray that goes back to a snapshot, seen by threads that wait; without Ray."""

import threading
from collections.abc import Callable

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.list_feed import ListFeed
from tests.links.link_kind import Task
from tidewheel.runtime.engines.job_life import JobLife
from tidewheel.runtime.engines.ray_job import RayJob
from tidewheel.runtime.inputs.driver_handles import DriverHandles

DEADLINE_S = 30.0


@pytest.fixture
def job(feed: ListFeed, handle: tw.types.InputHandle, monkeypatch: pytest.MonkeyPatch) -> RayJob:
    """A job with one input and no workers."""
    made = object.__new__(RayJob)
    made.name, made._life, made._handles = "job", JobLife("job"), DriverHandles("job")
    made._feed = feed  # type: ignore[assignment]
    monkeypatch.setattr(made, "_timed_out", lambda *_: TimeoutError())
    feed.inputs[handle.name] = handle._fed
    return made


def waits(job: RayJob, looked: threading.Event, condition: Callable[[], bool] = lambda: False) -> Task:
    """Begin to wait on a thread, and return it once it waits."""

    def look() -> bool:
        looked.set()
        return condition()

    looked.clear()
    task = Task(lambda: job._wait_for(look, "something", DEADLINE_S))
    assert looked.wait(DEADLINE_S)
    return task


def goes_back(job: RayJob, handle: tw.types.InputHandle, position: tw.types.InputPosition) -> None:
    with job._life.changed:
        handle._go_back(handle._feed, handle.number, position)
        job._life.changed.notify_all()


def test_each_thread_that_waits_is_told(job: RayJob, handle: tw.types.InputHandle) -> None:
    """The handle was closed, so no thread would use it again. One that waits again is not told again."""
    saved, looked = handle.position, threading.Event()
    handle.send([1])
    handle.close()
    waiting = [waits(job, looked) for _ in range(3)]
    goes_back(job, handle, saved)
    for task in waiting:
        with raises(tw.JobRolledBack):
            task.join(DEADLINE_S)
    with pytest.raises(tw.JobRolledBack):
        job._wait_for(lambda: False, "something", DEADLINE_S)
    with pytest.raises(TimeoutError):
        job._wait_for(lambda: False, "something", 0.0)
    handle.send([1])


def test_a_wait_does_not_end_as_if_all_had_come(
    job: RayJob, handle: tw.types.InputHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread uses the handle just when a waiting one has seen that it is open again."""
    saved = handle.position
    handle.close()
    goes_back(job, handle, saved)

    def use() -> None:
        handle.is_reopened = False

    def check_alive() -> None:
        next(looks)()

    looks = iter([lambda: None, use])  # before the wait, and after it
    monkeypatch.setattr(job._life, "check_alive", check_alive)
    with pytest.raises(tw.JobRolledBack):
        job._wait_for(lambda: False, "something", DEADLINE_S)
    handle.close()


def test_who_has_sent_and_waits_is_told(job: RayJob, handle: tw.types.InputHandle) -> None:
    """Else it would wait for ever for what it has to send again; another thread waits on."""
    saved, looked, comes = handle.position, threading.Event(), threading.Event()
    other = waits(job, looked, comes.is_set)
    handle.send([1])
    goes_back(job, handle, saved)
    job._wait_for(lambda: True, "what the snapshot has", DEADLINE_S)
    with pytest.raises(tw.JobRolledBack):
        job._wait_for(lambda: False, "what is missing", DEADLINE_S)
    handle.send([1])
    comes.set()
    with job._life.changed:
        job._life.changed.notify_all()
    other.join(DEADLINE_S)


class Workers:
    """Workers one of which dies when they are to start; the job is told of that, or goes back, on another thread."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self.told: list[Task] = []

    def call(self, *_: object) -> None:
        self.told.append(Task(self._then))
        raise tw.JobError("worker 1 died while it came up", worker=1)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_job_whose_worker_dies_as_it_starts_goes_back(job: RayJob, *, is_replaced: bool) -> None:
    """Which starts the other workers, so `start` only waits for that; it raises the error if the job has failed."""

    def then() -> None:
        with job._life.changed:
            if is_replaced:
                job._life.goes_back = True
            else:
                job._life.error = tw.JobError("worker 1 died, and was the last that may")
            job._life.changed.notify_all()
        job._life.have_gone_back()

    job._lock, job.workers = threading.RLock(), 2
    workers = Workers(then)
    job._workers = workers  # type: ignore[assignment]
    if is_replaced:
        job.start()
    else:
        with raises(tw.JobError):
            job.start()
    workers.told[0].join(DEADLINE_S)
