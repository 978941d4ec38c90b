"""A worker's feed and its pubend's end of it, over real sockets, with a real log; either end is cut at any moment."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.kit.log.faulty_files import ScopedLog
from tests.kit.messages import raises
from tests.waiting import eventually
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.messages.encoded_message import decode
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent, LowerFrontierUpdate
from tidewheel.pubsub.publishers.durable_pubend import DurablePubend
from tidewheel.pubsub.publishers.feed import Feed, FeedLost, FeedRefused
from tidewheel.pubsub.publishers.log_reads import LogReads
from tidewheel.pubsub.publishers.partition_log import PartitionLog
from tidewheel.pubsub.publishers.sent_events import SentEvents
from tidewheel.pubsub.publishers.worker_link import WorkerLink

DOMAIN = IntegerDomain()
IDENTITY = LogIdentity("topic", 0, 1, "integers")
DEADLINE_S = 30.0
HAS_ALL = LowerFrontierUpdate([])
"""The move that the log has in place of the last one, until all partitions have everything."""


class Publisher:
    """A pubend on a loop of its own thread, which can be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.refusals: list[str] = []
        self.connections = 0
        self._life: _Life | None = None

    def start(self) -> None:
        """Begin, or go on with what is in the log."""
        self._life = _Life(self._directory, self.refusals.append)

    def stop(self) -> None:
        """Let go of everything, as a process does that ends."""
        life, self._life = self._life, None
        if life is not None:
            life.stop()

    def connect(self) -> socket.socket:
        """Return a connection for a worker."""
        life = self._life
        if life is None:
            raise FeedLost("it is not there")
        try:
            connection = life.connection()
        except RuntimeError as error:  # its loop has ended meanwhile
            raise FeedLost(str(error)) from error
        self.connections += 1
        return connection

    def cut(self) -> None:
        """Break the connections that there are."""
        if self._life is not None:
            self._life.run(self._life.cut)


