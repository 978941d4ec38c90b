"""The publisher's end of the connection to its worker, and the frames on it, on an asyncio loop.

The worker, on the same node, sends messages over a socket; confirmations go back. While the log has no room, or a
subscriber holds the publisher back, the publisher does not read. Then the connection fills up, and the worker holds
back its sources.

Worker and publisher exchange frames of `transport.frames`:

=============  ====================================================  ============================================
from           what                                                  head; payload
=============  ====================================================  ============================================
the worker     where it begins to send, once, first                  none; a `WorkerPosition`, pickled
the worker     messages, in order                                    those of the message
the publisher  how many more of them are confirmed, and the number   both, as msgpack; none
               of the last one's message in its log; 0 and -1 at
               first, as soon as it reads
the publisher  that it receives nothing more, and why                the reason, a text, as msgpack; none
the publisher  that its loop runs, every second                      neither (`SIGN_OF_LIFE`)
=============  ====================================================  ============================================
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.journal import OutdatedWorkerError
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.messages.encoded_message import EncodedMessage
from tidewheel.pubsub.messages.wire import Generation, WorkerPosition
from tidewheel.pubsub.publishers.confirmed import Confirmed
from tidewheel.transport.children import SIGN_OF_LIFE_S
from tidewheel.transport.eager_poll import SHORT_S, EagerLoop
from tidewheel.transport.frames import SIGN_OF_LIFE, FrameReader, Payload, dumps, frame_of, unpickled
from tidewheel.transport.socket_writer import SocketWriter

TOLD_BYTES: Final = 2 * 1024 * 1024
TOLD_EVERY_S: Final = 0.005
"""The longest delay of a confirmation below `TOLD_BYTES`, in seconds: each confirmation wakes a thread that slows the
worker."""

TAKEN_AT_ONCE: Final = 256
"""The approximate number of a worker's messages that are read before the loop turns to its other work."""

Answer: TypeAlias = tuple[int, int] | str
"""The count of newly confirmed messages and the number of the last one; or the reason why no more messages are
received."""

_ANSWER: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def position_frame(position: WorkerPosition) -> list[Any]:
    place = (position.lower, position.sent, position.events)
    return frame_of(b"", (dumps((*place, *position.generation, position.number, position.history)),))


def message_frame(message: EncodedMessage) -> list[Any]:
    return frame_of(message.head, (message.payload,))


def decode_frame(head: Payload, payload: Payload) -> EncodedMessage:
    return EncodedMessage(bytes(head), payload)


def _position_of(first: EncodedMessage) -> WorkerPosition:
    match unpickled(first.payload):
        case (list(lower), dict(sent), int(events), int(generation), tuple(complete), int(number), history):
            return WorkerPosition(lower, sent, events, Generation(generation, complete), number, history)
        case fields:
            raise ProtocolError(f"a worker has to say first where it begins, and not {fields!r:.100}")


def answer_frame(answer: Answer) -> list[Any]:
    """Return the parts of an answer's frame.

    >>> [part] = answer_frame("full")
    >>> decode_answer(part[12:], b"")
    'full'
    """
    return frame_of(msgspec.msgpack.encode(answer), ())


def decode_answer(head: Payload, payload: Payload) -> Answer:
    try:
        return _ANSWER.decode(head)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"the frame is no answer of a publisher: {error}") from error


class MessageSink(Protocol):
    """The receiver of a worker's messages: a pubend with its log, or a publisher without one."""

    is_eager: bool
    """Whether the loop looks for the next message before it sleeps, since no other thread works for this sink."""

    def room_for(self, size: int, /) -> memoryview | None: ...

    @property
    def error(self) -> Exception | None: ...

    @property
    def has_room(self) -> bool: ...

    def begin(self, position: WorkerPosition) -> None:
        """Record where a worker begins; raise OutdatedWorkerError if it may not."""

    def feed(self, sent: list[EncodedMessage]) -> None: ...

    def confirmed(self) -> Confirmed:
        """Return the confirmation for messages since the last call."""


