"""A recovery that begins while its job ends; without Ray."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

import tidewheel as tw
from tests.links.link_kind import Task
from tidewheel.runtime.engines import recovery
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

    job: Any = SimpleNamespace(name="job", dataflows={}, _go_back=lambda _: None)
    snapshots: Any = SimpleNamespace(restarts=1, describe=lambda: "snapshot 1")
    seen = SimpleNamespace(**{**vars(threading), "Thread": LateThread, "Lock": lambda: NotedLock(arrived)})
    monkeypatch.setattr(recovery, "threading", seen)
    recovering = Recovery(job, snapshots)
    assert recovering.takes_on(DIED)
    closing[0].join(DEADLINE_S)
    assert not recovering.takes_on(DIED)


def test_a_job_with_added_dataflows_does_not_go_back(caplog: pytest.LogCaptureFixture) -> None:
    """They keep no snapshots, so they cannot. A warning names them, and says what to do."""
    job: Any = SimpleNamespace(name="job", dataflows={"second": None}, _go_back=lambda _: None)
    snapshots: Any = SimpleNamespace(restarts=1, describe=lambda: "snapshot 1")
    assert not Recovery(job, snapshots).takes_on(DIED)
    assert (
        "job 'job' does not go back to a snapshot, as it has added dataflows, which keep none: 'second'" in caplog.text
    )