class _Life:
    def __init__(self, directory: Path, refused: Callable[[str], None]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._refused = refused
        self._links: list[WorkerLink] = []
        self._is_over = False

        def later(call: Callable[[], None]) -> None:
            def both() -> None:
                call()
                for link in self._links:
                    link.settle()

            self._loop.call_soon_threadsafe(both)

        self._pubend = DurablePubend(
            directory, IDENTITY, DOMAIN, tell=lambda _: None, later=later, wait_s=DEADLINE_S, segment_bytes=3000
        )

    def run(self, call: Callable[[], Any]) -> Any:
        async def work() -> Any:
            return call()

        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(DEADLINE_S)

    def connection(self) -> socket.socket:
        connection: socket.socket = self.run(self._connect)
        return connection

    def _connect(self) -> socket.socket:
        if self._is_over:
            raise FeedLost("it is about to go")
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        self._links.append(WorkerLink(theirs, self._loop, self._pubend, self._refused))
        return ours

    def cut(self) -> None:
        for link in self._links:
            link.close()
        self._links.clear()

    def stop(self) -> None:
        self._is_over = True
        self.run(self.cut)
        self._pubend.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()


@contextmanager
def published(tmp_path: Path, **options: Any) -> Iterator[tuple[Publisher, Feed]]:
    publisher = Publisher(tmp_path)
    publisher.start()
    feed = Feed(SentEvents(DOMAIN, keeps_end=True), publisher.connect, **options)
    try:
        yield publisher, feed
    finally:
        feed.close()
        publisher.stop()


def events_of(epochs: int, random: Random) -> list[FeedEvent]:
    """Make up what a worker sends."""
    events: list[FeedEvent] = []
    for time in range(epochs):
        events += [
            DataMessage(time, random.randbytes(random.randint(1, 300)), "pickle", 1)
            for _ in range(random.randint(0, 3))
        ]
        events.append(LowerFrontierUpdate([(time, -1), (time + 1, 1)]))
    return [*events, LowerFrontierUpdate([(epochs, -1)])]


def logged(directory: Path) -> list[Any]:
    """Return all that is in the log."""
    with ScopedLog(directory, IDENTITY, wait_s=DEADLINE_S) as log:
        found, _ = PartitionLog(LogReads(log, lambda call: call())).read(0, 1 << 62, 1 << 40)
    return [decode(message) for _, message in found]


def has_sent(feed: Feed) -> bool:
    return not feed._sent.waiting


def plain(events: list[Any]) -> list[Any]:
    return [(event.time, bytes(event.payload)) if isinstance(event, DataMessage) else event for event in events]


def test_what_is_fed_is_logged(tmp_path: Path) -> None:
    """All of it, in order; when that is over it is durable."""
    events = events_of(100, Random(1))
    with published(tmp_path) as (publisher, feed):
        for event in events:
            feed.send([event])
        feed.finish()
        publisher.stop()
    assert plain(logged(tmp_path)) == [*plain(events[:-1]), HAS_ALL]
    assert publisher.connections == 1


@pytest.mark.parametrize("seed", range(8))
def test_connections_and_publishers_that_go(tmp_path: Path, seed: int) -> None:
    """What is not durable is sent again, and logged once."""
    random = Random(seed)
    events = events_of(40, random)
    with published(tmp_path) as (publisher, feed):
        for event in events:
            feed.send([event])
            trouble = random.random()
            if trouble < 0.05:
                publisher.stop()
                publisher.start()
            elif trouble < 0.1:
                publisher.cut()
        feed.finish()
        publisher.stop()
    assert plain(logged(tmp_path)) == [*plain(events[:-1]), HAS_ALL]


def test_a_worker_that_starts_again(tmp_path: Path) -> None:
    """It sends everything again, which is logged once."""
    events = events_of(30, Random(3))
    for count in (20, 50, len(events)):
        with published(tmp_path) as (_, feed):
            for event in events[:count]:
                feed.send([event])
            assert eventually(partial(has_sent, feed), DEADLINE_S)
            if count == len(events):
                feed.finish()
    assert plain(logged(tmp_path)) == [*plain(events[:-1]), HAS_ALL]


def test_room(tmp_path: Path) -> None:
    """While what was sent is not durable there is a limit, and who waits is woken."""
    publisher = Publisher(tmp_path)
    woken = threading.Event()
    feed = Feed(SentEvents(DOMAIN, keeps_end=True), publisher.connect, room_bytes=10_000)
    try:
        assert feed.has_room()
        feed.send([DataMessage(0, bytes(20_000), "pickle", 1)])
        assert not feed.has_room()
        assert feed.wait_for_room(woken.set) is None
        assert not woken.is_set()
        publisher.start()
        assert woken.wait(DEADLINE_S)
        assert feed.has_room()
        assert feed.wait_for_room(woken.set) == 0.0
    finally:
        feed.close()
        publisher.stop()


def test_a_worker_that_sends_something_else_is_refused(tmp_path: Path) -> None:
    """The error says what was different; the pubend goes on for others."""
    with published(tmp_path) as (_, feed):
        feed.send(
            [
                DataMessage(0, b"a", "pickle", 1),
                LowerFrontierUpdate([(0, -1), (1, 1)]),
                DataMessage(1, b"b", "pickle", 1),
            ]
        )
        assert eventually(lambda: not feed._sent.waiting, DEADLINE_S)
    with published(tmp_path) as (publisher, feed):
        feed.send([DataMessage(1, b"c", "pickle", 1)])
        with raises(FeedRefused):
            feed.finish()
        with pytest.raises(FeedRefused):
            feed.send([])
        assert eventually(lambda: len(publisher.refusals) == 1, DEADLINE_S)


def test_a_publisher_that_does_not_come_back(tmp_path: Path) -> None:
    """Is given up after a while, with an error."""
    publisher = Publisher(tmp_path)
    feed = Feed(SentEvents(DOMAIN, keeps_end=True), publisher.connect, restarts_within_s=0.3)
    try:
        feed.send([DataMessage(0, b"a", "pickle", 1)])
        with raises(FeedLost):
            feed.finish()
    finally:
        feed.close()


LISTENS = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind("\\0" + sys.argv[1])
listener.listen()
print("listens", flush=True)
connection, _ = listener.accept()
sys.stdin.read()
"""


def test_a_publisher_that_is_stopped_is_killed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says which, and what follows; to the worker it is as dead as any other."""
    monkeypatch.setattr("tidewheel.pubsub.publishers.watched_publisher.PATIENCE_S", 1.0)
    address = f"tidewheel-test-{os.getpid()}"
    command = [sys.executable, "-c", LISTENS, address]
    with ExitStack() as stack:
        publisher = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        stack.callback(publisher.kill)
        assert publisher.stdout is not None
        assert publisher.stdout.readline()

        def connect() -> socket.socket:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(f"\0{address}")
            connection.setblocking(False)
            return connection

        feed = Feed(SentEvents(DOMAIN), connect, 0.0, name="topic 't', partition 3", afterwards="the job ends")
        with closing(feed):
            os.kill(publisher.pid, signal.SIGSTOP)
            assert publisher.wait(DEADLINE_S) == -signal.SIGKILL

            def is_lost() -> bool:
                try:
                    return not feed.has_room()
                except FeedLost:
                    return True

            assert eventually(is_lost)
    [said] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "topic 't', partition 3" in said
    assert str(publisher.pid) in said
    assert said.endswith("the job ends")
