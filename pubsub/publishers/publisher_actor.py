"""The actor that publishes one partition: over sockets to processes on its node, by calls to those on other nodes.

It is an asyncio actor, so that subscribers can wait in it for news, and all happens on its loop. Calls on asyncio
actors do not keep their order, so a worker that calls numbers its calls and an `OrderedInbox` restores it. This module
does not import Ray: the class is plain, and `ray_publishers` makes it an actor.
"""

import socket
import time
from collections.abc import Callable

from tidewheel.progress import ProtocolError, TimeDomain
from tidewheel.pubsub.exactly_once.frames import ChildMessage, Told
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import FeedEvent
from tidewheel.pubsub.protocol.publisher import Publisher, PublisherStatistics
from tidewheel.pubsub.publishers.live_partition import LivePartition
from tidewheel.transport.change_signal import ChangeSignal
from tidewheel.transport.ordered_inbox import OrderedInbox
from tidewheel.transport.process_memory import keep_freed_memory
from tidewheel.transport.socket_offer import SocketOffer
from tidewheel.transport.ticket_listener import TicketListener

LEASE_S = 60.0


class PublisherActor:
    """Publishes one partition of a topic. To be made on a running loop.

    Args:
        topic: its name.
        partition: the number of the partition.
        domain: the times of the topic.
        capacity_bytes: how much may wait for one subscriber.
        node: the node of the cluster that it is on; None for one without sockets.
        lease_s: a subscriber without a connection that is silent for longer is given up.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        domain: TimeDomain,
        capacity_bytes: int,
        node: str | None = None,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        keep_freed_memory()
        self._name = f"{topic!r}[{partition}]"
        self._publisher = Publisher(domain, capacity_bytes)
        self._inbox: OrderedInbox[list[FeedEvent]] = OrderedInbox()
        self._lease_s = lease_s
        self._clock = clock
        self._changed = ChangeSignal()
        self._node = node
        self._live_partition: LivePartition | None = None
        self._listener: TicketListener[str | None] | None = None

    @property
    def _partition(self) -> LivePartition:
        if self._live_partition is None:
            self._live_partition = LivePartition(
                repr(self), self._publisher, self._changed, self._lease_s, self._clock, self._withdraw
            )
        return self._live_partition

    def _offer(self, subscriber: str | None) -> SocketOffer | None:
        if self._node is None:
            return None
        if self._listener is None:
            self._listener = TicketListener(self._node, self._admitted)
        return self._listener.offer(subscriber)

    def _withdraw(self, subscriber: str) -> None:
        if self._listener is not None:
            self._listener.withdraw(subscriber)

    def _admitted(self, connection: socket.socket, subscriber: str | None) -> None:
        if subscriber is None:
            self._partition.connect_worker(connection)
        else:
            self._partition.connect(subscriber, connection)

    # ------------------------------------------------------------------ calls of the worker

    async def listen(self) -> SocketOffer | None:
        """Return where the worker can connect to, if it is on this node; None if there are no sockets here."""
        return self._offer(None)

    async def feed(self, incarnation: int, sequence: int, events: list[FeedEvent]) -> None:
        """Take events of a worker that has no connection; return once they are told to the subscribers.

        Args:
            incarnation: the same for all calls of one worker; a second worker is refused.
            sequence: 0 for its first call, and so on.
            events: what happened, in order.

        Raises:
            ProtocolError: the events are impossible; the topic has failed.
        """
        try:
            for batch in self._inbox.accept(self._name, incarnation, sequence, events):
                self._partition.take(batch)
        except ProtocolError as error:
            self._partition.refuse(str(error))
            raise
        await self._partition.taken(LEASE_S)

    # ------------------------------------------------------------------ calls of subscribers

    async def attach(self, subscriber: str, options: DeliveryOptions = EVERYTHING) -> SocketOffer | None:
        """Take on a subscriber: from now on it misses nothing that it wants, if it connects or calls in time.

        Returns:
            Where it can connect to if it is on this node; None if there are no sockets here.

        Raises:
            ProtocolError: it is attached already.
        """
        self._partition.attach(subscriber, options)
        return self._offer(subscriber)

    async def talk(
        self,
        subscriber: str,
        said: list[ChildMessage],
        wait_s: float,
        received: int | None = None,
        again: bool = False,
    ) -> list[Told]:
        """Return the next messages of a subscriber without a connection, as soon as there are any."""
        return await self._partition.talk(subscriber, said, wait_s, received, again=again)

    async def detach(self, subscriber: str) -> None:
        """Forget a subscriber, which is its last acknowledgement too; a call of it that waits returns at once."""
        self._partition.leave(subscriber)

    # ------------------------------------------------------------------ calls of the publication

    async def wait_for_subscribers(self, count: int, timeout_s: float) -> int:
        """Wait until ``count`` subscribers are connected; return how many are in the end."""
        await self._changed.wait_until(lambda: self._publisher.subscribers >= count, timeout_s)
        return self._publisher.subscribers

    async def ended(self, timeout_s: float) -> bool:
        """Wait until the partition has ended or failed; tell whether it has."""
        return await self._changed.wait_until(lambda: self._publisher.is_finished, timeout_s)

    async def drained(self, timeout_s: float, but_for: str | None = None) -> bool:
        """Wait until the partition is finished and every subscriber has all of it; tell whether that is so.

        Subscribers of the process ``but_for`` do not count: that process waits here, and they cannot read meanwhile.
        """
        self._partition.go_on()
        return await self._changed.wait_until(lambda: self._publisher.is_drained_but_for(but_for), timeout_s)

    async def retire(self, owner: str) -> None:
        """End this actor once every subscriber has all of it, was cut off, or has taken nothing for as long as a lease.

        Those of the process ``owner`` have all the time that they want.
        """
        import ray

        taken: dict[str, int] = {}
        while not await self._changed.wait_until(lambda: not self._publisher.unread(), self._lease_s):
            self._partition.go_on()
            for subscriber in self._publisher.unread():
                is_idle = taken.get(subscriber) == self._partition.taken_by(subscriber)
                if is_idle and not subscriber.startswith(f"{owner}/"):
                    self._partition.leave(subscriber)
            taken = {subscriber: self._partition.taken_by(subscriber) for subscriber in self._publisher.unread()}
        ray.actor.exit_actor()

    async def fail(self, reason: str) -> None:
        """End the partition before its time, with ``reason`` for the subscribers."""
        self._publisher.fail(reason)
        self._partition.go_on()

    async def ping(self) -> None:
        """Answer, which shows that the actor lives."""

    async def statistics(self) -> PublisherStatistics:
        """Return counts of what happened so far."""
        return self._publisher.statistics()

    def __repr__(self) -> str:
        return f"Publisher({self._name})"
