"""Calls by the name of a job whose workers are gone: they end in time, and wait for no other call."""

import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.messages import raises
from tests.waiting import WITHIN_S
from tidewheel.runtime.engines import job_by_name
from tidewheel.runtime.engines.job_by_name import JobByName
from tidewheel.runtime.engines.job_run import RunEndedError
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.door import Outcome, Posting
from tidewheel.runtime.worker.worker_actor import JobParts


class Gone:
    """A run whose workers have died."""

    workers = 2
    parts = JobParts(1, goes_back=True, inboxes=("payments",), inputs=(), lookups={})
    calls = 0

    def __init__(self, *, is_refused: bool) -> None:
        self.is_refused = is_refused

    def leave(self, worker: int, name: str, postings: Sequence[Posting], timeout_s: float) -> list[Outcome]:
        self.calls += 1
        raise RunEndedError(f"worker {worker} has died", is_refused=self.is_refused)

    def saved(self, worker: int, name: str) -> int:
        raise RunEndedError(f"worker {worker} has died", is_refused=True)


@pytest.mark.parametrize("timeout_s", [0, 0.5])
def test_sending_to_a_dead_worker_ends_in_time(monkeypatch: pytest.MonkeyPatch, timeout_s: float) -> None:
    """While the cluster still lists the run, a key lets `send` try again, and seldom."""
    gone = Gone(is_refused=False)
    monkeypatch.setattr(job_by_name, "find_run", lambda name: (SimpleNamespace(name="fraud"), gone))
    caught: list[BaseException] = []

    def send() -> None:
        try:
            JobByName("fraud", gone).input("payments").send([1], key="order 17", timeout_s=timeout_s)
        except TimeoutError as error:
            caught.append(error)

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    sending.join(WITHIN_S)
    assert len(caught) == 1
    assert gone.calls <= 2 + timeout_s / 0.2


def test_a_call_waits_no_longer_than_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although another call waits until the job has returned to a snapshot."""
    looked = threading.Event()

    def find(name: str) -> Any:
        looked.set()
        raise JobError("no job runs")

    monkeypatch.setattr(job_by_name, "find_run", find)
    job = JobByName("fraud", Gone(is_refused=True))
    caught: list[BaseException] = []

    def send_for_long() -> None:
        try:
            job.input("payments").send([1], timeout_s=4.0)
        except TimeoutError as error:
            caught.append(error)

    other = threading.Thread(target=send_for_long)
    other.start()
    assert looked.wait(WITHIN_S)
    begun_s = time.monotonic()
    with raises(TimeoutError):
        job.input("payments").send([1], timeout_s=0.1)
    assert time.monotonic() - begun_s < 2.0
    assert other.is_alive()
    other.join(WITHIN_S)
    assert len(caught) == 1
