"""The end of the link of a process to which handles were handed: it leaves when they are closed, and not before."""

from typing import Any

import pytest

import tidewheel as tw
from tests.links.link_kind import Task
from tests.unit.runtime.inputs.test_ray_feed import Workers
from tidewheel.progress import IntegerDomain
from tidewheel.runtime.inputs.feeders import FeederStatus
from tidewheel.runtime.inputs.ray_feed import FeedAddress
from tidewheel.runtime.inputs.remote_feed import RemoteFeed
from tidewheel.runtime.worker.envelope import Envelope

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
