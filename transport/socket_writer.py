"""Writes frames to a non-blocking stream socket, and keeps the bytes that the socket does not take yet.

If the peer is on this node, large parts of a `tidewheel.transport.mapped_file.MappedFile` are sent directly from the
file. The writer refers to such a part until the peer has read it, so that its memory is not reused. The system reports
about how many bytes are in the socket's queue; the peer has read all bytes before these.
"""

import os
import struct
import termios
from collections import deque
from collections.abc import Iterable
from fcntl import ioctl
from itertools import islice
from socket import AF_UNIX, socket
from typing import Any, Final

from tidewheel.transport.mapped_file import MappedFile, place_of

LARGE: Final = 1 << 17
"""The least size of a part that is sent from its file, in bytes: copying a smaller part is faster."""

_MOST_PARTS = 256
_QUEUED = struct.Struct("i")


class SocketWriter:
    """Writes as much as the socket takes, and keeps the rest.

    Attributes:
        waiting_bytes: the number of kept bytes.
        written_bytes: the number of bytes that the socket has taken.
    """

    def __init__(self, target: socket) -> None:
        self._socket = target
        self._takes_files = target.family == AF_UNIX
        self._has_large = False  # whether a large part was added since `write` last wrote all parts
        self._parts: deque[Any] = deque()
        self._unread: deque[tuple[int, Any, MappedFile]] = deque()  # bytes written up to its end, the part, its file
        self.waiting_bytes = self.written_bytes = 0

    def add(self, parts: Iterable[Any]) -> None:
        """Add parts of frames; do not change them afterwards."""
        for part in parts:
            if len(part):  # an empty part would never be written
                self._parts.append(part)
                self.waiting_bytes += len(part)
                self._has_large |= self._takes_files and len(part) >= LARGE

    def write(self) -> bool:
        """Write waiting bytes; return True if all are written. Raise OSError if the peer has gone."""
        self._forget_read()
        parts = self._parts
        while parts:
            try:
                written = self._send()
            except (BlockingIOError, InterruptedError):
                return False
            self.written_bytes += written
            if written == self.waiting_bytes:
                parts.clear()
                self.waiting_bytes = 0
                break
            self.waiting_bytes -= written
            while written:
                size = len(parts[0])
                if written < size:
                    parts[0] = memoryview(parts[0])[written:]
                    break
                written -= size
                parts.popleft()
        self._has_large = False
        return True

    def _send(self) -> int:
        some = list(islice(self._parts, _MOST_PARTS))
        if self._has_large:
            for number, part in enumerate(some):
                place = place_of(part) if len(part) >= LARGE else None
                if place is None:
                    continue
                if number:
                    return self._socket.sendmsg(some[:number])
                file, offset = place
                written = os.sendfile(self._socket.fileno(), file.descriptor, offset, len(part))
                self._unread.append((self.written_bytes + written, part, file))
                return written or self._socket.sendmsg(some)  # sendmsg raises if another program has cut the file
        return self._socket.sendmsg(some)

    def _forget_read(self) -> None:
        if not self._unread:
            return
        (queued,) = _QUEUED.unpack(ioctl(self._socket, termios.TIOCOUTQ, bytes(_QUEUED.size)))
        while self._unread and self._unread[0][0] <= self.written_bytes - queued:
            self._unread.popleft()

    def close(self) -> None:
        """Close the socket. Mapped files that the peer may still read are never used again."""
        self._forget_read()
        for *_, file in self._unread:
            file.is_held = True
        self._unread.clear()
        self._socket.close()
