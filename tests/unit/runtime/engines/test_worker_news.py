"""The driver's end of the link from its workers: statuses arrive as they are sent, and errors are told."""

import queue
import time
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from tidewheel.runtime.engines.worker_news import WorkerNews
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.worker.envelope import Envelope
from tidewheel.runtime.worker.envelope_codec import ENVELOPES
from tidewheel.runtime.worker.worker_status import Phase, WorkerStatus
from tidewheel.transport.errors import PeerLost
from tidewheel.transport.socket_address import DRIVER
from tidewheel.transport.socket_keys import SocketKeys
from tidewheel.transport.socket_link import SocketReceiver, SocketSender

DEADLINE_S = 30.0
NODE = "a"


@pytest.fixture
def told() -> "queue.Queue[Any]":
    return queue.Queue()


@pytest.fixture
def receiver() -> SocketReceiver[Envelope]:
    return SocketReceiver(NODE, ENVELOPES)


@pytest.fixture
def news(told: "queue.Queue[Any]", receiver: SocketReceiver[Envelope]) -> Iterator[WorkerNews]:
    """Return the driver's end for one worker; what it passes on is in ``told``."""
    job: Any = SimpleNamespace(name="job", take=lambda worker, status: told.put((worker, status)))
    workers: Any = SimpleNamespace(actors=[None], fail=lambda job, error: told.put(error))
    ours = WorkerNews(job, workers, receiver)
    with closing(ours):
        yield ours


def worker_of(receiver: SocketReceiver[Envelope]) -> SocketSender[Envelope]:
    return SocketSender(0, NODE, {DRIVER: receiver.address}, SocketKeys.make(), 1, ENVELOPES)


def soon() -> float:
    return time.monotonic() + DEADLINE_S


def test_a_status_is_passed_on(news: WorkerNews, receiver: SocketReceiver[Envelope], told: "queue.Queue[Any]") -> None:
    """The driver learns the worker's number and its status, and nothing of envelopes without one."""
    status = WorkerStatus(1, Phase.RUNNING, {"done": (3,)}, {DRIVER: 10})
    with closing(worker_of(receiver)) as sender:
        news.start(soon())
        sender.send(DRIVER, Envelope(0, 1, 0))
        sender.send(DRIVER, Envelope(0, 1, 1, status=status))
        assert told.get(timeout=DEADLINE_S) == (0, status)
    assert told.empty()


def test_a_worker_that_does_not_connect_is_named(news: WorkerNews) -> None:
    """Deploying fails in time, and can be cleaned up."""
    with pytest.raises(PeerLost, match="worker 0 did not connect"):
        news.start(time.monotonic())


def test_what_cannot_be_read_fails_the_job(
    news: WorkerNews, told: "queue.Queue[Any]", receiver: SocketReceiver[Envelope], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread does not end in silence."""

    def broken(timeout_s: float) -> list[Envelope]:
        raise RuntimeError("out of order")

    with closing(worker_of(receiver)):
        monkeypatch.setattr(receiver, "receive", broken)
        news.start(soon())
        error = told.get(timeout=DEADLINE_S)
    assert isinstance(error, JobError)
    assert "cannot read what its workers send any more: RuntimeError('out of order')" in str(error)


def test_closing_ends_the_thread(news: WorkerNews, receiver: SocketReceiver[Envelope]) -> None:
    """Nothing listens any more after close, and closing twice does nothing."""
    with closing(worker_of(receiver)):
        news.start(soon())
        news.close()
        news.close()
    assert not news._thread.is_alive()
    assert receiver.context.closed
