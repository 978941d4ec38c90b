"""One partition of a topic at its publisher: the calls of others and their waits, on an asyncio loop.

A pubend, or a publisher without a log, delivers the partition. Both have the same messages, numbers and states of
epochs. A pubend numbers by a clock, announces durable messages, promises silence, and answers children that ask again.
A publisher without a log keeps in memory the changes so far, messages for subscribers of a dead publisher, and a queue
for each subscriber.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.frames import ChildMessage, Told
from tidewheel.pubsub.protocol.topic_end import ALL_READ_WITHIN_S, PartitionEnd
from tidewheel.pubsub.publishers.connections import Connections
from tidewheel.transport.tickets import SocketOffer


class Awaiting(Protocol):
    """A publisher or pubend that may wait for its first subscribers; while it does, ``awaited`` is not 0."""

    awaited: int


class Delivery(Protocol):
    """Delivers a partition from its worker to its children, with or without a log; it never waits.

    Attributes:
        lease_s: the seconds to wait for a reader that receives nothing.
        problem: the reason why nothing is published any more; empty if there is no problem.
    """

    connections: Connections
    awaiting: Awaiting
    lease_s: float
    problem: str

    def attach(self, child: str, options: DeliveryOptions, *, again: bool) -> None: ...

    def turned_away(self, child: str) -> list[Told]:
        """Return the messages that refuse the calls of an unknown child; empty if the child is known.

        Raises:
            ProtocolError: the child is unknown, but may attach again.
        """

    def leave(self, child: str) -> None: ...

    def go_back(self) -> None:
        """Drop the worker's messages that are not passed on yet, since its job goes back to a snapshot."""

    def go_on(self) -> None: ...

    @property
    def has_ended(self) -> bool:
        """True if the partition has ended or failed; with a log, durably."""

    @property
    def readers(self) -> int: ...

    def is_drained(self, but_for: str | None) -> bool:
        """Tell whether everything is published, and received by all readers outside the process ``but_for``."""

    def has_been_read(self, but_for: str | None) -> bool:
        """Tell whether the end may be announced: all readers have received everything, or certainly will."""

    @property
    def is_read_by_all(self) -> bool:
        """True if all readers have received everything, or were given up."""

    def unread(self) -> Mapping[str, int]:
        """Return, for each subscription that has not received everything, a number that grows with its progress."""

    def is_of(self, name: str, process: str | None) -> bool: ...

    def give_up(self, name: str) -> None:
        """Stop waiting for a subscription that receives nothing."""

    def known_end(self, generation: int) -> PartitionEnd | None:
        """Return the end of the partition; None if the partition has not received everything in ``generation``."""

    def end(self, known: PartitionEnd | None) -> None:
        """End the partition, since all partitions have received everything.

        Idempotent; raise LogError if the log has failed.
        """

    def expect(self, readers: Sequence[str]) -> list[str]:
        """Delay the end for these subscribers of a dead publisher.

        Return the subscribers that must connect again if this publisher dies.
        """

    def fail(self, reason: str, *, on_purpose: bool) -> None:
        """End the partition early, with ``reason`` for its readers."""

    def statistics(self) -> dict[str, int]: ...

    async def close(self) -> None: ...


class Partition:
    """One partition, made on a running loop and used only there."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self._connections = delivery.connections

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``condition()`` is true, or the partition is closed; return the last value of ``condition()``."""
        return await self._connections.wait_until(condition, timeout_s)

    # ------------------------------------------------------------------ the worker and the children

    def await_nobody(self) -> None:
        """Do not wait for first subscribers any more."""
        self.delivery.awaiting.awaited = 0

    async def awaited(self, timeout_s: float) -> bool:
        return await self.wait_until(lambda: not self.delivery.awaiting.awaited, timeout_s)

    def offer(self) -> SocketOffer | None:
        """Return the address at which the worker can connect; None without sockets."""
        return self._connections.offer(None)

    def attach(self, child: str, options: DeliveryOptions, *, again: bool = False) -> SocketOffer | None:
        """Accept a child; return the address at which it can connect if it is on this node.

        Raises:
            ProtocolError: the subscriber is attached already.
            DeliveryError: the subscriber attaches again, and would miss messages.
        """
        self.delivery.attach(child, options, again=again)
        return self._connections.offer(child)

    async def talk(
        self, child: str, said: list[ChildMessage], wait_s: float, received: int | None, *, again: bool
    ) -> list[Told]:
        """Receive messages from a child without a connection; return messages for it, as `Children.talk` does."""
        turned_away = self.delivery.turned_away(child)
        return turned_away or await self._connections.children.talk(child, said, wait_s, received, again=again)

    def leave(self, child: str) -> None:
        self.delivery.leave(child)

    def go_back(self) -> None:
        """Receive nothing more from the worker, since its job goes back and another worker will connect."""
        self._connections.close_workers()
        self.delivery.go_back()

    # ------------------------------------------------------------------ the readers and the end

    async def read_by(self, count: int, timeout_s: float) -> int:
        await self.wait_until(lambda: self.delivery.readers >= count, timeout_s)
        return self.delivery.readers

    async def ended(self, timeout_s: float) -> bool:
        return await self.wait_until(lambda: self.delivery.has_ended, timeout_s)

    async def drained(self, timeout_s: float, but_for: str | None) -> bool:
        self.delivery.go_on()
        return await self.wait_until(lambda: self.delivery.is_drained(but_for), timeout_s)

    async def read_by_all(self, owner: str) -> None:
        """Wait until each reader has received everything, or has received nothing for one lease.

        Readers of the process ``owner`` have no such limit.
        """
        delivery, before = self.delivery, dict[str, int]()
        connections = self._connections
        while not await self.wait_until(lambda: connections.is_closing or delivery.is_read_by_all, delivery.lease_s):
            delivery.go_on()
            unread = delivery.unread()
            for name, received in unread.items():
                if before.get(name) == received and not delivery.is_of(name, owner):
                    delivery.give_up(name)
            before = dict(delivery.unread())

    async def known_end(self, generation: int, timeout_s: float, but_for: str | None) -> PartitionEnd | None:
        """Wait until the partition has received everything in a generation; return its end, or None after the timeout.

        The worker is told first. Then readers outside the process ``but_for`` have a moment to receive everything.
        """
        delivery = self.delivery
        if not await self.wait_until(lambda: delivery.known_end(generation) is not None, timeout_s):
            return None
        self._connections.tell_workers()
        await self.wait_until(lambda: delivery.has_been_read(but_for), ALL_READ_WITHIN_S)
        return delivery.known_end(generation)

    def end(self, known: PartitionEnd | None) -> None:
        """End the partition, since all partitions have received everything. Idempotent.

        ``known`` is its end; None if the log has the end. Raise LogError if the log has failed.
        """
        self.delivery.end(known)

    def expect(self, readers: Sequence[str]) -> list[str]:
        """Delay the end, at most one lease, for these subscribers of a dead publisher.

        Return the subscribers that must connect again if this publisher dies.
        """
        return self.delivery.expect(readers)

    def fail(self, reason: str, *, on_purpose: bool = False) -> None:
        self.delivery.fail(reason, on_purpose=on_purpose)

    @property
    def problem(self) -> str:
        return self.delivery.problem

    def statistics(self) -> dict[str, int]:
        return self.delivery.statistics()

    async def close(self) -> None:
        self._connections.is_closing = True
        try:
            await self.delivery.close()
        finally:
            self._connections.changed.notify()
