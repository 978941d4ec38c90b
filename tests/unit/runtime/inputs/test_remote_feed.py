"""The end of the link of a process to which handles were handed: it leaves when they are closed, and not before."""

import threading
from typing import Any

import pytest

import tidewheel as tw
from tests.links.link_kind import Task
from tests.unit.runtime.inputs.test_ray_feed import DEADLINE_S, Workers
from tidewheel.progress import IntegerDomain
from tidewheel.runtime.inputs import remote_feed
from tidewheel.runtime.inputs.feeders import FeederStatus
from tidewheel.runtime.inputs.ray_feed import FeedAddress
from tidewheel.runtime.inputs.remote_feed import RemoteFeed
from tidewheel.runtime.worker.envelope import Envelope, Phase, WorkerStatus
from tidewheel.runtime.worker.worker_report import BusyWorker, WorkerReport

HANDLE = 5


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> RemoteFeed:
    """Return a feed that is linked to two workers of the test, and whose claims are granted."""

    def connect(feed: Any) -> None:
        feed.sender = workers
        feed._receiver = workers.receiver

    def claim(feed: Any, handle: int, name: str) -> None:
        feed._claimed.add(handle)

    workers = Workers()
    monkeypatch.setattr(RemoteFeed, "_connect", connect)
    monkeypatch.setattr(RemoteFeed, "_claim", claim)
    address = FeedAddress("job", [None, None], None, {"numbers": IntegerDomain()}, {}, tw.RuntimeConfig())
    return RemoteFeed(address)


def said(sent: list[tuple[int, Envelope]]) -> list[tuple[int, str]]:
    """Return what each worker was told, but for signs of life."""
    found: list[tuple[int, str]] = [
        (worker, command.action) for worker, envelope in sent for command in envelope.commands
    ]
    for worker, envelope in sent:
        if isinstance(envelope.status, FeederStatus) and envelope.status.is_leaving:
            found.append((worker, "leave"))
    return found


def test_worker_0_is_left_last(feed: RemoteFeed) -> None:
    """It watches over this process until all others have what was sent; closing waits for that."""
    workers: Any = feed.sender
    feed.take_over("numbers", HANDLE, 0).close()
    assert said(workers.sent) == [(0, "close"), (1, "close"), (1, "leave"), (0, "leave")]
    assert workers.is_closed
    with pytest.raises(tw.JobError, match="has closed all its handles"):
        feed.check_alive()


def test_it_does_not_leave_before_it_has_said_that_a_handle_is_closed(feed: RemoteFeed) -> None:
    """The thread may look at any moment while a handle is closed: here, after one worker was told of two."""
    workers: Any = feed.sender
    handle = feed.take_over("numbers", HANDLE, 0)
    looks: list[Task] = []
    send = workers.send

    def send_and_look(peer: int, item: Envelope) -> int:
        size: int = send(peer, item)
        if item.commands and not looks:
            looks.append(Task(feed._go_on))
            with pytest.raises(AssertionError):
                looks[0].join(0.2)
        return size

    vars(workers)["send"] = send_and_look
    handle.close()
    looks[0].join()
    assert said(workers.sent)[:2] == [(0, "close"), (1, "close")]


def test_worker_0_is_told_nothing_after_the_leave(feed: RemoteFeed) -> None:
    """It has forgotten this process by then and would count no further envelope, so closing would wait for ever."""
    workers: Any = feed.sender
    send, is_answered = workers.send, threading.Event()

    def send_and_stay_silent(peer: int, item: Envelope) -> int:
        leaves = isinstance(item.status, FeederStatus) and item.status.is_leaving and peer == 0
        if leaves:
            workers.silent.add(0)
            feed._look()  # as the thread does every second; before the answer is there
            feed._tell(0)  # as a wait on another thread does
            workers.tell(0, WorkerStatus(Phase.RUNNING, heard=item.sequence + 1))
            is_answered.set()
        size: int = send(peer, item)
        return size

    vars(workers)["send"] = send_and_stay_silent
    closing = Task(feed.take_over("numbers", HANDLE, 0).close)
    assert is_answered.wait(DEADLINE_S)
    closing.join(DEADLINE_S)
    assert said(workers.sent)[-1] == (0, "leave")
    assert workers.sent[-1][1].status.is_leaving


def test_closing_ends_with_an_error_if_the_workers_do_not_answer(
    feed: RemoteFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that runs an operator for long is waited for; one that has nothing to do should have answered."""
    reports: list[list[WorkerReport | BusyWorker]] = [[BusyWorker(0), BusyWorker(1)], [BusyWorker(0, "slow")]]
    monkeypatch.setattr(remote_feed, "ask_workers", lambda actors, job: reports.pop())
    workers: Any = feed.sender
    workers.silent.add(1)
    handle = feed.take_over("numbers", HANDLE, 0)
    object.__setattr__(feed._address, "config", tw.RuntimeConfig(hang_timeout_s=1.0))
    with pytest.raises(tw.JobError, match=r"for 1 s, worker .*1 has not confirmed"):
        handle.close()
    assert not reports
    feed.close()
