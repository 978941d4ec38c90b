"""The watch for workers that hang: time in which the driver itself stood still is not the worker's silence."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.runtime.engines import ray_workers, worker_watch
from tidewheel.runtime.engines.ray_workers import RayWorkers
from tidewheel.runtime.engines.worker_watch import WorkerWatch

HANG_TIMEOUT_S = 5.0


class Clock:
    """The time as the watch sees it, in seconds."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(worker_watch, "time", clock)
    return clock


@pytest.fixture
def watch(clock: Clock) -> WorkerWatch:
    """Watch two workers that never answer."""
    silent: Any = SimpleNamespace(live=SimpleNamespace(remote=lambda timeout_s: object()))
    return WorkerWatch("job", [silent, silent], ["process A", "process B"], HANG_TIMEOUT_S)


def test_a_worker_that_does_not_answer_hangs(clock: Clock, watch: WorkerWatch) -> None:
    """It has the time that an answer may take besides."""
    for _ in range(14):
        clock.now_s += 0.5
        watch.check()
    clock.now_s += 0.5
    with raises(tw.JobError):
        watch.check()


def test_a_machine_that_slept_has_no_workers_that_hang(clock: Clock, watch: WorkerWatch) -> None:
    """Nobody answered while everybody stood still."""
    watch.check()
    clock.now_s += 8 * 3600.0
    watch.check()
    for _ in range(9):
        clock.now_s += 0.5
        watch.check()
    clock.now_s += 1.0
    with raises(tw.JobError):
        watch.check()


def test_time_before_a_question_is_no_silence(clock: Clock, watch: WorkerWatch) -> None:
    """A worker that has answered, and is asked again, has all the time that there is for an answer."""
    clock.now_s += 2.0
    watch._ask(0)
    watch.check()
    for _ in range(2):
        clock.now_s += 2.0
        watch.check()
    clock.now_s += 1.1
    with raises(tw.JobError):  # which was asked before
        watch.check()


class Hosted:
    """Workers of which Ray knows nothing any more, and the job that they host."""

    name = "job"

    def __init__(self, raised: BaseException) -> None:
        self.failures: list[Exception] = []
        self.raised = raised
        self.workers = RayWorkers.__new__(RayWorkers)
        vars(self.workers).update(
            _job="job", _joined=(), _lock=threading.Lock(), _released=False, _hosted={"job": self}, _watch=self
        )

    def _fail(self, error: Exception) -> None:
        self.failures.append(error)

    def death_behind(self, error: Exception) -> None:
        """Ask Ray."""
        raise self.raised

    def wait(self, timeout_s: float) -> None:
        """Ask Ray."""
        raise self.raised


@pytest.mark.parametrize("raised", [SystemExit(1), RuntimeError("Ray has not been started yet")])
def test_a_job_fails_also_if_ray_was_shut_down(raised: BaseException) -> None:
    """Ray raises where the driver asks it for the reason of a failure, and on the thread that watches the workers."""
    hosted: Any = Hosted(raised)
    hosted.workers.fail(hosted, tw.JobError("out of order"))
    hosted.workers._watch_all(hosted.workers._watch)
    assert len(hosted.failures) == 2
    for failure in hosted.failures:
        assert "the driver lost contact with the workers of job 'job'" in str(failure)


def test_a_job_fails_if_its_driver_is_part_of_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its watch does not ask the other cluster for its workers."""
    hosted: Any = Hosted(AssertionError("the other cluster was asked"))
    vars(hosted.workers)["_joined"] = ("one:1", "first/raylet", "process")
    monkeypatch.setattr(ray_workers, "membership", lambda: ("two:2", "second/raylet", "process"))
    hosted.workers._watch_all(hosted.workers._watch)
    assert "this process has left the Ray cluster at one:1" in str(hosted.failures[0])
