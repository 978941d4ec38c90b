"""The connections of one partition's publisher to its worker and its children, on an asyncio loop.

The worker is on the same node. Children are subscribers and relays; they connect by sockets on the same node, otherwise
by Ray calls.
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
    """Receives the events of connections."""

    def refuse(self, reason: str) -> None:
        """Accept nothing more from the worker: it has sent invalid messages, or the log cannot be written."""

    def connect(self, child: str, connection: socket.socket) -> None: ...

    def hear(self, child: str, said: list[ChildMessage]) -> None: ...

    def drained(self, child: str) -> None: ...

    def gone(self, child: str, why: str) -> None: ...


class Connections:
    """The connections of one publisher. Make and use them on the running loop only.

    Args:
        node: the publisher's node; None for a partition without sockets.
        sink: receives the worker's messages.
        listening: receives all other messages.

    Attributes:
        changed: notified after each event that a waiting call may wait for.
        is_closing: whether the publisher is closing, which ends all waits.
        refusal: the reason why no worker is accepted any more; empty while a worker may connect.
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
        self._workers: list[WorkerLink] = []  # the link that has begun, and those that have not
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
        """Wait until ``condition()`` is true, or the publisher is closing.

        A call that still waited then would keep the process alive.
        """
        await self.changed.wait_until(lambda: self.is_closing or condition(), timeout_s)
        return condition()

    def offer(self, child: str | None) -> SocketOffer | None:
        """Return the address at which a child (None: the worker) can connect; None without sockets."""
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
        self.children.let_go(child)
        if self._listener is not None:
            self._listener.withdraw(child)

    def settle(self) -> None:
        """Send confirmations to the worker soon, and read more if there is room."""
        for worker in self._workers:
            worker.settle()

    def tell_workers(self) -> None:
        for worker in self._workers:
            worker.settle()
            worker.tell()

    def refuse_workers(self, reason: str) -> None:
        for worker in self._workers:
            worker.refuse(reason)

    def close_workers(self, but_for: WorkerLink | None = None) -> None:
        for worker in {*self._workers} - {but_for}:
            worker.close()
        self._workers = [] if but_for is None else [but_for]

    def close(self) -> None:
        self.close_workers()
        self.children.close()
        if self._listener is not None:
            self._listener.close()
