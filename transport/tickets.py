"""Connections between processes of one node, and the tickets that open them.

An actor listens at a name in Linux's abstract namespace, so it leaves no file behind. Any process of the node can find
the name. So the actor admits only callers of its own user who show a ticket, which is valid once. The actor makes each
ticket for one process and sends it through Ray: so the caller belongs to the cluster. The caller checks that the
listener has the same user before it unpickles anything.

Source: unix(7) on the abstract namespace and on ``SO_PEERCRED``.
"""

import asyncio
import logging
import os
import secrets
import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

TICKET_BYTES: Final = 32
_LOG = logging.getLogger(__name__)
_CONNECT_TIMEOUT_S = 10.0
_SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
# Room for several batches: with room for one, publisher and subscriber would wake each other for every batch.
_STEADY_BUFFER_BYTES = 1024 * 1024
_CREDENTIALS = struct.Struct("iII")
_TICKET_TIMEOUT_S = 10.0
_GOOD_FOR_S = 3600.0
_MOST_STRANGERS = 64
_ACCEPT_AGAIN_S = 1.0

Who = TypeVar("Who")


@dataclass(frozen=True, slots=True)
class SocketOffer:
    node: str
    name: str
    ticket: bytes = field(repr=False)

    def connect(self, node: str) -> socket.socket | None:
        """Connect a process on ``node`` to the actor; return the non-blocking connection.

        None if the actor is on another node, or cannot be reached.
        """
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
    return sys.platform == "linux"


def _listen() -> tuple[socket.socket, str]:
    name = f"tidewheel-{secrets.token_hex(16)}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0{name}")
    listener.listen(socket.SOMAXCONN)
    listener.setblocking(False)
    return listener, name


def prepare(connection: socket.socket, *, steadily: bool = False) -> None:
    """Make a connection non-blocking, with large buffers.

    ``steadily`` makes them smaller, so that they show how fast the peer reads.
    """
    connection.setblocking(False)
    size = _STEADY_BUFFER_BYTES if steadily else _SOCKET_BUFFER_BYTES
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)


def is_same_user(connection: socket.socket) -> bool:
    return _peer_of(connection)[1] == os.getuid()


def process_behind(connection: socket.socket) -> int:
    """Return the id of the process that listens at the other end; 0 if that process is invisible here."""
    return _peer_of(connection)[0]


def _peer_of(connection: socket.socket) -> tuple[int, int]:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return process, user


class TicketListener(Generic[Who]):
    """Listens at its own address for callers with tickets.

    Args:
        admitted: receives each non-blocking connection with a valid ticket, and the owner of the ticket.
    """

    def __init__(self, node: str, admitted: Callable[[socket.socket, Who], None]) -> None:
        self._node = node
        self._admitted = admitted
        self._loop = asyncio.get_running_loop()
        self._tickets: dict[bytes, Who] = {}
        self._strangers: dict[socket.socket, asyncio.TimerHandle] = {}
        self._listener, self._name = _listen()
        self._loop.add_reader(self._listener, self._accept)

    def offer(self, who: Who) -> SocketOffer:
        ticket = secrets.token_bytes(TICKET_BYTES)
        self._tickets[ticket] = who
        # A peer that connects by calls never uses its ticket.
        self._loop.call_later(_GOOD_FOR_S, lambda: self._tickets.pop(ticket, None))
        return SocketOffer(self._node, self._name, ticket)

    def withdraw(self, who: Who) -> None:
        self._tickets = {ticket: name for ticket, name in self._tickets.items() if name != who}

    def close(self) -> None:
        """Stop listening, and reject connections that have shown no ticket; idempotent."""
        if self._listener.fileno() < 0:
            return
        for stranger in list(self._strangers):
            self._turn_away(stranger)
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # this process has as many files open as it may
                _LOG.warning("%s accepts no connection for %g s: %s", self._name, _ACCEPT_AGAIN_S, error)
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_ACCEPT_AGAIN_S, self._loop.add_reader, self._listener, self._accept)
                return
            connection.setblocking(False)
            if not is_same_user(connection):
                connection.close()
                continue
            if len(self._strangers) >= _MOST_STRANGERS:
                self._turn_away(next(iter(self._strangers)))
            self._strangers[connection] = self._loop.call_later(_TICKET_TIMEOUT_S, self._turn_away, connection)
            self._loop.add_reader(connection, self._admit, connection)
            self._admit(connection)  # at once, so that a caller with a ticket is not rejected as one without

    def _admit(self, connection: socket.socket) -> None:
        try:
            ticket = connection.recv(TICKET_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            ticket = b""
        if ticket not in self._tickets:
            self._turn_away(connection)
            return
        self._strangers.pop(connection).cancel()
        self._loop.remove_reader(connection)
        prepare(connection)
        self._admitted(connection, self._tickets.pop(ticket))

    def _turn_away(self, connection: socket.socket) -> None:
        self._strangers.pop(connection).cancel()
        self._loop.remove_reader(connection)
        connection.close()
