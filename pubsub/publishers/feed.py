"""The feed of one worker to its publisher actor, over a socket on their node.

Events are written at once, as many as the socket accepts. A thread writes the rest, and receives confirmations. A
publisher with a log confirms durable messages. Until then the feed keeps a message, and sends it again to a restarted
publisher. A publisher without a log confirms everything at the end. If the job keeps snapshots, the publisher confirms
received messages, and snapshots omit them.

A publisher that a signal has stopped neither serves its readers nor ends. So the thread kills it, and continues as for
a dead publisher (`watched_publisher.py`).
"""

import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self

from tidewheel.host.other_process import OtherProcess
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.wire import FeedEvent
from tidewheel.pubsub.publishers.sent_events import SavedEvents, SentEvents
from tidewheel.pubsub.publishers.watched_publisher import PATIENCE_S, News, WatchedPublisher
from tidewheel.pubsub.publishers.worker_link import Answer, decode_answer, message_frame, position_frame
from tidewheel.transport.frames import FrameReader
from tidewheel.transport.socket_writer import SocketWriter
from tidewheel.transport.tickets import process_behind

_LOG = logging.getLogger(__name__)

ROOM_BYTES: Final = 4 * 1024 * 1024
"""The limit of bytes that wait to be written or to become durable, without those of the current step.

With a disk that needs 10 ms for a sync, this allows some 160 MB/s. With twice as much, memory is reused so rarely that
it is no longer in the processor's caches; with a fast disk, batches of 64 KB then take a fifth longer.
"""
RESTARTS_WITHIN_S: Final = 60.0

BROKEN: Final = "its connection has broken, so its process has ended"

_LOOK_MS = 1000
_AGAIN_S = 0.2


class FeedLost(Exception):  # noqa: N818 - it names what happened
    """The publisher is dead, or does not answer; the message has the evidence."""


class FeedRefused(Exception):  # noqa: N818 - it names what happened
    """The publisher has refused a message; this error has the reason."""


