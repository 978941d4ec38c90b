"""The offer of a connection to a process on the same node: an address, and a ticket that only it has.

The address is a name in Linux's abstract namespace, so there is no file that could be left behind. Any process of the
node can find it there; so a publisher listens to no other user, and to nobody who does not show a ticket that it has
made for this very purpose and handed out through Ray. The caller in turn makes sure that who listens is the same
user, before anything is unpickled. Elsewhere than on Linux, and between nodes, Ray's own connections are used.

Source: unix(7) on the abstract namespace and on ``SO_PEERCRED``.
"""

import logging
import os
import secrets
import socket
import struct
import sys
from dataclasses import dataclass, field
from typing import Final

TICKET_BYTES: Final = 32
_LOG = logging.getLogger(__name__)
_CONNECT_TIMEOUT_S = 10.0
_SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
# Several batches: with room for one, publisher and subscriber sleep and wake each other for each.
_STEADY_BUFFER_BYTES = 1024 * 1024
_CREDENTIALS = struct.Struct("iII")


@dataclass(frozen=True, slots=True)
class SocketOffer:
    """Where a publisher listens, and for whom.

    Attributes:
        node: the node of the cluster that it is on.
        name: its address there.
        ticket: what to show; good for one connection.
    """

    node: str
    name: str
    ticket: bytes = field(repr=False)

    def connect(self, node: str) -> socket.socket | None:
        """Return a connection that does not block, for a process on ``node``; None if there is no way."""
        if node != self.node or not is_possible():
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_CONNECT_TIMEOUT_S)
            connection.connect(f"\0{self.name}")
            if not is_same_user(connection):
                raise PermissionError("another user listens there")
            connection.sendall(self.ticket)
            prepare(connection)
        except OSError as error:
            _LOG.warning("no socket to a publisher on this node, so Ray's calls have to do: %s", error)
            connection.close()
            return None
        return connection


def is_possible() -> bool:
    """Tell whether this machine has such sockets."""
    return sys.platform == "linux"


def listen() -> tuple[socket.socket, str]:
    """Return a socket that listens, without blocking, at a new address, and that address."""
    name = f"tidewheel-{secrets.token_hex(16)}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0{name}")
    listener.listen(socket.SOMAXCONN)
    listener.setblocking(False)
    return listener, name


def prepare(connection: socket.socket, *, steadily: bool = False) -> None:
    """Have a connection not block, and take much at once; ``steadily`` less, so that it is seen how it is read."""
    connection.setblocking(False)
    size = _STEADY_BUFFER_BYTES if steadily else _SOCKET_BUFFER_BYTES
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)


def is_same_user(connection: socket.socket) -> bool:
    """Tell whether the process at the other end belongs to the user of this one."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return bool(user == os.getuid())
