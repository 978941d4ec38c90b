"""The short way within a node: a small envelope as one datagram between processes, with no thread in between.

ZeroMQ hands what it sends to a thread of its own, and what arrives comes from another; where a round is short, waking
them is most of it. A datagram arrives when it is sent, or is refused because the peer has not taken the last few: then
the envelope goes over ZeroMQ like all others, and the numbers of the envelopes restore their order. The socket lies in
the same directory as ZeroMQ's, which only its user can enter.

Source: unix(7) on ``SOCK_DGRAM``, which is reliable and keeps order on Linux.
"""

import socket
from contextlib import suppress
from typing import Final

LARGEST: Final = 16 * 1024
"""So many bytes at most go as one datagram; copying more costs more than a thread."""

_MOST_AT_ONCE = 1000


class DatagramReceiver:
    """Takes datagrams at a path in the file system.

    Args:
        path: where peers on the same node find it; the directory exists.

    Attributes:
        descriptor: becomes readable when something has come.
    """

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._socket.bind(path)
        self.descriptor: Final = self._socket.fileno()

    def receive(self) -> list[bytes]:
        """Return those that have come; call it once the descriptor is readable."""
        receive = self._socket.recv
        found = [receive(LARGEST)]
        try:
            while len(found) < _MOST_AT_ONCE:
                found.append(receive(LARGEST))
        except BlockingIOError:
            pass
        return found

    def close(self) -> None:
        """Take nothing more. Idempotent."""
        self._socket.close()


class DatagramSender:
    """Sends datagrams to one peer on the same node, from any thread.

    Args:
        path: where the peer takes them.
    """

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        with suppress(OSError):  # then nothing is taken here, and how the peer fares shows in the other connection
            self._socket.connect(path)

    def send(self, frame: bytes) -> bool:
        """Send it, and return True; return False if it has to go another way: it is too large, or not taken now."""
        if len(frame) > LARGEST:
            return False
        try:
            self._socket.send(frame)
        except OSError:  # it is full, or the peer is gone, which shows in the connection over ZeroMQ
            return False
        return True

    def close(self) -> None:
        """Let go of the peer. Idempotent."""
        self._socket.close()
