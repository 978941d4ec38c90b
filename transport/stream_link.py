"""The two ends of a connection between a parent, on an asyncio loop, and a child, a thread that polls.

A parent writes to each child as fast as the connection takes messages. The others wait; above a bound, the parent drops
further messages. So no child delays another child or the parent, or costs more memory than the bound. Neither end waits
for the other. A `Codec` encodes the messages.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from tidewheel.progress import ProtocolError
from tidewheel.transport.frames import MOST_AT_ONCE, SIGN_OF_LIFE, FrameReader, Payload
from tidewheel.transport.socket_writer import SocketWriter

Message: TypeAlias = Any
"""A message of a parent or of a child."""

HAS_GONE: Final = "it has gone"
"""The reason that a link reports if its peer has gone without breaking the protocol."""

WAITING_BYTES: Final = 16 * 1024 * 1024
"""The most bytes that may wait for one child, not counting those that the socket has taken."""

_AT_ONCE_BYTES = 256 * 1024
_MOST_FRAMES = 1024


class Unsaid(Protocol):
    """The messages that a child has yet to send; falsy if there are none."""

    def __bool__(self) -> bool: ...

    def add(self, message: Message, /) -> None:
        """Add a message, and drop the messages that it replaces."""

    def take(self) -> list[Message]:
        """Remove and return the messages, in order."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Converts messages to frames and back, and says which messages a link treats specially.

    Attributes:
        decode_told: returns the message in a parent's frame; raises ProtocolError.
        decode_said: returns the message in a child's frame; raises ProtocolError.
        joins: tells whether a message identifies a child. A child without a socket sends such a message first.
    """

    encode: Callable[[Message], list[Any]]
    decode_told: Callable[[Payload, Payload], Message]
    decode_said: Callable[[Payload, Payload], Message]
    most_told_bytes: int
    size_of: Callable[[Message], int]
    must_be_told: Callable[[Message], bool]
    joins: Callable[[Message], bool]
    unsaid: Callable[[], Unsaid]


class Frame(NamedTuple):
    """An encoded message: its frame or frames, of ``size_bytes`` bytes."""

    message: Message
    parts: list[Any]
    size_bytes: int


class SharedFrames:
    """Encodes a message for several children only once, if all get it within one turn of the loop.

    Attributes:
        children: the number of children. For a single child the frames are not kept, which saves a callback of the
            loop.
    """

    def __init__(self, codec: Codec, loop: asyncio.AbstractEventLoop) -> None:
        self.codec = codec
        self._loop = loop
        self._frames: dict[int, Frame] = {}
        self.children = 0

    def of(self, message: Message) -> Frame:
        found = None if self.children < 2 else self._frames.get(id(message))
        if found is None:
            parts = self.codec.encode(message)
            found = Frame(message, parts, sum(map(len, parts)))
            if self.children < 2:
                return found
            if not self._frames:
                self._loop.call_soon(self._frames.clear)
            elif len(self._frames) >= _MOST_FRAMES:
                self._frames.pop(next(iter(self._frames)))
            self._frames[id(message)] = found
        return found

    def __len__(self) -> int:
        return len(self._frames)


class ChildLink:
    """The parent's end of a connection, until it is closed or the child has gone; call it only on the loop.

    Args:
        received: receives the child's messages, in order; it may close the link.
        gone: receives, once, why the child has gone; by then the link is closed. Not called after `close`. Methods of
            the link never call ``received`` or ``gone``; the loop does.
        drained: called when no message waits any more.

    Attributes:
        dropped: the number of messages dropped because the child did not read; ``dropped_bytes`` has their size.
    """

    def __init__(
        self,
        connection: socket.socket,
        loop: asyncio.AbstractEventLoop,
        frames: SharedFrames,
        received: Callable[[list[Message]], None],
        gone: Callable[[str], None],
        drained: Callable[[], None],
        waiting_bytes: int = WAITING_BYTES,
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._frames = frames
        self._received = received
        self._gone = gone
        self._drained = drained
        self._most_waiting_bytes = waiting_bytes
        self._writer = SocketWriter(connection)
        self._reader = FrameReader(connection, frames.codec.decode_said, _AT_ONCE_BYTES, most_payload_bytes=0)
        self._is_full = False
        self._will_write = False
        self._is_over = False
        self._is_closed = False
        self._shown_bytes = 0
        self.dropped = self.dropped_bytes = 0
        frames.children += 1
        loop.add_reader(connection, self._readable)

    def tell(self, message: Message) -> bool:
        """Write a message. If there is no room and the child can do without it, drop it and return False.

        Messages to a child that has gone are dropped.
        """
        is_taken = self._keep(message)
        if is_taken and not self._will_write and not self._is_full:
            self._will_write = True
            self._loop.call_soon(self._flush)  # so that all messages of one turn go together
        return is_taken

    def tell_now(self, messages: Iterable[Message]) -> None:
        """Write the waiting messages and ``messages`` at once, as far as the connection takes them.

        Messages for which there is no room are dropped as in `tell`.
        """
        for message in messages:
            self._keep(message)
        self._write()

    def show_life(self) -> None:
        """Send the child a sign of life, unless bytes wait or were written since the last call."""
        if self._shown_bytes == self.written_bytes and not self.waiting_bytes:
            self._writer.add([SIGN_OF_LIFE])
            self._write()
        self._shown_bytes = self.written_bytes

    def _keep(self, message: Message) -> bool:
        frame = self._frames.of(message)
        if not self._takes(frame):
            self._write()  # no message may have been written yet
            if not self._takes(frame):
                self.dropped += 1
                self.dropped_bytes += frame.size_bytes
                return False
        self._writer.add(frame.parts)
        return True

    def _takes(self, frame: Frame) -> bool:
        if self._is_over:
            return False
        waiting = self._writer.waiting_bytes
        has_room = not waiting or waiting + frame.size_bytes <= self._most_waiting_bytes
        return has_room or self._frames.codec.must_be_told(frame.message)

    @property
    def waiting_bytes(self) -> int:
        return self._writer.waiting_bytes

    @property
    def written_bytes(self) -> int:
        return self._writer.written_bytes

    def _flush(self) -> None:
        self._will_write = False
        if not self._is_full:
            self._write()

    def _write(self) -> None:
        if self._is_over:
            return
        try:
            is_full = not self._writer.write()
        except OSError:
            self._is_over = True
            self._loop.remove_writer(self._connection)
            self._loop.call_soon(self._readable)  # messages from before the end are still received
            return
        if is_full and not self._is_full:
            self._loop.add_writer(self._connection, self._write)
        elif self._is_full and not is_full:
            self._loop.remove_writer(self._connection)
            self._loop.call_soon(self._drained)
        self._is_full = is_full

    def _readable(self) -> None:
        if self._is_closed:
            return
        said: list[Message] = []
        why = ""
        try:
            said.extend(self._reader.read())
        except ProtocolError as error:
            why = str(error)
        if not why and (self._is_over or self._reader.is_at_end):
            why = HAS_GONE
        if said:
            self._received(said)
        if why and not self._is_closed:
            self.close()
            self._gone(why)

    def close(self) -> None:
        """Disconnect; what the socket has taken still arrives."""
        if self._is_closed:
            return
        self._is_closed = self._is_over = True
        self._frames.children -= 1
        self._loop.remove_reader(self._connection)
        self._loop.remove_writer(self._connection)
        self._writer.close()


class ParentLink:
    """The child's end of a connection, for one thread at a time."""

    def __init__(self, codec: Codec, connection: socket.socket, most_at_once: int = MOST_AT_ONCE) -> None:
        self._codec = codec
        self._connection = connection
        self._reader = FrameReader(connection, codec.decode_told, most_at_once, codec.most_told_bytes)
        self._writer = SocketWriter(connection)
        self._unsaid = codec.unsaid()
        self._is_deaf = False
        self.why_lost = ""

    def fileno(self) -> int:
        """Return the descriptor to poll for reading, and for writing while `is_waiting`; then call `read`."""
        return self._connection.fileno()

    @property
    def is_lost(self) -> bool:
        return bool(self.why_lost)

    @property
    def is_waiting(self) -> bool:
        return not (self.is_lost or self._is_deaf) and bool(self._writer.waiting_bytes or self._unsaid)

    def read(self) -> list[Message]:
        """Return the messages that have arrived and send the waiting ones; does not block."""
        told: list[Message] = []
        if self.is_lost:
            return told
        try:
            told.extend(self._reader.read())
        except ProtocolError as error:
            self._lose(str(error))
        if self._reader.is_at_end or (self._is_deaf and not told):
            self._lose(HAS_GONE)
        self._say()
        return told

    def say(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._unsaid.add(message)
        self._say()

    def _say(self) -> None:
        if self.is_lost or self._is_deaf:
            self._unsaid.take()
            return
        try:
            while self._writer.write() and self._unsaid:
                for message in self._unsaid.take():
                    self._writer.add(self._codec.encode(message))
        except OSError:
            self._is_deaf = True  # messages from before the end can still be read

    @property
    def read_bytes(self) -> int:
        return self._reader.read_bytes

    def _lose(self, why: str) -> None:
        self.why_lost = self.why_lost or why

    def close(self) -> None:
        """Disconnect; what the socket has taken still arrives."""
        self._lose("the link is closed")
        self._connection.close()
