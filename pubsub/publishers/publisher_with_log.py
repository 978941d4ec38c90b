"""The actor that publishes one partition of a topic with a log: how far that is, and who reads it.

It does not import Ray either; see `publisher_actor`.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from tidewheel.progress import Time
from tidewheel.pubsub.errors import PublisherLost
from tidewheel.pubsub.exactly_once.journal import LogPlace
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.log.opening import logged_partitions
from tidewheel.pubsub.messages.delivery_messages import Begun, Ranges
from tidewheel.pubsub.protocol.topic_end import PartitionEnd
from tidewheel.pubsub.publishers.durable_partition import DurablePartition
from tidewheel.pubsub.publishers.epochs_again import Difference, Sums
from tidewheel.pubsub.publishers.partition_log import ReplayedLog
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor


class PublisherActorWithLog(PublisherActor):
    """Publishes one partition of a topic with a log; made as any other."""

    @property
    def _durable(self) -> DurablePartition:
        partition = self.partition
        assert isinstance(partition, DurablePartition), "only topics with a log are asked this"
        return partition

    # ------------------------------------------------------------------ calls of the publication

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
        partition = self._durable
        writer, core = partition.core.writer, partition.core
        if not await self._wait_until(partition, lambda: writer.durable_tick >= core.written_tick, timeout_s):
            raise LogError(f"{self!r}: what was sent is not durable after {timeout_s:g} s: {core.error or writer.full}")
        told = core.told
        return LogPlace(told.has_begun, list(told.lower), told.generation, told.complete, told.has_all)

    async def known_end(self, generation: int, timeout_s: float, but_for: str | None) -> PartitionEnd | None:
        """Wait until the log has everything of a generation; return its end, None if it has not yet."""
        core = self._durable.core

        def has_all() -> bool:
            return core.told.generation >= generation and core.told.has_all

        is_known = await self._wait_until(self.partition, has_all, timeout_s)
        return PartitionEnd(core.written_tick, core.told.generation) if is_known else None

    async def end(self, ends: Mapping[int, PartitionEnd], timeout_s: float, but_for: str | None = None) -> bool:
        """End the partition, as all of the topic have everything; then do as `drained`. Idempotent. Raises LogError."""
        self._durable.core.conclude()
        return await self.drained(timeout_s, but_for)

    async def reached(self, time: Time, timeout_s: float) -> bool:
        """Wait until everything before a time is durable; tell whether that is so."""
        partition = self._durable
        return await self._wait_until(partition, lambda: not partition.core.told.lower.less_than(time), timeout_s)

    async def came_again(self, generation: int, timeout_s: float) -> Sums | None:
        """Wait until the complete epochs that come again in a generation have come, and return them.

        Returns:
            The sums of their digests; None if they have not come in time. Nothing if they cannot be compared.
        """
        core = self._durable.core

        def have_come() -> bool:
            again = core.again
            return core.told.generation >= generation if again is None else again.have_come_in(generation)

        is_known = await self._wait_until(self.partition, have_come, timeout_s)
        if not is_known:
            return None
        return {} if core.again is None else await asyncio.to_thread(core.again.came)

    async def logged(self, times: Collection[Time]) -> Sums:
        """Return what the log has of some epochs; None for those that cannot be compared. Raises LogError."""
        core = self._durable.core
        if core.again is None:
            return dict.fromkeys(times)
        return await asyncio.to_thread(core.again.logged, ReplayedLog(core.log), times)

    async def compared(self, differing: Sequence[Time]) -> dict[int, Difference]:
        """Forget the epochs that came again; return how the first of those differs from the log, by digests.

        Raises LogError or DeliveryError.
        """
        core = self._durable.core
        again, core.again = core.again, None
        if again is None or not differing:
            return {}
        return await asyncio.to_thread(again.differences, ReplayedLog(core.log), differing[0])

    async def problem(self, known: str = "", timeout_s: float = 0.0) -> str:
        """Return why nothing is published now, for good or while the disk is full, once that is not what is known."""
        if self._is_closed:
            return self._problem
        partition = self._durable
        await self._wait_until(partition, lambda: partition.why_not != known, timeout_s)
        return partition.why_not

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
        partition = self._durable
        if partition.refusal:
            raise PublisherLost.at(self._topic, self._number, f"publishes nothing more: {partition.refusal}")
        return await partition.audience.subscribe(
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
