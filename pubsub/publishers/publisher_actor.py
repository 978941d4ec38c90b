"""The actor that publishes one partition: over sockets to processes on its node, by calls to those on other nodes.

It is an asyncio actor, and all happens on its loop but what waits for the disk. Its methods are the calls that others
make; what they do is in the partition. This module does not import Ray: the class is plain, and `publisher_calls` makes
it an actor. Where the partition has a log, Ray starts the actor again on
the same node when it has died. Then it goes on from the log, and its worker and children connect anew. If it has no
log and its job keeps snapshots, Ray starts it again, too. Then the job goes back, and subscribers connect anew.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tidewheel.host.log_lines import LogSettings
from tidewheel.host.process_memory import collect_rarely, keep_freed_memory
from tidewheel.progress import Time
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.exactly_once.journal import LogPlace
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.log.opening import logged_partitions
from tidewheel.pubsub.messages.delivery_messages import Begun, Ranges
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.frames import ChildMessage, Told
from tidewheel.pubsub.protocol.topic_end import PartitionEnd
from tidewheel.pubsub.publishers.durable_delivery import DurableDelivery
from tidewheel.pubsub.publishers.epochs_again import Difference, Sums
from tidewheel.pubsub.publishers.live_delivery import LiveDelivery
from tidewheel.pubsub.publishers.partition import Delivery, Partition
from tidewheel.transport.tickets import SocketOffer

_LOG = logging.getLogger(__name__)

RETURNS_WITHIN_S: Final = 25.0
"""A job whose publisher has died goes back within so many seconds; less than a subscriber waits for an answer."""

MakeDelivery: TypeAlias = Callable[[], Delivery]
"""Makes the delivery of the partition of an actor, on its loop."""


class PublisherActor:
    """Publishes one partition of a topic. Some calls are for topics with a log alone.

    Args:
        topic: its name.
        partition: the number of the partition.
        make: makes the delivery of the partition, on the loop; the first call has it made.
        logs: how its process logs; None leaves that as it is.
    """

    def __init__(self, topic: str, partition: int, make: MakeDelivery, logs: LogSettings | None = None) -> None:
        keep_freed_memory()
        if logs is not None:  # the process is its own
            collect_rarely()
            logs.use(lambda: {"topic": topic, "partition": partition})
        self._topic = topic
        self._number = partition
        self._make = make
        self._opened: Partition | None = None
        self._is_closed = False
        self._problem = ""

    @property
    def partition(self) -> Partition:
        """The partition. Raises LogError, or DeliveryError if this was closed."""
        if self._is_closed:
            raise DeliveryError(f"{self!r} is closed: its topic has ended", topic=self._topic)
        if self._opened is None:
            self._opened = Partition(self._make())
        return self._opened

    @property
    def _durable(self) -> DurableDelivery:
        delivery = self.partition.delivery
        assert isinstance(delivery, DurableDelivery), "only topics with a log are asked this"
        return delivery

    @property
    def live(self) -> LiveDelivery:
        """The delivery of a partition without a log."""
        delivery = self.partition.delivery
        assert isinstance(delivery, LiveDelivery), "readers of a log subscribe again"
        return delivery

    # ------------------------------------------------------------------ calls of the worker and of children

    async def listen(self, awaits: bool = True) -> SocketOffer | None:
        """Return where the worker can connect to, if it is on this node; None if there are no sockets here.

        Args:
            awaits: whether the worker may wait until the first subscribers have come. If it does not, because other
                partitions have begun, or they had come before a restart, the partition does not wait either.
        """
        if not awaits:
            self.partition.await_nobody()
        return self.partition.offer()

    async def attach(
        self, child: str, options: DeliveryOptions = EVERYTHING, again: bool = False
    ) -> SocketOffer | None:
        """Take on a subscriber or relay: from now on it misses nothing that it wants, if it connects or calls in time.

        Args:
            child: its name, unique.
            options: which messages it wants.
            again: whether a publisher without a log had it that has died. Then this waits for its job to go back.

        Returns:
            Where it can connect to if it is on this node; None if there are no sockets here.

        Raises:
            ProtocolError: it is attached already.
            DeliveryError: it would miss something, as it comes too late, or the job does not go back.
        """
        if not again:
            return self.partition.attach(child, options)
        delivery = self.live
        await self.partition.wait_until(lambda: delivery.may_return, RETURNS_WITHIN_S)
        return self.partition.attach(child, options, again=True)

    async def talk(
        self,
        child: str,
        said: list[ChildMessage],
        wait_s: float,
        received: int | None = None,
        again: bool = False,
    ) -> list[Told]:
        """Return the next messages for a child without a connection, as soon as there are any.

        Raises:
            ProtocolError: the child is not known, or no more: it has to join first.
        """
        return await self.partition.talk(child, said, wait_s, received, again=again)

    async def detach(self, child: str) -> None:
        """Forget a child; a call of it that waits returns at once."""
        self.partition.leave(child)

    # ------------------------------------------------------------------ calls of the publication

    async def wait_for_subscribers(self, count: int, timeout_s: float) -> int:
        """Wait until ``count`` subscriptions are read; return how many are in the end."""
        return await self.partition.read_by(count, timeout_s)

    async def awaited(self, timeout_s: float) -> bool:
        """Wait until the first subscribers have come that the partition awaits; tell whether they have."""
        return await self.partition.awaited(timeout_s)

    async def ended(self, timeout_s: float) -> bool:
        """Wait until the partition has ended or failed, durably if it has a log; tell whether it has."""
        return await self.partition.ended(timeout_s)

    async def known_end(self, generation: int, timeout_s: float, but_for: str | None) -> PartitionEnd | None:
        """Wait until the partition has everything of a generation; return its end, None if it has not yet.

        Subscribers without a log have a moment to receive it, too; those of the process ``but_for`` are not waited for.
        """
        return await self.partition.known_end(generation, timeout_s, but_for)

    async def end(self, ends: Mapping[int, PartitionEnd], timeout_s: float, but_for: str | None = None) -> bool:
        """End the partition, as all of the topic have everything; then do as `drained`. Idempotent. Raises LogError.

        Args:
            ends: what the publishers have known, by partition. One that has died since has another in its place. A log
                knows it by itself.
            timeout_s: how long to wait for those who read.
            but_for: as for `drained`.
        """
        self.partition.end(ends.get(self._number))
        return await self.drained(timeout_s, but_for)

    async def drained(self, timeout_s: float, but_for: str | None = None) -> bool:
        """Wait until the partition is finished and all who read have all of it; tell whether they have.

        Readers of the process ``but_for`` do not count: that process waits here, and they cannot read meanwhile.
        """
        return await self.partition.drained(timeout_s, but_for)

    async def read_by_all(self, owner: str) -> None:
        """Wait until all who read have everything, or received nothing for as long as a lease.

        Readers of the process ``owner`` have all the time that they want.
        """
        await self.partition.read_by_all(owner)

    async def retire(self, owner: str, others: Sequence[Any] = ()) -> None:
        """End this actor after `read_by_all`, here and at others, whose readers may wait for the silence of this one.

        Args:
            owner: as for `read_by_all`.
            others: the handles of publishers of the same topic; one that has ended is not waited for.
        """
        import ray

        calls = [other.read_by_all.options(max_task_retries=-1).remote(owner) for other in others]
        await self.read_by_all(owner)
        await asyncio.gather(*calls, return_exceptions=True)
        try:
            await self.close()
        except LogError as error:
            _LOG.error("%r: the log could not be closed: %s", self, error)
        ray.actor.exit_actor()

    async def fail(self, reason: str, on_purpose: bool = False) -> None:
        """End the partition before its time, with ``reason`` for its subscribers; acknowledgements are received."""
        self.partition.fail(reason, on_purpose=on_purpose)

    async def close(self) -> None:
        """Make durable what was sent and acknowledged, and let go of everything for good. Raises LogError."""
        self._is_closed = True
        partition, self._opened = self._opened, None
        if partition is not None:
            self._problem = partition.problem
            await partition.close()

    async def ping(self) -> None:
        """Answer, which shows that the actor lives."""

    async def statistics(self) -> dict[str, int]:
        """Return counts of what happened so far, and of what there is, by name."""
        return self.partition.statistics()

    async def go_back(self, awaits: bool, readers: Sequence[str] = ()) -> list[str]:
        """Receive nothing more of the worker, as its job goes back to a snapshot; return the subscribers. Idempotent.

        Args:
            awaits: whether the first subscribers are awaited; otherwise they have come, perhaps to a dead publisher.
            readers: subscribers of a publisher without a log that has died. If this is in its place, it does not end
                before they have come, or have not for as long as a lease.
        """
        partition = self.partition
        if not awaits:
            partition.await_nobody()
        partition.go_back()
        return partition.expect(readers)

    # ------------------------------------------------------------------ calls of a publication with a log

    async def logged_partitions(self, place: str, identity: LogIdentity) -> int:
        """Return how many partitions the log in a place of this node says, 0 if there is none; do not open it.

        Raises LogError.
        """
        return await asyncio.to_thread(logged_partitions, place, identity)

    async def open(self) -> LogPlace:
        """Open the log, in the actor's first life, and return how far it is; later the first call opens it.

        Raises LogError, or DeliveryError if this was closed.
        """
        self._durable.audience.expect_nobody()
        return await self.place(0.0)

    async def place(self, timeout_s: float) -> LogPlace:
        """Return how far the log is, once all that was sent is durable; raise LogError if that takes too long."""
        return await self._durable.place(timeout_s)

    async def reached(self, time: Time, timeout_s: float) -> bool:
        """Wait until everything before a time is durable; tell whether that is so."""
        return await self._durable.reached(time, timeout_s)

    async def came_again(self, generation: int, timeout_s: float) -> Sums | None:
        """Do what `DurableDelivery.came_again` does."""
        return await self._durable.came_again(generation, timeout_s)

    async def logged(self, times: Collection[Time]) -> Sums:
        """Return what the log has of some epochs; None for those that cannot be compared. Raises LogError."""
        return await self._durable.logged(times)

    async def compared(self, differing: Sequence[Time]) -> dict[int, Difference]:
        """Do what `DurableDelivery.compared` does; raises LogError or DeliveryError."""
        return await self._durable.compared(differing)

    async def problem(self, known: str = "", timeout_s: float = 0.0) -> str:
        """Return why nothing is published now, for good or while the disk is full, once that is not what is known."""
        if self._is_closed:
            return self._problem
        delivery = self._durable
        await self.partition.wait_until(lambda: delivery.why_not != known, timeout_s)
        return delivery.why_not

    # ------------------------------------------------------------------ calls of readers

    async def subscribe(
        self,
        name: str,
        reader: str,
        start: int | None = None,
        *,
        durable: bool = False,
        again: bool = False,
        acknowledged: Ranges = (),
    ) -> Begun:
        """Take on a subscription, or go on with the one of that name, and give it to a reader.

        Args:
            name: of the subscription.
            reader: the id of who reads it, unique; who had it before gets nothing more.
            start: the first tick that a new one wants; by default what is told next, and 0 for all that is kept. With
                ``again``, the first tick that this reader has not acknowledged.
            durable: whether it is remembered over restarts; if so this returns when that is sure.
            again: whether this reader had it already, before the pubend was started again.
            acknowledged: for ``again``: what was, as this reader has learnt from other pubends.

        Raises:
            DeliveryError: another reader has the subscription by now, or it was ended, or so was the topic.
            PublisherLost: the job has failed, or could not start.
            LogError: the log is damaged, or takes nothing.
        """
        delivery = self._durable
        if delivery.connections.refusal:
            reason = f"publishes nothing more: {delivery.connections.refusal}"
            raise PublisherLost.at(self._topic, self._number, reason)
        return await delivery.audience.subscribe(
            name, reader, start, durable=durable, again=again, acknowledged=acknowledged
        )

    async def unsubscribe(self, reader: str, acknowledged: Ranges = (), everywhere: tuple[Ranges, ...] = ()) -> None:
        """Let a reader go: its subscription ends if it is not durable, and otherwise waits for another reader.

        Args:
            reader: its id; of one that is not known, or no more, nothing is taken.
            acknowledged: all that it has acknowledged: what it says by its connection may come later. Of a durable
                subscription this returns when that is durable.
            everywhere: the same for each pubend of the topic.

        Raises LogError: the log takes nothing.
        """
        await self._durable.audience.unsubscribe(reader, acknowledged, everywhere)

    async def end_subscription(self, name: str) -> list[str]:
        """End a durable subscription for good, and whoever reads it; return all that there were. Raises LogError."""
        return await self._durable.audience.end_durable(name)

    def __repr__(self) -> str:
        return f"Publisher({self._topic!r}[{self._number}])"
