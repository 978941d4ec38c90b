"""One partition of a topic with a log, on an asyncio loop: from its worker to relays and subscribers.

All happens on the loop but what waits for the disk.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.exactly_once.codec import CODEC
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.frames import ChildMessage, Join
from tidewheel.pubsub.exactly_once.living_readers import LivingReaders
from tidewheel.pubsub.exactly_once.messages import Ack, Nack, Rejected
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.log.record_format import LogIdentity
from tidewheel.pubsub.publishers.audience import Audience
from tidewheel.pubsub.publishers.durable_pubend import DurablePubend
from tidewheel.pubsub.publishers.room_watch import RoomWatch
from tidewheel.pubsub.publishers.worker_link import WorkerLink
from tidewheel.transport.change_signal import ChangeSignal
from tidewheel.transport.children import Children

_LOG = logging.getLogger(__name__)

LOOK_S = 0.1
PREDECESSOR_ENDS_WITHIN_S = 30.0
_HOUSE_S = 1.0
_TOLD_WITHIN_S = 1.0
_TOLD_LOOKS = 100


class DurablePartition:
    """A pubend with its log, its worker and its children. To be used on the loop only.

    Args:
        directory: of its log alone, on this node.
        identity: whose log it is.
        domain: the times of the topic.
        changed: is notified of everything that others may wait for.
        retention_s: for how long a durable subscription that nobody reads keeps messages, in seconds.
        lease_s: for how long a reader lives of which something was heard, in seconds.
        clock: seconds since 1970.
        segment_bytes: how long the files of the log become.

    Raises:
        LogError: the log cannot be opened.

    Attributes:
        core: the pubend.
        audience: its readers.
        children: the relays and subscribers that are connected.
        problem: why nothing is published any more; empty as long as something is.
        refusal: why the partition ended before its time, if it did.
    """

    def __init__(
        self,
        directory: Path,
        identity: LogIdentity,
        domain: TimeDomain,
        changed: ChangeSignal,
        *,
        retention_s: float,
        lease_s: float,
        clock: Callable[[], float],
        segment_bytes: int,
    ) -> None:
        self._identity = identity
        self._changed = changed
        self._retention_s = retention_s
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._workers: list[WorkerLink] = []
        self._room = RoomWatch(self)
        self._is_over = False
        self._housekeeping: asyncio.Task[None] | None = None
        self._kept_house_s = 0.0
        self.problem = self.refusal = ""
        self.children = Children(CODEC, self._loop, self._hear, self._gone)
        self.core = DurablePubend(
            directory,
            identity,
            domain,
            tell=self.children.tell,
            later=self._later,
            clock=clock,
            wait_s=PREDECESSOR_ENDS_WITHIN_S,
            segment_bytes=segment_bytes,
        )
        where = f"topic {identity.topic!r}, partition {identity.partition}"
        self.audience = Audience(where, self.core, changed, LivingReaders(lease_s, retention_s), grace_s=lease_s)
        self._timer = self._loop.call_soon(self._look)

    @property
    def why_not(self) -> str:
        """Why nothing is published now, for good or while the disk is full; empty if something is."""
        full = None if self._is_over else self.core.writer.full
        return self.problem or ("" if full is None else str(full))

    # ------------------------------------------------------------------ going on

    def _later(self, call: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(self._go_on, call)

    def _go_on(self, call: Callable[[], None]) -> None:
        """Do what the log has to say, and what follows of that."""
        if self._is_over:
            return
        call()
        if self.core.error is not None:
            self._fail(str(self.core.error))
        self._room.look(self.core.writer.full)
        for worker in self._workers:
            worker.settle()
        self._changed.notify()

    def _look(self) -> None:
        """Do what is due, again and again."""
        now_s = self._loop.time()
        self.audience.look(frozenset(self.children.names), now_s)
        if self.core.error is None:
            self.core.look(forgets=self.audience.may_forget)
        is_idle = self._housekeeping is None or self._housekeeping.done()
        if is_idle and now_s - self._kept_house_s >= (LOOK_S if self.core.is_trim_due else _HOUSE_S):
            self._kept_house_s = now_s
            self._housekeeping = self._loop.create_task(self._keep_house())
        self._timer = self._loop.call_later(LOOK_S, self._look)

    async def _keep_house(self) -> None:
        """Remove files that nobody needs, and see whether the disk has room again if it was full."""
        core = self.core
        if self.audience.may_forget:
            core.expire(self._clock() - self._retention_s)
        try:
            await asyncio.to_thread(core.trim)
        except LogError as error:
            _LOG.warning("%r: %s", self, error)
            self._kept_house_s += _HOUSE_S
        core.resume()

    def _fail(self, reason: str) -> None:
        if not self.problem:
            self.problem = reason
            _LOG.error("%r publishes nothing more: %s", self, reason)
            self._changed.notify()

    # ------------------------------------------------------------------ the worker and the children

    def connect(self, connection: socket.socket, child: str | None) -> None:
        """Take on a connection, of the worker if ``child`` is None, or of a child."""
        if child is not None:
            self.children.connect(child, connection)
            return
        for worker in self._workers:
            worker.close()  # it has connected anew
        worker = WorkerLink(connection, self._loop, self.core, self._fail)
        self._workers = [worker]
        if self.refusal:
            worker.refuse(self.refusal)

    def _hear(self, child: str, said: list[ChildMessage]) -> None:
        for message in said:
            if self.refusal and not isinstance(message, Ack):
                self._reject(child, self.refusal)
            elif isinstance(message, Join):
                self.core.join(child, message.where)
            elif message.pubend != self._identity.partition:
                self._reject(child, f"it asked pubend {self._identity.partition} about pubend {message.pubend}")
                return
            elif isinstance(message, Nack):
                self.core.nack(child, message)
            else:
                self.audience.heard(message)
                self.core.ack(child, message)
        self._changed.notify()

    def _reject(self, child: str, reason: str) -> None:
        _LOG.warning("%r: %s: %s", self, child, reason)
        self.children.tell([Outgoing(child, Rejected(self._identity.partition, reason))])
        self.core.leave(child)

    def _gone(self, child: str, why: str) -> None:
        _LOG.debug("%r: %s: %s", self, child, why)
        self.core.leave(child)

    # ------------------------------------------------------------------ the end

    def fail(self, reason: str) -> None:
        """End the partition before its time, with ``reason`` for who reads, or comes to; acknowledgements are taken."""
        if self.refusal:
            return
        self.refusal, self.problem = reason, self.problem or reason
        for worker in self._workers:
            worker.refuse(reason)
        for child in self.children.names:
            self._reject(child, reason)
        self.audience.fail()

    async def close(self) -> None:
        """Let go of everybody, with a word to those who need one, and close the log. Raises LogError."""
        for worker in self._workers:
            worker.refuse(self.problem or f"{self!r} is closed: its topic has ended")
        await self._dismiss()
        await self.stop()

    async def _dismiss(self) -> None:
        """Tell those why who have not had everything and do not know; others know that it has ended."""
        core = self.core
        late: set[str | None] = set() if self.refusal else set(self.children.names)
        if core.told.has_ended and not self.problem:
            late = {core.subscriptions.reader_of(name) for name in core.unread()}
        for child in [child for child in self.children.names if child in late]:
            self._reject(child, self.problem or "the publisher has ended before everything was read")
        for _ in range(_TOLD_LOOKS):
            await asyncio.sleep(_TOLD_WITHIN_S / _TOLD_LOOKS)
            if not self.children.waiting_bytes:
                break

    async def stop(self) -> None:
        """Let go of everything without a word, and close the log. Raises LogError."""
        self._timer.cancel()
        if self._housekeeping is not None:
            await self._housekeeping
        for worker in self._workers:
            worker.close()
        self.children.close()
        self.audience.end()
        self._is_over = True
        await asyncio.to_thread(self.core.close)

    def __repr__(self) -> str:
        return f"Pubend({self._identity.topic!r}[{self._identity.partition}])"
