"""The connection of a child to its parent, for a thread that polls.

Nothing waits for the other end. What a parent does not take waits here, where it is kept short.
"""

import socket
from collections.abc import Iterable

from tidewheel.progress import ProtocolError
from tidewheel.transport.codec import HAS_GONE, Codec, Message
from tidewheel.transport.socket_frames import MOST_AT_ONCE, FrameReader
from tidewheel.transport.socket_writer import SocketWriter


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

    def _lose(self, why: str) -> None:
        self.why_lost = self.why_lost or why

    def close(self) -> None:
        """Let go of the connection; what it has taken arrives."""
        self._lose("the link is closed")
        self._connection.close()
