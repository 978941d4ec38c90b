"""One partition of a topic at its publisher: its worker and its children, over sockets on their node or by calls.

`LivePartition` keeps nothing, and `DurablePartition` has a log.
"""

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tidewheel.pubsub.exactly_once.codec import CODEC
from tidewheel.pubsub.exactly_once.frames import ChildMessage, Told
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.publishers.worker_link import MessageSink, WorkerLink
from tidewheel.transport.change_signal import ChangeSignal
from tidewheel.transport.children import Children
from tidewheel.transport.tickets import SocketOffer, TicketListener


class Partition(ABC):
    """The connections of one partition. To be made on a running loop, and used on it only.

    Args:
        name: of the partition, for messages and logs.
        node: the node of the cluster that this process is on; None for a partition without sockets.
        changed: is notified of everything that others may wait for.
        drained: as for `Children`.
        silent_s: as for `Children`.

    Attributes:
        children: the subscribers and relays that are connected.
    """

    def __init__(
        self,
        name: str,
        node: str | None,
        changed: ChangeSignal,
        drained: Callable[[str], None] = lambda _: None,
        silent_s: float | None = None,
    ) -> None:
        self._name = name
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._worker: WorkerLink | None = None
        self._node = node
        self._listener: TicketListener[str | None] | None = None
        self.children = Children(CODEC, self._loop, self._hear, self._gone, drained=drained, silent_s=silent_s)

    # ------------------------------------------------------------------ connections

    def offer(self, child: str | None) -> SocketOffer | None:
        """Return where a child, or the worker if that is None, can connect to; None if there are no sockets here."""
        if self._node is None:
            return None
        if self._listener is None:
            self._listener = TicketListener(self._node, self._admitted)
        return self._listener.offer(child)

    def _admitted(self, connection: socket.socket, child: str | None) -> None:
        if child is not None:
            self.connect(child, connection)
            return
        if self._worker is not None:
            self._worker.close()  # it has connected anew
        self._worker = WorkerLink(connection, self._loop, self._sink, self._refuse)

    def connect(self, child: str, connection: socket.socket) -> None:
        """Take on the connection of a child."""
        self.children.connect(child, connection)

    def attach(self, child: str, options: DeliveryOptions) -> SocketOffer | None:
        """Take on a child; return where it can connect to if it is on this node."""
        return self.offer(child)

    async def talk(
        self, child: str, said: list[ChildMessage], wait_s: float, received: int | None, *, again: bool
    ) -> list[Told]:
        """Receive what a child says that has no connection; return what there is to tell it, as `Children.talk`."""
        return await self.children.talk(child, said, wait_s, received, again=again)

    def leave(self, child: str) -> None:
        """Forget a child."""
        self.children.let_go(child)

    def _settle(self) -> None:
        """Tell the worker what has become durable, and read on if there is room."""
        if self._worker is not None:
            self._worker.settle()

    def _let_go(self) -> None:
        """Close all connections, and listen no more."""
        if self._worker is not None:
            self._worker.close()
        self.children.close()
        if self._listener is not None:
            self._listener.close()

    @property
    @abstractmethod
    def _sink(self) -> MessageSink:
        """What receives the messages of the worker."""

    @abstractmethod
    def _refuse(self, reason: str) -> None:
        """End the partition before its time, as the worker sent what makes no sense, or the log cannot be written."""

    @abstractmethod
    def _hear(self, child: str, said: list[ChildMessage]) -> None:
        """Receive what a child says."""

    @abstractmethod
    def _gone(self, child: str, why: str) -> None:
        """Take note that a child is not connected any more."""

    # ------------------------------------------------------------------ the state of the partition

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether the worker has sent everything, or nothing more will be published."""

    @property
    @abstractmethod
    def readers(self) -> int:
        """How many subscriptions are read."""

    @abstractmethod
    async def drained(self, timeout_s: float, but_for: str | None) -> bool:
        """Wait until all who read have everything; tell whether they have. Readers of one process do not count."""

    @abstractmethod
    async def read_by_all(self, owner: str) -> None:
        """Wait until all who read have everything, or received nothing for as long as a lease.

        Readers of the process ``owner`` have all the time that they want.
        """

    @abstractmethod
    def fail(self, reason: str) -> None:
        """End the partition before its time, with ``reason`` for its subscribers."""

    @abstractmethod
    def statistics(self) -> Any:
        """Return counts of what happened so far."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the worker and of all children, and close the log if there is one. Raises LogError."""
