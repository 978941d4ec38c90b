"""The watch for workers that hang: time in which the driver itself stood still is not the worker's silence."""

from types import SimpleNamespace
from typing import Any

import pytest

import tidewheel as tw
from tidewheel.runtime.engines import ray_workers
from tidewheel.runtime.engines.ray_workers import WorkerWatch

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
    monkeypatch.setattr(ray_workers, "time", clock)
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
    with pytest.raises(tw.JobError, match=r"worker 0 of job 'job' \(process A\) hangs: .* for 6 s"):
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
    with pytest.raises(tw.JobError, match="process A"):
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
    with pytest.raises(tw.JobError, match="worker 1"):  # which was asked before
        watch.check()
