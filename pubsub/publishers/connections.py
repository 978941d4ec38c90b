"""The connections of one partition at its publisher: to its worker, and to its children, on an asyncio loop.

The worker is on the node of the publisher. Children are subscribers and relays, over sockets on the node or by calls.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

from tidewheel.pubsub.messages.frames import CODEC, ChildMessage
from tidewheel.pubsub.publishers.worker_link import MessageSink, WorkerLink
from tidewheel.transport.change_signal import ChangeSignal
from tidewheel.transport.children import Children
from tidewheel.transport.stream_link import WAITING_BYTES
from tidewheel.transport.tickets import SocketOffer, TicketListener


class Listening(Protocol):
    """The receiver of what happens at connections."""

    def refuse(self, reason: str) -> None:
        """Receive nothing more of the worker: what it sent makes no sense, or the log cannot be written."""

    def connect(self, child: str, connection: socket.socket) -> None:
        """Receive the connection of a child."""

    def hear(self, child: str, said: list[ChildMessage]) -> None:
        """Receive what a child says."""

    def drained(self, child: str) -> None:
        """Record that a child has taken all that it had not taken at once."""

    def gone(self, child: str, why: str) -> None:
        """Record that a child is not connected any more."""


class Connections:
    """To be made on a running loop, and used on it only.

    Args:
        node: the node of the cluster that this process is on; None for a partition without sockets.
        sink: receives the messages of the worker.
        listening: receives all else.
        silent_s, waiting_bytes: as for `Children`.

    Attributes:
        loop: the loop.
        changed: is notified of everything that others may wait for.
        children: the subscribers and relays that are connected.
        is_closing: whether nothing is waited for any more.
        refusal: the reason for which no worker is received any more; empty as long as one is.
    """

    def __init__(
        self,
        node: str | None,
        sink: MessageSink,
        listening: Listening,
        silent_s: float | None = None,
        waiting_bytes: int = WAITING_BYTES,
    ) -> None:
        self._node = node
        self._sink = sink
        self._listening = listening
        self.loop = asyncio.get_running_loop()
        self.changed = ChangeSignal()
        self.refusal = ""
        self.is_closing = False
        self._workers: list[WorkerLink] = []  # one that has begun, and those that have not
        self._listener: TicketListener[str | None] | None = None
        self.children = Children(
            CODEC,
            self.loop,
            listening.hear,
            listening.gone,
            waiting_bytes,
            drained=listening.drained,
            silent_s=silent_s,
        )

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``condition()`` is true, or this is closing: a call that waits on would keep the process alive."""
        await self.changed.wait_until(lambda: self.is_closing or condition(), timeout_s)
        return condition()

    def offer(self, child: str | None) -> SocketOffer | None:
        """Return where a child, or the worker if that is None, can connect to; None if there are no sockets here."""
        if self._node is None:
            return None
        if self._listener is None:
            self._listener = TicketListener(self._node, self._admitted)
        return self._listener.offer(child)

    def _admitted(self, connection: socket.socket, child: str | None) -> None:
        if child is not None:
            self._listening.connect(child, connection)
            return
        link = WorkerLink(connection, self.loop, self._sink, self._listening.refuse, self.close_workers)
        self._workers.append(link)
        if self.refusal:
            link.refuse(self.refusal)

    def let_go(self, child: str) -> None:
        """Close the connection of a child, if there is one, and let it connect only with a new offer."""
        self.children.let_go(child)
        if self._listener is not None:
            self._listener.withdraw(child)

    def settle(self) -> None:
        """Tell the worker soon what is confirmed, and read on if there is room."""
        for worker in self._workers:
            worker.settle()

    def tell_workers(self) -> None:
        """Tell the worker at once what is confirmed."""
        for worker in self._workers:
            worker.settle()
            worker.tell()

    def refuse_workers(self, reason: str) -> None:
        """Tell the worker that nothing more is received of it, and why."""
        for worker in self._workers:
            worker.refuse(reason)

    def close_workers(self, but_for: WorkerLink | None = None) -> None:
        """Close the connections of workers."""
        for worker in {*self._workers} - {but_for}:
            worker.close()
        self._workers = [] if but_for is None else [but_for]

    def close(self) -> None:
        """Close all connections, and listen no more."""
        self.close_workers()
        self.children.close()
        if self._listener is not None:
            self._listener.close()
