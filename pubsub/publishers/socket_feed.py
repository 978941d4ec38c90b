"""What a worker publishes, over a socket to a publisher on the same node."""

import select
import socket
import threading
import weakref
from collections.abc import Callable
from typing import Final

from tidewheel.pubsub.messages.wire import FeedEvent, Numbered
from tidewheel.pubsub.protocol.socket_frames import encode
from tidewheel.pubsub.publishers.feed import Feed, FeedLost, FeedRefused
from tidewheel.pubsub.publishers.publisher_socket import REFUSED, TAKEN
from tidewheel.transport.socket_writer import SocketWriter

ROOM_BYTES: Final = 4 * 1024 * 1024
"""So much may wait here for the socket to take it, beside what one step has told."""

_LOOK_MS = 1000
_ANSWER_BYTES = 64 * 1024


class SocketFeed(Feed):
    """Writes to the socket at once as long as that takes everything; a thread writes what is left.

    Args:
        connection: to the publisher; it does not block.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._close = weakref.finalize(self, connection.close)
        self._writer = SocketWriter(connection)
        self._lock = threading.Lock()
        self._sequence = 0
        self._thread: threading.Thread | None = None
        self._error: FeedLost | FeedRefused | None = None
        self._wake: Callable[[], None] | None = None

    def send(self, events: list[FeedEvent]) -> None:
        """Write events, or leave them to the thread."""
        with self._lock:
            self._raise()
            for event in events:
                self._writer.add(encode(Numbered(self._sequence, event)))
                self._sequence += 1
            if self._thread is None and not self._write():
                self._thread = threading.Thread(target=self._write_on, name="tidewheel-feed", daemon=True)
                self._thread.start()
            self._raise()

    def finish(self) -> None:
        """Wait until everything is written, and then for the publisher to say that the partition is finished."""
        thread = self._thread
        if thread is not None:
            thread.join()
        with self._lock:
            self._raise()
        # How long a subscriber may hold back the publisher is limited there; if that hangs its job will notice.
        answer = b""
        while not answer:
            if _is_ready(self._connection, select.POLLIN):
                answer = self._answer()
        self._close()
        if answer != TAKEN:
            raise self._ended(answer)

    def has_room(self) -> bool:
        """Tell whether not too much waits for the socket."""
        with self._lock:
            self._raise()
            return self._writer.waiting_bytes < ROOM_BYTES

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        """Have ``wake`` called by the thread that writes."""
        with self._lock:
            if self._thread is None or self._writer.waiting_bytes < ROOM_BYTES:
                return 0.0
            self._wake = wake
        return None

    def _write(self) -> bool:
        """Write what waits; return whether nothing does any more, or will ever do."""
        try:
            return self._writer.write()
        except OSError:
            self._error = self._ended(self._answer())
            return True

    def _write_on(self) -> None:
        """Write until nothing waits, on the thread."""
        while True:
            is_ready = _is_ready(self._connection, select.POLLOUT)
            with self._lock:
                is_done = is_ready and self._write()
                if is_done:
                    self._thread = None
                wake = self._wake if is_done or self._writer.waiting_bytes < ROOM_BYTES // 2 else None
                if wake is not None:
                    self._wake = None
            if wake is not None:
                wake()
            if is_done:
                return

    def _answer(self) -> bytes:
        """Return what the publisher has said; if it has gone without a word, the word for that."""
        try:
            return self._connection.recv(_ANSWER_BYTES) or REFUSED
        except BlockingIOError:
            return b""
        except OSError:
            return REFUSED

    def _ended(self, answer: bytes) -> FeedLost | FeedRefused:
        if answer == TAKEN:
            return FeedRefused("the topic has been ended already")
        reason = answer.removeprefix(REFUSED).decode(errors="replace")
        return FeedRefused(reason) if reason else FeedLost("its connection has broken, so its process has ended")

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error


def _is_ready(connection: socket.socket, what: int) -> bool:
    poll = select.poll()
    poll.register(connection, what)
    return bool(poll.poll(_LOOK_MS))