class Feed:
    """One worker's feed to its publisher.

    An error of the publisher is raised by this or a later call, as `FeedLost` or `FeedRefused`.

    Args:
        sent: numbers the events, and keeps them if the publisher has a log.
        connect: returns a non-blocking connection; raises FeedLost if there is none now.
        restarts_within_s: the seconds that a restart of the publisher may take; 0 if it is not restarted.
        room_bytes: how many bytes of messages may be kept.
        afterwards: what happens after the publisher's death, for log lines.
        is_awaiting: whether to accept no events before the publisher answers; also an attribute.
    """

    def __init__(
        self,
        sent: SentEvents,
        connect: Callable[[], socket.socket],
        restarts_within_s: float = RESTARTS_WITHIN_S,
        room_bytes: int = ROOM_BYTES,
        *,
        name: str = "",
        afterwards: str = "",
        is_awaiting: bool = False,
    ) -> None:
        self._name = name
        self._afterwards = afterwards
        self.is_awaiting = is_awaiting
        self._connect = connect
        self._restarts_within_s = restarts_within_s
        self._room_bytes = room_bytes
        self._sent = sent
        self._changed = threading.Condition()
        self._connection: socket.socket | None = None
        self._writer: SocketWriter | None = None
        self._error: FeedLost | FeedRefused | None = None
        self._wake: Callable[[], None] | None = None
        self._is_closed = False
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        if not restarts_within_s:
            self._begin(connect())  # messages sent before there is a connection would be lost
        self._thread = threading.Thread(target=self._run, name="tidewheel-feed", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------ the worker

    def send(self, events: list[FeedEvent]) -> None:
        """Send events in order, without waiting: the thread writes what the socket does not accept."""
        with self._changed:
            self._raise()
            for event in events:
                try:
                    message = self._sent.add(event)
                except DeliveryError as error:
                    raise FeedRefused(str(error)) from error
                if self._writer is not None:
                    self._writer.add(message_frame(message))
            if self._writer is not None and not self._write():
                os.eventfd_write(self._bell, 1)
        # Linux may let the publisher wait for this core until the worker sleeps, although another core is idle.
        os.sched_yield()

    @property
    def saved(self) -> SavedEvents:
        with self._changed:
            return self._sent.saved

    @property
    def is_waiting(self) -> bool:
        return bool(self._sent.waiting)

    def finish(self) -> None:
        """Wait until the publisher has confirmed everything, and release the connection."""
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._error is not None or not self._sent.waiting)
                self._raise()
        finally:
            self.close()

    def has_room(self) -> bool:
        with self._changed:
            self._raise()
            return not self.is_awaiting and self._waiting_bytes() < self._room_bytes

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        """Call ``wake`` once there is room.

        Return the seconds after which to check again, in case ``wake`` is not called; None if that is not needed.
        """
        with self._changed:
            has_room = not self.is_awaiting and self._waiting_bytes() < self._room_bytes
            if self._error is not None or has_room:
                return 0.0
            self._wake = wake
        return None

    def close(self) -> None:
        """Close the connection, without waiting long for unconfirmed messages. Idempotent."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._changed.notify_all()
            os.eventfd_write(self._bell, 1)
        self._thread.join(RESTARTS_WITHIN_S)
        os.close(self._bell)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        away_since_s: float | None = None
        while not self._is_over():
            try:
                if self._connection is None:
                    self._begin(self._connect())
                away_since_s = None
                self._talk()
            except (FeedLost, OSError) as error:
                now_s = time.monotonic()
                away_since_s = now_s if away_since_s is None else away_since_s
                if not self._restarts_within_s:
                    self._fail(FeedLost(BROKEN))
                elif now_s - away_since_s > self._restarts_within_s:
                    self._fail(FeedLost(f"it has not come back within {self._restarts_within_s:g} s: {error}"))
                else:
                    with self._changed:
                        self._changed.wait_for(lambda: self._is_closed, _AGAIN_S)
            except ProtocolError as error:
                self._fail(FeedRefused(str(error)))
            finally:
                self._end()

    def _begin(self, connection: socket.socket) -> None:
        with self._changed:
            self._connection, self._writer = connection, SocketWriter(connection)
            self._writer.add(position_frame(self._sent.position))
            for message in self._sent.messages():
                self._writer.add(message_frame(message))

    def _talk(self) -> None:
        connection = self._connection
        assert connection is not None
        answers = FrameReader(connection, decode_answer, most_payload_bytes=0)
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        with _Watch(connection, self._name, self._afterwards) as watch:
            while not self._is_over():
                with self._changed:
                    is_written = self._write()
                self._wake_worker()
                poll.register(connection, select.POLLIN if is_written else select.POLLIN | select.POLLOUT)
                for descriptor, _ in poll.poll(_LOOK_MS):
                    if descriptor == self._bell:
                        with suppress(BlockingIOError):
                            os.eventfd_read(self._bell)
                self._listen(answers)
                watch.look(answers.read_bytes)

    def _listen(self, answers: FrameReader[Answer]) -> None:
        for answer in answers.read():
            if isinstance(answer, str):
                self._fail(FeedRefused(answer))
                return
            with self._changed:
                self.is_awaiting = False
                confirmed, number = answer
                if confirmed:
                    self._sent.durable(confirmed, number)
                if not self._sent.waiting:
                    self._changed.notify_all()
        if answers.is_at_end:
            raise FeedLost(BROKEN)

    def _wake_worker(self) -> None:
        with self._changed:
            wake = self._wake
            is_full = self.is_awaiting or self._waiting_bytes() >= self._room_bytes * 3 // 4
            if wake is None or (self._error is None and is_full):
                return
            self._wake = None
        wake()

    def _waiting_bytes(self) -> int:
        return max(self._sent.waiting_bytes, 0 if self._writer is None else self._writer.waiting_bytes)

    def _write(self) -> bool:
        """Write the waiting bytes; return True if none are left, or the connection is broken."""
        assert self._writer is not None
        try:
            return self._writer.write()
        except OSError:
            return True  # the thread will notice

    def _end(self) -> None:
        with self._changed:
            connection, self._connection, self._writer = self._connection, None, None
        if connection is not None:
            connection.close()

    def _fail(self, error: FeedLost | FeedRefused) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()
        self._wake_worker()

    def _is_over(self) -> bool:
        return self._is_closed or self._error is not None

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error


class _Watch:
    """Watches the publisher behind a connection, and kills its process if a signal has stopped it."""

    def __init__(self, connection: socket.socket, name: str, afterwards: str) -> None:
        self._name = name
        self._afterwards = afterwards
        self._process: OtherProcess | None = None
        with suppress(OSError):  # it has ended just now, or the system does not show it
            self._process = OtherProcess(process_behind(connection))
        self._watched = WatchedPublisher()
        self._read_bytes = 0
        self._looked_s = time.monotonic()

    def look(self, read_bytes: int) -> None:
        """Look at the publisher; call this every second, with the number of bytes that it has sent so far."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_MS / 1000:
            return
        self._looked_s = now_s
        has_shown_life, self._read_bytes = read_bytes > self._read_bytes, read_bytes
        process = self._process
        is_stopped = process is not None and process.is_stopped
        match self._watched.look(now_s, has_shown_life=has_shown_life, is_stopped=is_stopped):
            case News.SILENT:
                said = "%s: the publisher has shown no sign of life for %g s: it is busy, or hangs. Its worker waits"
                _LOG.warning(said, self._name, PATIENCE_S)
            case News.BACK:
                _LOG.warning("%s: the publisher shows life again", self._name)
            case News.STOPPED if process is not None:
                said = "%s: a signal has stopped the publisher, process %d, for %g s. It is killed, and %s"
                _LOG.error(said, self._name, process.pid, PATIENCE_S, self._afterwards)
                process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.close()
