"""The listener of an actor: it admits processes of this user that show a ticket, each of which is good once.

Tickets go through Ray, so who has one belongs to the cluster. All of it runs on one asyncio loop.
"""

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable
from typing import Generic, TypeVar

from tidewheel.transport import socket_offer
from tidewheel.transport.socket_offer import TICKET_BYTES, SocketOffer

_LOG = logging.getLogger(__name__)
_TICKET_TIMEOUT_S = 10.0
_MOST_STRANGERS = 64
_ACCEPT_AGAIN_S = 1.0

Who = TypeVar("Who")


class TicketListener(Generic[Who]):
    """Listens at an address of its own.

    Args:
        node: the node of the cluster that this process is on.
        admitted: is given each connection that has shown a ticket, which does not block, and whom the ticket was for.
    """

    def __init__(self, node: str, admitted: Callable[[socket.socket, Who], None]) -> None:
        self._node = node
        self._admitted = admitted
        self._loop = asyncio.get_running_loop()
        self._tickets: dict[bytes, Who] = {}
        self._strangers: dict[socket.socket, asyncio.TimerHandle] = {}
        self._listener, self._name = socket_offer.listen()
        self._loop.add_reader(self._listener, self._accept)

    def offer(self, who: Who) -> SocketOffer:
        """Return where to connect to, with a ticket for ``who``."""
        ticket = secrets.token_bytes(TICKET_BYTES)
        self._tickets[ticket] = who
        return SocketOffer(self._node, self._name, ticket)

    def withdraw(self, who: Who) -> None:
        """Let tickets of somebody be no good any more."""
        self._tickets = {ticket: name for ticket, name in self._tickets.items() if name != who}

    def close(self) -> None:
        """Listen no more, and turn away those who have not shown a ticket. Called again, it does nothing."""
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
                _LOG.warning("%s accepts nobody for %g s: %s", self._name, _ACCEPT_AGAIN_S, error)
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_ACCEPT_AGAIN_S, self._loop.add_reader, self._listener, self._accept)
                return
            connection.setblocking(False)
            if not socket_offer.is_same_user(connection):
                connection.close()
                continue
            if len(self._strangers) >= _MOST_STRANGERS:
                self._turn_away(next(iter(self._strangers)))
            self._strangers[connection] = self._loop.call_later(_TICKET_TIMEOUT_S, self._turn_away, connection)
            self._loop.add_reader(connection, self._admit, connection)
            self._admit(connection)  # whose ticket is there is no stranger, however many come at once

    def _admit(self, connection: socket.socket) -> None:
        """Look at the ticket of who has called, if it has come."""
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
        socket_offer.prepare(connection)
        self._admitted(connection, self._tickets.pop(ticket))

    def _turn_away(self, connection: socket.socket) -> None:
        self._strangers.pop(connection).cancel()
        self._loop.remove_reader(connection)
        connection.close()
