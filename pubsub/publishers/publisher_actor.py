"""The actor that publishes one partition: over sockets to processes on its node, by Ray calls to other nodes.

Everything runs on the loop of an asyncio actor, except waits for the disk. The methods delegate to `Partition` and its
delivery; `publisher_calls` makes the class an actor. If an actor with a log dies, Ray restarts it on the same node. It
continues from the log, and its worker and children connect again. Ray restarts an actor without a log if its job keeps
snapshots. Then the job goes back, and subscribers connect again.
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
"""The seconds within which a job goes back after its publisher's death; subscribers wait longer for an answer."""

MakeDelivery: TypeAlias = Callable[[], Delivery]
"""Makes the delivery of an actor's partition, on the actor's loop."""


class PublisherActor:
    """Publishes one partition of a topic. Some calls are only for topics with a log.

    ``make`` makes the delivery of the partition, on the loop, when the actor is first called.
    """

    def __init__(self, topic: str, partition: int, make: MakeDelivery, logs: LogSettings | None = None) -> None:
        keep_freed_memory()
        if logs is not None:  # the process is the publisher's own
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
        """The partition; LogError if the log cannot be opened, DeliveryError if the actor is closed."""
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
        delivery = self.partition.delivery
        assert isinstance(delivery, LiveDelivery), "readers of a log subscribe again"
        return delivery

    # ------------------------------------------------------------------ calls of the worker and of children

    async def listen(self, awaits: bool = True) -> SocketOffer | None:
        """Return the address at which the worker, on this node, can connect; None without sockets.

        The partition waits for its first subscribers only if the worker ``awaits`` them.
        """
        if not awaits:
            self.partition.await_nobody()
        return self.partition.offer()

    async def attach(
        self, child: str, options: DeliveryOptions = EVERYTHING, again: bool = False
    ) -> SocketOffer | None:
        """Call `Partition.attach`; with ``again``, first wait until the job has gone back.

        Raises:
            ProtocolError: the subscriber is attached already.
            DeliveryError: the subscriber attaches too late and would miss messages, or the job does not go back.
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
        return await self.partition.talk(child, said, wait_s, received, again=again)

    async def detach(self, child: str) -> None:
        self.partition.leave(child)

    # ------------------------------------------------------------------ calls of the publication

    async def wait_for_subscribers(self, count: int, timeout_s: float) -> int:
        return await self.partition.read_by(count, timeout_s)

    async def awaited(self, timeout_s: float) -> bool:
        return await self.partition.awaited(timeout_s)

    async def ended(self, timeout_s: float) -> bool:
        return await self.partition.ended(timeout_s)

    async def known_end(self, generation: int, timeout_s: float, but_for: str | None) -> PartitionEnd | None:
        return await self.partition.known_end(generation, timeout_s, but_for)

    async def end(self, ends: Mapping[int, PartitionEnd], timeout_s: float, but_for: str | None = None) -> bool:
        """Call `Partition.end` with the end of this partition, then `drained`; raise LogError if the log has failed."""
        self.partition.end(ends.get(self._number))
        return await self.drained(timeout_s, but_for)

    async def drained(self, timeout_s: float, but_for: str | None = None) -> bool:
        """Call `Partition.drained`; the process ``but_for`` waits for this call, so it cannot read meanwhile."""
        return await self.partition.drained(timeout_s, but_for)

    async def read_by_all(self, owner: str) -> None:
        await self.partition.read_by_all(owner)

    async def retire(self, owner: str, others: Sequence[Any] = ()) -> None:
        """End this actor when all readers, here and at ``others``, have received everything.

        Readers of ``others`` may wait for this actor's silence.
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
        self.partition.fail(reason, on_purpose=on_purpose)

    async def close(self) -> None:
        self._is_closed = True
        partition, self._opened = self._opened, None
        if partition is not None:
            self._problem = partition.problem
            await partition.close()

    async def ping(self) -> None: ...

    async def statistics(self) -> dict[str, int]:
        return self.partition.statistics()

    async def go_back(self, awaits: bool, readers: Sequence[str] = ()) -> list[str]:
        """Call `Partition.go_back` and then `Partition.expect`. Idempotent.

        Args:
            awaits: whether the partition still waits for its first subscribers.
            readers: if this actor replaces a dead publisher that had no log, the subscribers of that publisher.
        """
        partition = self.partition
        if not awaits:
            partition.await_nobody()
        partition.go_back()
        return partition.expect(readers)

    # ------------------------------------------------------------------ calls of a publication with a log

    async def logged_partitions(self, place: str, identity: LogIdentity) -> int:
        """Return the number of partitions that a log on this node has recorded; 0 if there is no log.

        This does not open the log. Raise LogError if it cannot be read.
        """
        return await asyncio.to_thread(logged_partitions, place, identity)

    async def open(self) -> LogPlace:
        """Open the log when the actor first starts, and return its position; after a restart, the first call opens it.

        Raises:
            LogError: the log cannot be opened.
            DeliveryError: the actor is closed.
        """
        self._durable.audience.expect_nobody()
        return await self.place(0.0)

    async def place(self, timeout_s: float) -> LogPlace:
        return await self._durable.place(timeout_s)

    async def reached(self, time: Time, timeout_s: float) -> bool:
        return await self._durable.reached(time, timeout_s)

    async def came_again(self, generation: int, timeout_s: float) -> Sums | None:
        return await self._durable.came_again(generation, timeout_s)

    async def logged(self, times: Collection[Time]) -> Sums:
        return await self._durable.logged(times)

    async def compared(self, differing: Sequence[Time]) -> dict[int, Difference]:
        return await self._durable.compared(differing)

    async def problem(self, known: str = "", timeout_s: float = 0.0) -> str:
        """Wait until the problem differs from ``known``, at most ``timeout_s`` seconds; return the problem.

        A problem is the reason why nothing is published, permanently or while the disk is full.
        """
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
        """Call `Audience.subscribe`.

        Raises:
            DeliveryError: another reader has the subscription, or the subscription or the topic has ended.
            PublisherLost: the job has failed, or could not start.
            LogError: the log is damaged or cannot be written.
        """
        delivery = self._durable
        if delivery.connections.refusal:
            reason = f"publishes nothing more: {delivery.connections.refusal}"
            raise PublisherLost.at(self._topic, self._number, reason)
        return await delivery.audience.subscribe(
            name, reader, start, durable=durable, again=again, acknowledged=acknowledged
        )

    async def unsubscribe(self, reader: str, acknowledged: Ranges = (), everywhere: tuple[Ranges, ...] = ()) -> None:
        await self._durable.audience.unsubscribe(reader, acknowledged, everywhere)

    async def end_subscription(self, name: str) -> list[str]:
        return await self._durable.audience.end_durable(name)

    def __repr__(self) -> str:
        return f"Publisher({self._topic!r}[{self._number}])"
