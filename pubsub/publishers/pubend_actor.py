"""The actor around one `DurablePubend`: its worker and its children have sockets on this node.

It is an asyncio actor: all happens on its loop but what waits for the disk. Whoever starts it makes it one, as this
module does not import Ray. Started again, on the same node, it goes on from its log; who was connected connects anew.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from tidewheel.progress import Time, TimeDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.begun import Begun
from tidewheel.pubsub.exactly_once.frames import ChildMessage, Told
from tidewheel.pubsub.exactly_once.living_readers import LEASE_S
from tidewheel.pubsub.exactly_once.messages import Ranges
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.log.record_format import LogIdentity
from tidewheel.pubsub.log.segmented_log import SEGMENT_BYTES
from tidewheel.pubsub.publishers.durable_partition import DurablePartition
from tidewheel.pubsub.publishers.durable_pubend import DurablePubend
from tidewheel.pubsub.publishers.pubend_statistics import PubendStatistics, statistics_of
from tidewheel.pubsub.publishers.topic_log import RETENTION_S
from tidewheel.transport.change_signal import ChangeSignal
from tidewheel.transport.process_memory import keep_freed_memory
from tidewheel.transport.socket_offer import SocketOffer
from tidewheel.transport.ticket_listener import TicketListener

_LOG = logging.getLogger(__name__)


class PubendActor:
    """Publishes one partition of a topic with exactly-once delivery.

    Args:
        directory: of its log alone, on this node.
        identity: whose log it is.
        domain: the times of the topic.
        node: the node of the cluster that it is on.
        retention_s: for how long a durable subscription that nobody reads keeps messages, and for how long messages are
            kept where there are no subscriptions, in seconds.
        lease_s: for how long a reader that is connected to a relay lives when it was heard of, a subscription that is
            not durable waits for its reader, and nothing is forgotten after the start, in seconds.
        clock: seconds since 1970.
        segment_bytes: how long the files of the log become.
    """

    def __init__(
        self,
        directory: str,
        identity: LogIdentity,
        domain: TimeDomain,
        node: str,
        *,
        retention_s: float = RETENTION_S,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.time,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        keep_freed_memory()
        self._directory = Path(directory)
        self._identity = identity
        self._domain = domain
        self._node = node
        self._retention_s = retention_s
        self._lease_s = lease_s
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._changed = ChangeSignal()
        self._opened: DurablePartition | None = None
        self._is_closed = False
        self._problem = ""

    # ------------------------------------------------------------------ calls of the publication

    async def open(self) -> bool:
        """Open the log, in the actor's first life, and return whether it has anything; later the first call opens it.

        Raises LogError, or DeliveryError if this was closed.
        """
        partition = self._open()
        partition.audience.expect_nobody()
        return partition.core.told.has_begun

    def _open(self) -> DurablePartition:
        """Return the partition; in the actor's later lives the first call opens its log."""
        if self._is_closed:
            raise DeliveryError(f"{self!r} is closed: its topic has ended", topic=self._identity.topic)
        if self._opened is None:
            self._opened = DurablePartition(
                self._directory,
                self._identity,
                self._domain,
                self._changed,
                retention_s=self._retention_s,
                lease_s=self._lease_s,
                clock=self._clock,
                segment_bytes=self._segment_bytes,
            )
            self._listener: TicketListener[str | None] = TicketListener(self._node, self._opened.connect)
        return self._opened

    @property
    def _core(self) -> DurablePubend:
        assert self._opened is not None
        return self._opened.core

    async def listen(self) -> SocketOffer:
        """Return where the worker can connect to."""
        self._open()
        return self._listener.offer(None)

    async def ended(self, timeout_s: float) -> bool:
        """Wait until the last message is durable, or nothing more will be; tell whether that is so."""
        partition = self._open()
        return await self._changed.wait_until(
            lambda: partition.core.told.has_ended or bool(partition.problem), timeout_s
        )

    async def reached(self, time: Time, timeout_s: float) -> bool:
        """Wait until everything before a time is durable; tell whether that is so."""
        core = self._open().core
        return await self._changed.wait_until(lambda: not core.told.lower.less_than(time), timeout_s)

    async def problem(self, known: str = "", timeout_s: float = 0.0) -> str:
        """Return why nothing is published now, for good or while the disk is full, once that is not what is known."""
        if self._is_closed:
            return self._problem
        partition = self._open()
        await self._changed.wait_until(lambda: partition.why_not != known, timeout_s)
        return partition.why_not

    async def ping(self) -> None:
        """Answer, which shows that the actor lives."""

    async def statistics(self) -> PubendStatistics:
        """Return counts of what happened so far, and of what there is."""
        partition = self._open()
        return statistics_of(partition.core, partition.audience, partition.children)

    async def wait_for_subscribers(self, count: int, timeout_s: float) -> int:
        """Wait until somebody reads so many subscriptions; return how many there are in the end."""
        return await self._open().audience.wait_for(count, timeout_s)

    async def drained(self, timeout_s: float, but_for: str | None = None) -> bool:
        """Wait until everybody who reads has acknowledged all that was published; tell whether that is so.

        Readers of the process ``but_for`` do not count: who waits is that process, and they cannot read meanwhile.
        """
        return await self._open().audience.drained(timeout_s, but_for)

    async def fail(self, reason: str) -> None:
        """End the partition before its time, with ``reason`` for who reads, or comes to; acknowledgements are taken."""
        self._open().fail(reason)

    async def retire(self, owner: str) -> None:
        """End this actor once everybody who reads has acknowledged all, or nothing for as long as a lease.

        Readers of the process ``owner`` have all the time that they want.
        """
        import ray

        await self._open().audience.read_by_all(owner, self._lease_s)
        try:
            await self.close()
        except LogError as error:
            _LOG.error("%r: the log could not be closed: %s", self, error)
        ray.actor.exit_actor()

    async def close(self) -> None:
        """Make durable what was sent and acknowledged, and let go of everybody for good. Raises LogError."""
        was_closed, self._is_closed = self._is_closed, True
        partition, self._opened = self._opened, None
        if was_closed or partition is None:
            return
        self._problem = partition.problem
        try:
            await partition.close()
        finally:
            self._listener.close()

    async def _stop(self) -> None:
        """Let go of everything without a word, as the end of a process does."""
        partition, self._opened = self._opened, None
        if partition is not None:
            self._listener.close()
            await partition.stop()

    # ------------------------------------------------------------------ calls of readers and relays

    async def attach(self, child: str) -> SocketOffer:
        """Return where a relay or subend on this node can connect to."""
        self._open()
        return self._listener.offer(child)

    async def talk(self, child: str, said: list[ChildMessage], wait_s: float) -> list[Told]:
        """Take what a child says that has no socket; return what there is to tell it, at most after ``wait_s``.

        Raises:
            ProtocolError: it is not known, or no more: it has to join first.
        """
        return await self._open().children.talk(child, said, wait_s)

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
            LogError: the log is damaged, or takes nothing.
        """
        partition = self._open()
        if partition.refusal:
            raise DeliveryError(f"{self!r}: {partition.refusal}", topic=self._identity.topic)
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
        await self._open().audience.unsubscribe(reader, acknowledged, everywhere)

    async def end_subscription(self, name: str) -> list[str]:
        """End a durable subscription for good, and whoever reads it; return all that there were. Raises LogError."""
        return await self._open().audience.end_durable(name)

    def __repr__(self) -> str:
        return f"Pubend({self._identity.topic!r}[{self._identity.partition}])"
