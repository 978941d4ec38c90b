"""The moments at which a worker is told what is durable."""

import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tidewheel.pubsub.messages.encoded_message import EncodedMessage
from tidewheel.pubsub.messages.wire import DataMessage, History, WorkerPosition
from tidewheel.pubsub.publishers.confirmed import Confirmed
from tidewheel.pubsub.publishers.worker_link import (
    TOLD_BYTES,
    TOLD_EVERY_S,
    WorkerLink,
    decode_answer,
    message_frame,
    position_frame,
)
from tidewheel.transport.frames import FrameReader


class Timer:
    """A call that is due at a time."""

    def __init__(self, due_s: float, call: Callable[[], None]) -> None:
        self.due_s = due_s
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        """Never call it."""
        self.is_cancelled = True


class Loop:
    """A loop whose time a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.timers: list[Timer] = []
        self.readable: Callable[[], None] = lambda: None

    def time(self) -> float:
        """Return the time."""
        return self.now_s

    def add_reader(self, _: object, call: Callable[[], None]) -> None:
        """Note what to call."""
        self.readable = call

    def remove_reader(self, _: object) -> None:
        """Do nothing: the test calls."""

    def call_later(self, wait_s: float, call: Callable[[], None]) -> Timer:
        """Note what to call, and when."""
        self.timers.append(Timer(self.now_s + wait_s, call))
        return self.timers[-1]

    def sleep(self, wait_s: float) -> None:
        """Let time pass, and call what is due."""
        self.now_s += wait_s
        due = [timer for timer in self.timers if timer.due_s <= self.now_s]
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            if not timer.is_cancelled:
                timer.call()


class Pubend:
    """Has everything durable as soon as it comes, unless a test says otherwise."""

    error = None
    has_room = True
    is_eager = False

    def __init__(self, room_for: Callable[[int], memoryview | None]) -> None:
        self.room_for = room_for
        self.begun: WorkerPosition | None = None
        self.sent: list[EncodedMessage] = []
        self.messages = self.message_bytes = 0
        self.is_slow = False

    def begin(self, position: WorkerPosition) -> None:
        """Take note where a worker begins."""
        self.begun = position

    def feed(self, sent: Sequence[EncodedMessage]) -> None:
        """Take messages."""
        self.sent += sent
        self.messages += len(sent)
        self.message_bytes += sum(message.size_bytes for message in sent)

    def confirmed(self) -> Confirmed:
        """Return what has come since the last call."""
        if self.is_slow:
            return Confirmed(0, 0)
        confirmed = Confirmed(self.messages, self.message_bytes)
        self.messages = self.message_bytes = 0
        return confirmed


_FIRST = WorkerPosition([0], {})


class Linked:
    """A worker's end of a link, and what it is told."""

    def __init__(
        self,
        position: WorkerPosition = _FIRST,
        *,
        has_room: bool = True,
        room_for: Callable[[int], memoryview | None] = lambda _: None,
    ) -> None:
        self.loop, self.pubend = Loop(), Pubend(room_for)
        self.pubend.has_room = has_room
        self._worker, theirs = socket.socketpair()
        theirs.setblocking(False)
        self._worker.settimeout(10)
        link: Any = WorkerLink
        self.link: WorkerLink = link(theirs, self.loop, self.pubend, pytest.fail)
        self._answers = FrameReader(self._worker, decode_answer)
        self.first_told = self.told()
        self._write(position_frame(position))

    def _write(self, parts: list[Any]) -> None:
        """Send a frame in parts that the socket takes."""
        frame = b"".join(parts)
        for begin in range(0, len(frame), 100_000):
            self._worker.sendall(frame[begin : begin + 100_000])
            self.loop.readable()

    def send(self, size_bytes: int = 1) -> list[tuple[int, int] | str]:
        """Send a message of that size; return what the worker is told."""
        self._write(message_frame(EncodedMessage(b"head", bytes(size_bytes))))
        return self.told()

    def told(self) -> list[tuple[int, int] | str]:
        """Return what the worker has been told and has not looked at."""
        self._worker.setblocking(False)
        try:
            return list(self._answers.read())
        finally:
            self._worker.settimeout(10)

    def close(self) -> None:
        """Let go of both ends."""
        self.link.close()
        self._worker.close()


@pytest.fixture
def linked() -> Iterator[Linked]:
    made = Linked()
    yield made
    made.close()


def test_a_worker_is_told_when_it_is_read_for_the_first_time() -> None:
    """Until then it sends nothing, not even the end; where first subscribers are awaited that is later."""
    at_once, later = Linked(), Linked(has_room=False)
    assert at_once.first_told == [(0, -1)]
    assert later.first_told == []
    later.link.settle()
    assert later.told() == []
    later.pubend.has_room = True
    later.link.settle()
    assert later.told() == [(0, -1)]
    at_once.close()
    later.close()


def test_a_worker_begins_behind_a_history_that_is_longer_than_a_head_may_be() -> None:
    """As its job goes back to a snapshot: the publisher that takes the place of a dead one has it from the worker."""
    history = History((3,), ((-1, DataMessage(3, bytes(70_000_000), "pickle", 1)),))
    position = WorkerPosition([4], {}, history=history)
    linked = Linked(position)
    assert linked.pubend.begun == position
    linked.close()


def test_what_comes_often_is_told_together(linked: Linked) -> None:
    """The first at once, and then all that was durable within some milliseconds; nothing is left untold."""
    assert linked.send() == [(1, -1)]
    assert [linked.send() for _ in range(3)] == [[], [], []]
    linked.loop.sleep(TOLD_EVERY_S)
    assert linked.told() == [(3, -1)]
    linked.loop.sleep(TOLD_EVERY_S)
    assert linked.told() == []
    assert linked.send() == [(1, -1)]


def test_much_is_told_at_once(linked: Linked) -> None:
    """As a worker may have no more room; what was to be told later goes with it, and not twice."""
    assert linked.send() == [(1, -1)]
    assert linked.send() == []
    assert linked.send(TOLD_BYTES) == [(2, -1)]
    linked.loop.sleep(2 * TOLD_EVERY_S)
    assert linked.told() == []


def test_nothing_is_told_before_it_is_durable(linked: Linked) -> None:
    """However much it is, and however long it takes."""
    linked.pubend.is_slow = True
    assert linked.send(TOLD_BYTES) == []
    linked.loop.sleep(1.0)
    assert linked.told() == []
    linked.pubend.is_slow = False
    linked.link.settle()
    assert linked.told() == [(1, -1)]


def test_who_has_gone_is_told_nothing(linked: Linked) -> None:
    """What was to be told later is not told to a connection that is closed."""
    assert linked.send() == [(1, -1)]
    assert linked.send() == []
    linked.link.close()
    linked.loop.sleep(TOLD_EVERY_S)
    assert linked.link.is_closed


def test_a_large_payload_is_received_where_the_log_has_room() -> None:
    """So that it is not copied there."""
    rooms: list[memoryview] = []

    def room_for(size: int) -> memoryview:
        rooms.append(memoryview(bytearray(size)))
        return rooms[-1]

    with_room = Linked(room_for=room_for)
    with_room.send(100_000)
    [message] = with_room.pubend.sent
    assert message.payload.obj is rooms[0].obj
    with_room.close()
