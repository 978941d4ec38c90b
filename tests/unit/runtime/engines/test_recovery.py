"""A recovery that begins while its job ends; without Ray."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

import tidewheel as tw
from tests.links.link_kind import Task
from tidewheel.runtime.engines import recovery
from tidewheel.runtime.engines.job_life import JobLife
from tidewheel.runtime.engines.recovery import Recovery

DEADLINE_S = 30.0
DIED = tw.JobError("worker 0 died", worker=0)


class NotedLock:
    """A lock that notes when a thread has to wait for it."""

    def __init__(self, arrived: threading.Event) -> None:
        self._lock = threading.Lock()
        self._arrived = arrived

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._arrived.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_job_can_end_while_a_recovery_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """`close` comes between the making of the thread and its start, and waits until it can join it."""
    arrived = threading.Event()
    closing: list[Task] = []

    class LateThread(threading.Thread):
        def start(self) -> None:
            closing.append(Task(recovering.close))
            assert arrived.wait(DEADLINE_S)
            super().start()

        def join(self, timeout: float | None = None) -> None:
            arrived.set()
            super().join(timeout)

    job: Any = SimpleNamespace(name="job", dataflows={}, _go_back=lambda *_: None)
    snapshots: Any = SimpleNamespace(restarts=1, describe=lambda: "snapshot 1")
    seen = SimpleNamespace(**{**vars(threading), "Thread": LateThread, "Lock": lambda: NotedLock(arrived)})
    monkeypatch.setattr(recovery, "threading", seen)
    recovering = Recovery(job, snapshots)
    assert recovering.takes_on(DIED)
    closing[0].join(DEADLINE_S)
    assert not recovering.takes_on(DIED)


def test_a_job_with_added_dataflows_does_not_go_back(caplog: pytest.LogCaptureFixture) -> None:
    """They keep no snapshots, so they cannot. A warning names them, and says what to do."""
    job: Any = SimpleNamespace(name="job", dataflows={"second": None}, _go_back=lambda *_: None)
    snapshots: Any = SimpleNamespace(restarts=1, describe=lambda: "snapshot 1")
    assert not Recovery(job, snapshots).takes_on(DIED)
    assert (
        "job 'job' does not go back to a snapshot, as it has added dataflows, which keep none: 'second'" in caplog.text
    )


class ComingUp:
    """A job whose deployments have the outcomes that a test decides, None for success, and its recovery."""

    def __init__(self, *outcomes: tw.JobError | None, restarts: int = 2) -> None:
        self._outcomes = iter(outcomes)
        self.returns = 0
        job: Any = SimpleNamespace(name="job", dataflows={}, _go_back=self._go_back, _life=JobLife("job"))
        job._give_up_going_back = lambda: None
        self.recovery = Recovery(job, cast(Any, SimpleNamespace(restarts=restarts, describe=lambda: "its beginning")))

    def _go_back(self, *_: object) -> None:
        self.returns += 1
        self.deploy()

    def deploy(self) -> None:
        outcome = next(self._outcomes)
        if outcome is not None:
            raise outcome


def test_a_worker_that_dies_before_the_job_runs_is_replaced() -> None:
    """As often as workers may die; a death later begins a recovery on a thread, as ever."""
    job = ComingUp(DIED, DIED, None)
    job.recovery.bring_up(job.deploy)
    assert job.returns == 2
    assert not job.recovery.takes_on(DIED)
    job = ComingUp(DIED, DIED, DIED, restarts=1)
    with pytest.raises(tw.JobError, match="worker 0 died"):
        job.recovery.bring_up(job.deploy)
    assert job.returns == 1


def test_a_death_that_the_deployment_does_not_see_counts() -> None:
    """The thread that watches the workers has seen it, while the last of them was deployed."""
    job = ComingUp(None)

    def deploy() -> None:
        assert job.recovery.takes_on(DIED)

    job.recovery.bring_up(deploy)
    assert job.returns == 1


def test_an_operator_that_fails_while_the_job_comes_up_fails_it() -> None:
    """It would fail again."""
    job = ComingUp(tw.JobError("operator 'a' failed on worker 0", operator="a", worker=0))
    with pytest.raises(tw.JobError, match="operator 'a' failed"):
        job.recovery.bring_up(job.deploy)
    assert job.returns == 0