class WorkerLink:
    """The publisher's end, used on the loop only.

    Args:
        connection: a non-blocking connection to an authenticated worker.
    """

    def __init__(
        self,
        connection: socket.socket,
        loop: asyncio.AbstractEventLoop,
        sink: MessageSink,
        refused: Callable[[str], None],
        begun: Callable[["WorkerLink"], None] = lambda _: None,
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._sink = sink
        self._refused, self._begun = refused, begun
        self._reader: FrameReader[EncodedMessage] = FrameReader(
            connection, decode_frame, room_for=sink.room_for, most_messages=TAKEN_AT_ONCE
        )
        self._writer = SocketWriter(connection)
        self._eager = EagerLoop(loop, self._readable, SHORT_S if sink.is_eager else 0.0)
        self._has_begun = self.is_closed = False
        self._untold, self._untold_bytes, self._number, self._told_s = 0, 0, -1, 0.0
        self._telling: asyncio.TimerHandle | None = None
        self._life = loop.call_later(SIGN_OF_LIFE_S, self._show_life)
        self._is_paused = not sink.has_room
        if not self._is_paused:
            self._go_on()

    def settle(self) -> None:
        """Send confirmations to the worker soon, and read more if there is room; call this after any change."""
        if self.is_closed:
            return
        if self._sink.error is not None:
            self._refuse(str(self._sink.error))
            return
        if self._has_begun:
            confirmed = self._sink.confirmed()
            self._untold += confirmed.messages
            self._untold_bytes += confirmed.size_bytes
            self._number = max(self._number, confirmed.number)
        if self._untold:
            wait_s = self._told_s + TOLD_EVERY_S - self._loop.time()
            if self._untold_bytes >= TOLD_BYTES or wait_s <= 0:
                self.tell()
            elif self._telling is None:
                self._telling = self._loop.call_later(wait_s, self.tell)
        if self._sink.has_room == self._is_paused:
            self._is_paused = not self._is_paused
            if self._is_paused:
                self._loop.remove_reader(self._connection)
            else:
                self._go_on()

    def _go_on(self) -> None:
        self._loop.add_reader(self._connection, self._eager.readable)
        if not self._has_begun:
            self._say((0, self._number))

    def tell(self) -> None:
        """Send the worker the confirmations that the last `settle` has found."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if not self.is_closed:
            self._told_s = self._loop.time()
            self._say((self._untold, self._number))
            self._untold = self._untold_bytes = 0

    def _show_life(self) -> None:
        """Write a sign of life regularly, once the worker has read the previous one."""
        if not self._writer.waiting_bytes:
            self._writer.add([SIGN_OF_LIFE])
            self._write()
        self._life = self._loop.call_later(SIGN_OF_LIFE_S, self._show_life)

    def _readable(self) -> None:
        try:
            messages = list(self._reader.read())
            if messages and not self._has_begun:
                self._sink.begin(_position_of(messages.pop(0)))
                self._has_begun = True
                self._begun(self)
            if messages:
                self._sink.feed(messages)
        except (ProtocolError, LogError) as error:
            (self.refuse if isinstance(error, OutdatedWorkerError) else self._refuse)(str(error))
            return
        if self._reader.is_at_end:
            self.close()
        self.settle()

    def _refuse(self, reason: str) -> None:
        self.refuse(reason)
        self._refused(reason)

    def refuse(self, reason: str) -> None:
        if not self.is_closed:
            self._say(reason)
            self.close()

    def _say(self, answer: Answer) -> None:
        """Write as much of an answer as the socket accepts; the rest follows with the next answer."""
        self._writer.add(answer_frame(answer))
        self._write()

    def _write(self) -> None:
        with suppress(OSError):  # reading finds out that the worker has gone
            self._writer.write()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._life.cancel()
            if self._telling is not None:
                self._telling.cancel()
            self._loop.remove_reader(self._connection)
            self._connection.close()
