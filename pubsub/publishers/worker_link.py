"""The publisher's end of the connection to its worker, on an asyncio loop.

Messages come in, and confirmations go out. While the log has no room, or a subscriber holds the publisher back, nothing
is read. Then the worker's own connection fills up, and the worker holds back its sources.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.journal import WorkerPosition
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.messages.encoded_message import EncodedMessage
from tidewheel.pubsub.publishers.worker_frames import Answer, answer_frame, decode_frame, position_of
from tidewheel.transport.frames import FrameReader, SocketWriter

TOLD_BYTES: Final = 1024 * 1024
TOLD_EVERY_S: Final = 0.005
"""A worker is told what is durable when it is so much, or so often: its thread that listens holds up the other one."""


class Confirmed(NamedTuple):
    """How many more messages the worker may forget, and how many bytes they have."""

    messages: int
    size_bytes: int


class MessageSink(Protocol):
    """What takes the messages of a worker: a pubend with its log, or a publisher without one."""

    @property
    def error(self) -> Exception | None:
        """Why nothing more is taken, if that is so."""

    @property
    def has_room(self) -> bool:
        """Whether more may be fed now."""

    def begin(self, position: WorkerPosition) -> None:
        """Take note of where a worker begins to send."""

    def feed(self, sent: list[EncodedMessage]) -> None:
        """Take messages, in order; raises ProtocolError or LogError."""

    def confirmed(self) -> Confirmed:
        """Return what has come to be confirmed since the last call."""


class WorkerLink:
    """The publisher's end. To be used on the loop only.

    Args:
        connection: to the worker, which has shown that it may connect; it does not block.
        loop: of all calls.
        sink: takes the messages.
        refused: called, once, with why nothing more of this worker is taken, if that is so.

    Attributes:
        is_closed: whether the worker has gone, or was let go of.
    """

    def __init__(
        self,
        connection: socket.socket,
        loop: asyncio.AbstractEventLoop,
        sink: MessageSink,
        refused: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._sink = sink
        self._refused = refused
        self._reader: FrameReader[EncodedMessage] = FrameReader(connection, decode_frame)
        self._writer = SocketWriter(connection)
        self._has_begun = False
        self._untold = self._untold_bytes = 0
        self._told_s = 0.0
        self._telling: asyncio.TimerHandle | None = None
        self._is_paused = True
        self.is_closed = False
        self._resume()

    def settle(self) -> None:
        """Tell the worker soon what has become durable, and go on reading if there is room; to be called after news."""
        if self.is_closed:
            return
        if self._sink.error is not None:
            self._refuse(str(self._sink.error))
            return
        confirmed = self._sink.confirmed()
        self._untold += confirmed.messages
        self._untold_bytes += confirmed.size_bytes
        wait_s = self._told_s + TOLD_EVERY_S - self._loop.time()
        if self._untold_bytes >= TOLD_BYTES or (self._untold and wait_s <= 0):
            self._tell()
        elif self._untold and self._telling is None:
            self._telling = self._loop.call_later(wait_s, self._tell)
        if self._sink.has_room:
            self._resume()
        else:
            self._pause()

    def _tell(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if not self.is_closed:
            self._told_s = self._loop.time()
            durable, self._untold, self._untold_bytes = self._untold, 0, 0
            self._say(durable)

    def _resume(self) -> None:
        if self._is_paused and not self.is_closed:
            self._is_paused = False
            self._loop.add_reader(self._connection, self._readable)

    def _pause(self) -> None:
        if not (self._is_paused or self.is_closed):
            self._is_paused = True
            self._loop.remove_reader(self._connection)

    def _readable(self) -> None:
        messages: list[EncodedMessage] = []
        try:
            messages.extend(self._reader.read())
            self._feed(messages)
        except (ProtocolError, LogError) as error:
            self._refuse(str(error))
            return
        if self._reader.is_at_end:
            self.close()
            return
        self.settle()

    def _feed(self, messages: list[EncodedMessage]) -> None:
        if messages and not self._has_begun:
            self._has_begun = True
            self._sink.begin(position_of(messages.pop(0)))
        if messages:
            self._sink.feed(messages)

    def _refuse(self, reason: str) -> None:
        self.refuse(reason)
        self._refused(reason)

    def refuse(self, reason: str) -> None:
        """Tell the worker that nothing more is taken of it, and why, and let go of the connection."""
        if not self.is_closed:
            self._say(reason)
            self.close()

    def _say(self, answer: Answer) -> None:
        """Write an answer; a worker that does not read them has more than enough of them waiting, and is not there."""
        self._writer.add(answer_frame(answer))
        with suppress(OSError):
            self._writer.write()

    def close(self) -> None:
        """Let go of the connection."""
        if not self.is_closed:
            self.is_closed = True
            if self._telling is not None:
                self._telling.cancel()
            self._loop.remove_reader(self._connection)
            self._connection.close()
