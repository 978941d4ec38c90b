"""The actor around one `DurablePubend`: its worker and its children have sockets on this node.

It is an asyncio actor: all happens on its loop but what waits for the disk. Whoever starts it makes it one, as this
module does not import Ray. Started again, on the same node, it goes on from its log; who was connected connects anew.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from pathlib import Path

from tidewheel.progress import Time, TimeDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.begun import Begun
from tidewheel.pubsub.exactly_once.codec import CODEC
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.frames import ChildMessage, Join, Told
from tidewheel.pubsub.exactly_once.living_readers import LEASE_S, LivingReaders
from tidewheel.pubsub.exactly_once.messages import Ack, Nack, Ranges, Rejected
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.log.record_format import LogIdentity
from tidewheel.pubsub.log.segmented_log import SEGMENT_BYTES
from tidewheel.pubsub.publishers.audience import Audience
from tidewheel.pubsub.publishers.durable_pubend import DurablePubend
from tidewheel.pubsub.publishers.pubend_statistics import PubendStatistics, statistics_of
from tidewheel.pubsub.publishers.room_watch import RoomWatch
from tidewheel.pubsub.publishers.topic_log import RETENTION_S
from tidewheel.pubsub.publishers.worker_link import WorkerLink
from tidewheel.transport.change_signal import ChangeSignal
from tidewheel.transport.children import Children
from tidewheel.transport.process_memory import keep_freed_memory
from tidewheel.transport.socket_offer import SocketOffer
from tidewheel.transport.ticket_listener import TicketListener

_LOG = logging.getLogger(__name__)

LOOK_S = 0.1
PREDECESSOR_ENDS_WITHIN_S = 30.0
_HOUSE_S = 1.0
_TOLD_WITHIN_S = 1.0
_TOLD_LOOKS = 100


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
        self._pubend: DurablePubend | None = None
        self._workers: list[WorkerLink] = []
        self._problem = self._refusal = ""
        self._is_closed = False
        self._room = RoomWatch(self)
        self._timer: asyncio.TimerHandle | None = None
        self._housekeeping: asyncio.Task[None] | None = None
        self._kept_house_s = 0.0

    # ------------------------------------------------------------------ calls of the publication

    async def open(self) -> bool:
        """Open the log, in the actor's first life, and return whether it has anything; later the first call opens it.

        Raises LogError, or DeliveryError if this was closed.
        """
        self._open()
        self._audience.expect_nobody()
        return self._core.told.has_begun

    def _open(self) -> None:
        if self._is_closed:
            raise DeliveryError(f"{self!r} is closed: its topic has ended", topic=self._identity.topic)
        if self._pubend is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._children = Children(CODEC, self._loop, self._hear, self._gone)
        pubend = DurablePubend(
            self._directory,
            self._identity,
            self._domain,
            tell=self._children.tell,
            later=self._later,
            clock=self._clock,
            wait_s=PREDECESSOR_ENDS_WITHIN_S,
            segment_bytes=self._segment_bytes,
        )
        living = LivingReaders(self._lease_s, self._retention_s)
        where = f"topic {self._identity.topic!r}, partition {self._identity.partition}"
        self._audience = Audience(where, pubend, self._changed, living, grace_s=self._lease_s)
        self._pubend = pubend
        self._listener: TicketListener[str | None] = TicketListener(self._node, self._admitted)
        self._look()

    async def listen(self) -> SocketOffer:
        """Return where the worker can connect to."""
        self._open()
        return self._listener.offer(None)

    async def ended(self, timeout_s: float) -> bool:
        """Wait until the last message is durable, or nothing more will be; tell whether that is so."""
        self._open()
        return await self._changed.wait_until(lambda: self._core.told.has_ended or bool(self._problem), timeout_s)

    async def reached(self, time: Time, timeout_s: float) -> bool:
        """Wait until everything before a time is durable; tell whether that is so."""
        self._open()
        return await self._changed.wait_until(lambda: not self._core.told.lower.less_than(time), timeout_s)

    async def problem(self, known: str = "", timeout_s: float = 0.0) -> str:
        """Return why nothing is published now, for good or while the disk is full, once that is not what is known."""
        if not self._is_closed:
            self._open()
            await self._changed.wait_until(lambda: self._why_not() != known, timeout_s)
        return self._why_not()

    def _why_not(self) -> str:
        full = None if self._pubend is None else self._pubend.full
        return self._problem or ("" if full is None else str(full))

    async def ping(self) -> None:
        """Answer, which shows that the actor lives."""

    async def statistics(self) -> PubendStatistics:
        """Return counts of what happened so far, and of what there is."""
        self._open()
        return statistics_of(self._core, self._audience, self._children)

    async def wait_for_subscribers(self, count: int, timeout_s: float) -> int:
        """Wait until somebody reads so many subscriptions; return how many there are in the end."""
        self._open()
        return await self._audience.wait_for(count, timeout_s)

    async def drained(self, timeout_s: float, but_for: str | None = None) -> bool:
        """Wait until everybody who reads has acknowledged all that was published; tell whether that is so.

        Readers of the process ``but_for`` do not count: who waits is that process, and they cannot read meanwhile.
        """
        self._open()
        return await self._audience.drained(timeout_s, but_for)

    async def fail(self, reason: str) -> None:
        """End the partition before its time, with ``reason`` for who reads, or comes to; acknowledgements are taken."""
        self._open()
        if self._refusal:
            return
        self._refusal, self._problem = reason, self._problem or reason
        for worker in self._workers:
            worker.refuse(reason)
        for child in self._children.names:
            self._reject(child, reason)
        self._audience.fail()

    async def retire(self, owner: str) -> None:
        """End this actor once everybody who reads has acknowledged all, or nothing for as long as a lease.

        Readers of the process ``owner`` have all the time that they want.
        """
        import ray

        self._open()
        await self._audience.read_by_all(owner, self._lease_s)
        try:
            await self.close()
        except LogError as error:
            _LOG.error("%r: the log could not be closed: %s", self, error)
        ray.actor.exit_actor()

    async def close(self) -> None:
        """Make durable what was sent and acknowledged, and let go of everybody for good. Raises LogError."""
        was_closed, self._is_closed = self._is_closed, True
        if was_closed or self._pubend is None:
            return
        for worker in self._workers:
            worker.refuse(self._problem or f"{self!r} is closed: its topic has ended")
        await self._dismiss()
        await self._stop()

    async def _dismiss(self) -> None:
        """Tell those why who have not had everything and do not know; others know that it has ended."""
        core = self._core
        late: set[str | None] = set() if self._refusal else set(self._children.names)
        if core.told.has_ended and not self._problem:
            late = {core.subscriptions.reader_of(name) for name in core.unread()}
        for child in [child for child in self._children.names if child in late]:
            self._reject(child, self._problem or "the publisher has ended before everything was read")
        for _ in range(_TOLD_LOOKS):
            await asyncio.sleep(_TOLD_WITHIN_S / _TOLD_LOOKS)
            if not self._children.waiting_bytes:
                break

    async def _stop(self) -> None:
        """Let go of everything, and close the log."""
        if self._pubend is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._housekeeping is not None:
            await self._housekeeping
        for worker in self._workers:
            worker.close()
        self._children.close()
        self._listener.close()
        self._audience.end()
        pubend, self._pubend = self._core, None
        await asyncio.to_thread(pubend.close)

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
        self._open()
        return await self._children.talk(child, said, wait_s)

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
        self._open()
        if self._refusal:
            raise DeliveryError(f"{self!r}: {self._refusal}", topic=self._identity.topic)
        return await self._audience.subscribe(
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
        self._open()
        await self._audience.unsubscribe(reader, acknowledged, everywhere)

    async def end_subscription(self, name: str) -> list[str]:
        """End a durable subscription for good, and whoever reads it; return all that there were. Raises LogError."""
        self._open()
        return await self._audience.end_durable(name)

    # ------------------------------------------------------------------ on the loop

    @property
    def _core(self) -> DurablePubend:
        assert self._pubend is not None
        return self._pubend

    def _later(self, call: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(self._go_on, call)

    def _go_on(self, call: Callable[[], None]) -> None:
        """Do what the log has to say, and what follows of that."""
        if self._pubend is None:
            return
        call()
        if self._core.error is not None:
            self._fail(str(self._core.error))
        self._room.look(self._core.full)
        for worker in self._workers:
            worker.settle()
        self._changed.notify()

    def _look(self) -> None:
        """Do what is due, again and again."""
        now_s = self._loop.time()
        self._audience.look(frozenset(self._children.names), now_s)
        if self._core.error is None:
            self._core.look(forgets=self._audience.may_forget)
        is_idle = self._housekeeping is None or self._housekeeping.done()
        if is_idle and now_s - self._kept_house_s >= (LOOK_S if self._core.is_trim_due else _HOUSE_S):
            self._kept_house_s = now_s
            self._housekeeping = self._loop.create_task(self._keep_house())
        self._timer = self._loop.call_later(LOOK_S, self._look)

    async def _keep_house(self) -> None:
        """Remove files that nobody needs, and see whether the disk has room again if it was full."""
        core = self._core
        if self._audience.may_forget:
            core.expire(self._clock() - self._retention_s)
        try:
            await asyncio.to_thread(core.trim)
        except LogError as error:
            _LOG.warning("%r: %s", self, error)
            self._kept_house_s += _HOUSE_S
        core.resume()

    def _fail(self, reason: str) -> None:
        if not self._problem:
            self._problem = reason
            _LOG.error("%r publishes nothing more: %s", self, reason)
            self._changed.notify()

    # ------------------------------------------------------------------ who is connected

    def _admitted(self, connection: socket.socket, child: str | None) -> None:
        """Take on a connection, of the worker or of a child."""
        if child is not None:
            self._children.connect(child, connection)
            return
        for worker in self._workers:
            worker.close()  # it has connected anew
        worker = WorkerLink(connection, self._loop, self._core, self._fail)
        self._workers = [worker]
        if self._refusal:
            worker.refuse(self._refusal)

    def _hear(self, child: str, said: list[ChildMessage]) -> None:
        for message in said:
            if self._refusal and not isinstance(message, Ack):
                self._reject(child, self._refusal)
            elif isinstance(message, Join):
                self._core.join(child, message.where)
            elif message.pubend != self._identity.partition:
                self._reject(child, f"it asked pubend {self._identity.partition} about pubend {message.pubend}")
                return
            elif isinstance(message, Nack):
                self._core.nack(child, message)
            else:
                self._audience.heard(message)
                self._core.ack(child, message)
        self._changed.notify()

    def _reject(self, child: str, reason: str) -> None:
        _LOG.warning("%r: %s: %s", self, child, reason)
        self._children.tell([Outgoing(child, Rejected(self._identity.partition, reason))])
        self._core.leave(child)

    def _gone(self, child: str, why: str) -> None:
        _LOG.debug("%r: %s: %s", self, child, why)
        self._core.leave(child)

    def __repr__(self) -> str:
        return f"Pubend({self._identity.topic!r}[{self._identity.partition}])"
