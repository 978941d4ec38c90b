"""One partition of a topic at its publisher: what others may ask of it, and wait for, on an asyncio loop.

Its delivery is by a publisher without a log, or by a pubend. Both have the same messages, numbers and states of epochs,
and each has a core of its own. A pubend numbers by a clock, tells what is durable, promises silence, and answers
children that ask again. A publisher without a log does nothing of this. Instead it has in memory what a pubend reads
from its log: the changes so far, the messages for subscribers of a dead publisher, and a queue for each subscriber, of
which the policy decides what happens when it is full.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.frames import ChildMessage, Told
from tidewheel.pubsub.protocol.topic_end import ALL_READ_WITHIN_S, PartitionEnd
from tidewheel.pubsub.publishers.connections import Connections
from tidewheel.transport.tickets import SocketOffer


class Awaiting(Protocol):
    """A core that may wait for its first subscribers; they are awaited until ``awaited`` is 0."""

    awaited: int


class Delivery(Protocol):
    """The way of a partition from its worker to its children, with a log or without one. It never waits.

    Attributes:
        connections: to the worker and the children.
        awaiting: the core.
        lease_s: a reader that receives nothing for so long is not waited for, in seconds.
        problem: why nothing is published any more; empty as long as something is.
    """

    connections: Connections
    awaiting: Awaiting
    lease_s: float
    problem: str

    def attach(self, child: str, options: DeliveryOptions, *, again: bool) -> None:
        """Accept a child, which will connect or call."""

    def turned_away(self, child: str) -> list[Told]:
        """Return what to tell a child that calls and is not known any more; nothing if it may call.

        Raises:
            ProtocolError: it may attach again.
        """

    def leave(self, child: str) -> None:
        """Forget a child."""

    def go_back(self) -> None:
        """Drop what has come of the worker and is not passed on: its job goes back to a snapshot."""

    def go_on(self) -> None:
        """Do what can be done now."""

    @property
    def has_ended(self) -> bool:
        """Whether the partition has ended or failed, durably if it has a log."""

    @property
    def readers(self) -> int:
        """How many subscriptions are read."""

    def is_drained(self, but_for: str | None) -> bool:
        """Tell whether all is published, and all who read have all of it, but for readers of a process."""

    def has_been_read(self, but_for: str | None) -> bool:
        """Tell whether the end may be known at once: all who read have everything, or will have it in any case."""

    @property
    def is_read_by_all(self) -> bool:
        """Whether all who read have everything, or were given up."""

    def unread(self) -> Mapping[str, int]:
        """Return the subscriptions that do not have everything, each with a number that grows as it receives some."""

    def is_of(self, name: str, process: str | None) -> bool:
        """Tell whether a process reads a subscription."""

    def give_up(self, name: str) -> None:
        """Wait no more for a subscription that receives nothing."""

    def known_end(self, generation: int) -> PartitionEnd | None:
        """Return the end of the partition; None if it does not have everything of a generation."""

    def end(self, known: PartitionEnd | None) -> None:
        """End the partition, as all of the topic have everything. Idempotent. Raises LogError."""

    def expect(self, readers: Sequence[str]) -> list[str]:
        """Do not end before these subscribers of a dead publisher have come; return those that would come again."""

    def fail(self, reason: str, *, on_purpose: bool) -> None:
        """End the partition before its time, with ``reason`` for those who read."""

    def statistics(self) -> dict[str, int]:
        """Return counts by name."""

    async def close(self) -> None:
        """Let go of everything. Raises LogError."""


class Partition:
    """To be made on a running loop, and used on it only.

    Args:
        delivery: how it delivers; an attribute, too.
    """

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self._connections = delivery.connections

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``condition()`` is true, or this is closed; return what it is in the end."""
        return await self._connections.wait_until(condition, timeout_s)

    # ------------------------------------------------------------------ the worker and the children

    def await_nobody(self) -> None:
        """Wait for no first subscribers: they have come, perhaps to a publisher that has died."""
        self.delivery.awaiting.awaited = 0

    async def awaited(self, timeout_s: float) -> bool:
        """Wait until the first subscribers have come; tell whether they have."""
        return await self.wait_until(lambda: not self.delivery.awaiting.awaited, timeout_s)

    def offer(self) -> SocketOffer | None:
        """Return where the worker can connect to; None if there are no sockets here."""
        return self._connections.offer(None)

    def attach(self, child: str, options: DeliveryOptions, *, again: bool = False) -> SocketOffer | None:
        """Accept a child; return where it can connect to if it is on this node.

        Raises:
            ProtocolError: it is attached already.
            DeliveryError: it comes again, and would miss something.
        """
        self.delivery.attach(child, options, again=again)
        return self._connections.offer(child)

    async def talk(
        self, child: str, said: list[ChildMessage], wait_s: float, received: int | None, *, again: bool
    ) -> list[Told]:
        """Receive the messages of a child without a connection; return those for it, as `Children.talk`."""
        turned_away = self.delivery.turned_away(child)
        return turned_away or await self._connections.children.talk(child, said, wait_s, received, again=again)

    def leave(self, child: str) -> None:
        """Forget a child."""
        self.delivery.leave(child)

    def go_back(self) -> None:
        """Receive nothing more of the worker: its job goes back to a snapshot, and another worker will connect."""
        self._connections.close_workers()
        self.delivery.go_back()

    # ------------------------------------------------------------------ the readers and the end

    async def read_by(self, count: int, timeout_s: float) -> int:
        """Wait until so many subscriptions are read; return how many are in the end."""
        await self.wait_until(lambda: self.delivery.readers >= count, timeout_s)
        return self.delivery.readers

    async def ended(self, timeout_s: float) -> bool:
        """Wait until the partition has ended or failed, durably if it has a log; tell whether it has."""
        return await self.wait_until(lambda: self.delivery.has_ended, timeout_s)

    async def drained(self, timeout_s: float, but_for: str | None) -> bool:
        """Wait until the partition is finished and all who read have all of it; tell whether they have.

        Readers of the process ``but_for`` do not count.
        """
        self.delivery.go_on()
        return await self.wait_until(lambda: self.delivery.is_drained(but_for), timeout_s)

    async def read_by_all(self, owner: str) -> None:
        """Wait until all who read have everything, or received nothing for as long as a lease.

        Readers of the process ``owner`` have all the time that they want.
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
        """Wait until the partition has everything of a generation; return its end, None if it has not yet.

        The worker is told before that, as it waits for it. Readers may have a moment to receive everything, too; those
        of the process ``but_for`` are not waited for. What is there of an earlier generation is void.
        """
        delivery = self.delivery
        if not await self.wait_until(lambda: delivery.known_end(generation) is not None, timeout_s):
            return None
        self._connections.tell_workers()
        await self.wait_until(lambda: delivery.has_been_read(but_for), ALL_READ_WITHIN_S)
        return delivery.known_end(generation)

    def end(self, known: PartitionEnd | None) -> None:
        """End the partition, as all of the topic have everything. Idempotent. Raises LogError.

        Args:
            known: the end that the publisher of this partition has known; None if its log has that.
        """
        self.delivery.end(known)

    def expect(self, readers: Sequence[str]) -> list[str]:
        """Do not end before these subscribers of a dead publisher have come, or have not for as long as a lease.

        Returns the subscribers that have to come again if this publisher dies.
        """
        return self.delivery.expect(readers)

    def fail(self, reason: str, *, on_purpose: bool = False) -> None:
        """End the partition before its time, with ``reason`` for those who read."""
        self.delivery.fail(reason, on_purpose=on_purpose)

    @property
    def problem(self) -> str:
        """Why nothing is published any more; empty as long as something is."""
        return self.delivery.problem

    def statistics(self) -> dict[str, int]:
        """Return counts of what happened so far, and of what there is, by name."""
        return self.delivery.statistics()

    async def close(self) -> None:
        """Let go of everything for good, and have nothing wait here any more. Raises LogError."""
        self._connections.is_closing = True
        try:
            await self.delivery.close()
        finally:
            self._connections.changed.notify()
