"""Parts of frames on their way into a socket that does not block."""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from socket import socket
from typing import Any

_MOST_PARTS = 256


class SocketWriter:
    """Writes as much as the socket takes, and keeps the rest.

    Attributes:
        waiting_bytes: how much it keeps.
        written_bytes: how much the socket has taken.
    """

    def __init__(self, target: socket) -> None:
        self._socket = target
        self._parts: deque[Any] = deque()
        self.waiting_bytes = self.written_bytes = 0

    def add(self, parts: Iterable[Any]) -> None:
        """Take parts of frames; they must not change any more."""
        for part in parts:
            if len(part):  # one that is empty would never be written
                self._parts.append(part)
                self.waiting_bytes += len(part)

    def write(self) -> bool:
        """Write what waits; return whether nothing waits any more.

        Raises:
            OSError: the peer has gone.
        """
        parts = self._parts
        while parts:
            try:
                written = self._socket.sendmsg(list(islice(parts, _MOST_PARTS)))
            except (BlockingIOError, InterruptedError):
                return False
            self.waiting_bytes -= written
            self.written_bytes += written
            while written:
                size = len(parts[0])
                if written < size:
                    parts[0] = memoryview(parts[0])[written:]
                    break
                written -= size
                parts.popleft()
        return True
