"""The two ends of a connection between a parent, on an asyncio loop, and a child, a thread that polls.

A parent tells each child things as fast as its connection takes them. What the connection does not take waits here, up
to a bound. Beyond that it is dropped, as if it had been lost on the way. So no child holds up another, nor its parent,
and none of them costs more memory than the bound. Nothing waits for the other end. A `Codec` says what the messages
are. A parent shows that it lives, also while it has nothing to tell.
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
"""A message of the users of a link: what a parent tells, or what a child says."""

HAS_GONE: Final = "it has gone"
"""The reason for the end of a link whose peer did not break the protocol."""

WAITING_BYTES: Final = 16 * 1024 * 1024
"""So much may wait for one child, beside what the socket has taken."""

_AT_ONCE_BYTES = 256 * 1024
_MOST_FRAMES = 1024


class Unsaid(Protocol):
    """What a child has to say and could not say yet; false if that is nothing."""

    def __bool__(self) -> bool: ...

    def add(self, message: Message, /) -> None:
        """Take something to say, in the place of what that makes superfluous."""

    def take(self) -> list[Message]:
        """Return what there is to say, in order, and forget it."""


@dataclass(frozen=True, slots=True)
class Codec:
    """How messages become frames, and which of them a link treats in a way of their own.

    Attributes:
        encode: returns the parts of the frames of a message.
        decode_told: returns the message of a frame that a parent has sent; raises ProtocolError.
        decode_said: returns the message of a frame that a child has sent; raises ProtocolError.
        most_told_bytes: a frame of a parent has a payload of at most so many bytes.
        size_of: returns about how many bytes a message has in memory.
        must_be_told: whether a message is told even to a child that has no room for it.
        joins: whether by a message a child says who it is; a child without a socket says such a message first.
        unsaid: returns an empty place for what a child has to say.
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
    """A message, encoded.

    Attributes:
        message: the message.
        parts: its frame, or frames.
        size_bytes: how many bytes they have.
    """

    message: Message
    parts: list[Any]
    size_bytes: int


class SharedFrames:
    """Encodes what many children are told once, for as long as one turn of the loop.

    Args:
        codec: of the messages.
        loop: of the children.

    Attributes:
        children: how many there are; for a single one nothing is kept, which saves a turn of the loop.
    """

    def __init__(self, codec: Codec, loop: asyncio.AbstractEventLoop) -> None:
        self.codec = codec
        self._loop = loop
        self._frames: dict[int, Frame] = {}
        self.children = 0

    def of(self, message: Message) -> Frame:
        """Return the frame of a message, the same for the same object."""
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
    """The parent's end of a connection. To be used on the loop only, until the child has gone, or it is closed.

    Args:
        connection: to the child, which has shown that it may connect; it does not block.
        frames: shared with the other children.
        received: is given what the child says, in order; it may close the link.
        gone: is told, once, why the child is not there any more, and the link is closed then; not if it was closed
            before. Neither of the two is called within a call of the link.
        drained: is called when the connection has taken everything that it had not taken at once.
        waiting_bytes: so much may wait, or one message, if that is more.

    Attributes:
        dropped: how many messages the child was not told because it did not read.
        dropped_bytes: how many bytes those had.
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
        """Have a message written, or drop it if there is no room for it, unless it must be told; tell which.

        What is told to a child that has gone is dropped.
        """
        is_taken = self._keep(message)
        if is_taken and not self._will_write and not self._is_full:
            self._will_write = True
            self._loop.call_soon(self._flush)  # so that all that is told in one turn goes together
        return is_taken

    def tell_now(self, messages: Iterable[Message]) -> None:
        """Write at once, as far as the connection takes it, what waits and these messages.

        Messages without room are dropped as in `tell`.
        """
        for message in messages:
            self._keep(message)
        self._write()

    def show_life(self) -> None:
        """Write a sign of life, if nothing was written since the last call, and nothing waits."""
        if self._shown_bytes == self.written_bytes and not self.waiting_bytes:
            self._writer.add([SIGN_OF_LIFE])
            self._write()
        self._shown_bytes = self.written_bytes

    def _keep(self, message: Message) -> bool:
        frame = self._frames.of(message)
        if not self._takes(frame):
            self._write()  # which may have had no occasion yet
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
        """How much waits for the connection to take it."""
        return self._writer.waiting_bytes

    @property
    def written_bytes(self) -> int:
        """How much the connection has taken."""
        return self._writer.written_bytes

    def _flush(self) -> None:
        self._will_write = False
        if not self._is_full:
            self._write()

    def _write(self) -> None:
        """Write what waits, as far as the connection takes it, and the rest as soon as it takes more."""
        if self._is_over:
            return
        try:
            is_full = not self._writer.write()
        except OSError:
            self._is_over = True
            self._loop.remove_writer(self._connection)
            self._loop.call_soon(self._readable)  # what it has said before it went is heard
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
        """Let go of the connection, if that has not happened; what it has taken arrives."""
        if self._is_closed:
            return
        self._is_closed = self._is_over = True
        self._frames.children -= 1
        self._loop.remove_reader(self._connection)
        self._loop.remove_writer(self._connection)
        self._writer.close()


class ParentLink:
    """The child's end of a connection. To be used by one thread at a time, and closed.

    Args:
        codec: of the messages.
        connection: to the parent; it does not block.
        most_at_once: about how many bytes to read at a time.

    Attributes:
        why_lost: why the parent is not there any more; empty as long as it is.
    """

    def __init__(self, codec: Codec, connection: socket.socket, most_at_once: int = MOST_AT_ONCE) -> None:
        self._codec = codec
        self._connection = connection
        self._reader = FrameReader(connection, codec.decode_told, most_at_once, codec.most_told_bytes)
        self._writer = SocketWriter(connection)
        self._unsaid = codec.unsaid()
        self._is_deaf = False
        self.why_lost = ""

    def fileno(self) -> int:
        """Return what to poll: for reading, and while `is_waiting` for writing as well; then call `read`."""
        return self._connection.fileno()

    @property
    def is_lost(self) -> bool:
        """Whether nothing more will come; what came before has been returned."""
        return bool(self.why_lost)

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to say that the connection has not taken."""
        return not (self.is_lost or self._is_deaf) and bool(self._writer.waiting_bytes or self._unsaid)

    def read(self) -> list[Message]:
        """Return what has come, without waiting for it, and say what waits, as far as the connection takes it."""
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
        """Say something, without waiting for the parent to take it; if it has gone, `read` finds out."""
        for message in messages:
            self._unsaid.add(message)
        self._say()

    def _say(self) -> None:
        """Write what waits, as far as the connection takes it."""
        if self.is_lost or self._is_deaf:
            self._unsaid.take()
            return
        try:
            while self._writer.write() and self._unsaid:
                for message in self._unsaid.take():
                    self._writer.add(self._codec.encode(message))
        except OSError:
            self._is_deaf = True  # what it has told before it went can still be read

    @property
    def read_bytes(self) -> int:
        """The number of bytes that were read."""
        return self._reader.read_bytes

    def _lose(self, why: str) -> None:
        self.why_lost = self.why_lost or why

    def close(self) -> None:
        """Let go of the connection; what it has taken arrives."""
        self._lose("the link is closed")
        self._connection.close()
