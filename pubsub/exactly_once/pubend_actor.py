"""The actor around one `DurablePubend`: its worker and its children have sockets on this node.

It is an asyncio actor, and all of it happens on its loop, but for what waits for the disk. This module does not import
Ray: the class is plain, and whoever starts it makes it an actor. Started again, on the same node, it goes on from its
log; who was connected connects anew.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidewheel.progress import TimeDomain
from tidewheel.pubsub import socket_offer
from tidewheel.pubsub.change_signal import ChangeSignal
from tidewheel.pubsub.exactly_once.child_link import ChildLink, SharedFrames
from tidewheel.pubsub.exactly_once.durable_pubend import DurablePubend
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.frames import ChildMessage, Join
from tidewheel.pubsub.exactly_once.messages import Nack, Ranges, Rejected
from tidewheel.pubsub.exactly_once.worker_link import WorkerLink
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.log.record_format import LogIdentity
from tidewheel.pubsub.log.segmented_log import SEGMENT_BYTES
from tidewheel.pubsub.socket_offer import SocketOffer
from tidewheel.pubsub.ticket_listener import TicketListener
from tidewheel.pubsub.wire import InitialFrontierSnapshot

_LOG = logging.getLogger(__name__)

LOOK_S = 0.1
PREDECESSOR_ENDS_WITHIN_S = 30.0
NOTED_WITHIN_S = 30.0
_TRIM_S = 1.0


@dataclass(frozen=True, slots=True)
class Begun:
    """Where a subscription begins, or goes on.

    Attributes:
        acknowledged: the ticks that it needs no more.
        told_end: what is known now ends here.
        frontiers: both frontiers at the first tick that it has not acknowledged.
    """

    acknowledged: Ranges
    told_end: int
    frontiers: InitialFrontierSnapshot


class PubendActor:
    """Publishes one partition of a topic with exactly-once delivery.

    Args:
        directory: of its log alone, on this node.
        identity: whose log it is.
        domain: the times of the topic.
        node: the node of the cluster that it is on.
        clock: seconds since 1970.
        segment_bytes: how long the files of the log become.
    """

    def __init__(
        self,
        directory: str,
        identity: LogIdentity,
        domain: TimeDomain,
        node: str,
        clock: Callable[[], float] = time.time,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._directory = Path(directory)
        self._identity = identity
        self._domain = domain
        self._node = node
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._changed = ChangeSignal()
        self._pubend: DurablePubend | None = None
        self._links: dict[str, ChildLink] = {}
        self._workers: list[WorkerLink] = []
        self._problem = ""
        self._timer: asyncio.TimerHandle | None = None
        self._trimming: asyncio.Task[None] | None = None
        self._trimmed_s = 0.0

    # ------------------------------------------------------------------ calls

    async def open(self) -> None:
        """Open the log, unless that has happened; who comes first does, also after a restart.

        Raises:
            LogError: it cannot be opened.
        """
        if self._pubend is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._frames = SharedFrames(self._loop)
        self._pubend = DurablePubend(
            self._directory,
            self._identity,
            self._domain,
            tell=self._tell,
            later=self._later,
            clock=self._clock,
            wait_s=PREDECESSOR_ENDS_WITHIN_S,
            segment_bytes=self._segment_bytes,
        )
        self._listener: TicketListener[str | None] = TicketListener(self._node, self._admitted)
        self._look()

    async def listen(self) -> SocketOffer | None:
        """Return where the worker can connect to; None if there are no such sockets on this machine."""
        await self.open()
        return self._listener.offer(None) if socket_offer.is_possible() else None

    async def attach(self, child: str) -> SocketOffer | None:
        """Return where a relay or subend can connect to; None if there are no such sockets on this machine."""
        await self.open()
        return self._listener.offer(child) if socket_offer.is_possible() else None

    async def subscribe(self, name: str, start: int | None = None, *, durable: bool = False) -> Begun:
        """Take on a subscription, or go on with the one of that name.

        Args:
            name: of the subscription.
            start: the first tick that a new one wants; by default what is told next.
            durable: whether it is remembered over restarts; if so this returns when that is sure.

        Raises:
            LogError: what it needs first is not in the log, or the log takes nothing.
        """
        await self.open()
        begun, frontiers = self._core.subscribe(name, start, durable=durable)
        noted = self._core.log_tick
        if durable and not await self._changed.wait_until(
            lambda: self._core.durable_tick >= noted or bool(self._problem), NOTED_WITHIN_S
        ):
            raise LogError(f"{self!r}: subscription {name!r} is not durable after {NOTED_WITHIN_S:g} s")
        if durable and self._problem:
            raise LogError(self._problem)
        return Begun(begun.acknowledged, begun.told_end, frontiers)

    async def unsubscribe(self, name: str) -> None:
        """Forget a subscription, durable or not: what only it needed may go."""
        await self.open()
        self._core.unsubscribe(name)

    async def ended(self, timeout_s: float) -> bool:
        """Wait until the last message is durable, or nothing more will be; tell whether that is so."""
        await self.open()
        return await self._changed.wait_until(lambda: self._core.has_ended or bool(self._problem), timeout_s)

    async def problem(self) -> str:
        """Return why nothing more is published; empty as long as that is not so."""
        return self._problem

    async def ping(self) -> None:
        """Answer, which shows that the actor lives."""

    async def close(self) -> None:
        """Make durable what was sent, and let go of everything.

        Raises:
            LogError: that did not work.
        """
        if self._pubend is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._trimming is not None:
            await self._trimming
        for worker in self._workers:
            worker.close()
        for link in list(self._links.values()):
            link.close()
        self._listener.close()
        pubend, self._pubend = self._pubend, None
        await asyncio.to_thread(pubend.close)

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
        for worker in self._workers:
            worker.settle()
        self._changed.notify()

    def _look(self) -> None:
        """Do what is due, again and again."""
        try:
            self._core.look()
        except LogError as error:
            self._fail(str(error))
            return
        if self._trimming is None or self._trimming.done():
            now_s = self._loop.time()
            if now_s - self._trimmed_s >= _TRIM_S:
                self._trimmed_s = now_s
                self._trimming = self._loop.create_task(self._trim())
        self._timer = self._loop.call_later(LOOK_S, self._look)

    async def _trim(self) -> None:
        try:
            await asyncio.to_thread(self._core.trim)
        except LogError as error:
            _LOG.warning("%r: %s", self, error)

    def _fail(self, reason: str) -> None:
        if not self._problem:
            self._problem = reason
            _LOG.error("%r publishes nothing more: %s", self, reason)
            self._changed.notify()

    # ------------------------------------------------------------------ who is connected

    def _admitted(self, connection: socket.socket, child: str | None) -> None:
        """Take on a connection, of the worker or of a child."""
        if child is None:
            self._workers = [worker for worker in self._workers if not worker.is_closed]
            for worker in self._workers:
                worker.close()  # it has connected anew
            self._workers.append(WorkerLink(connection, self._loop, self._core, self._fail))
            return
        self._leave(child)
        self._links[child] = ChildLink(
            connection, self._loop, self._frames, partial(self._hear, child), partial(self._gone, child)
        )

    def _hear(self, child: str, said: list[ChildMessage]) -> None:
        for message in said:
            if isinstance(message, Join):
                self._core.join(child, message.where)
            elif message.pubend != self._identity.partition:
                self._reject(child, f"it asked pubend {self._identity.partition} about pubend {message.pubend}")
                return
            elif isinstance(message, Nack):
                self._core.nack(child, message)
            else:
                self._core.ack(message)
        self._changed.notify()

    def _reject(self, child: str, reason: str) -> None:
        _LOG.warning("%r: %s: %s", self, child, reason)
        self._tell([Outgoing(child, Rejected(self._identity.partition, reason))])
        self._core.leave(child)

    def _tell(self, outgoing: list[Outgoing]) -> None:
        for child, message in outgoing:
            link = self._links.get(child)
            if link is not None:
                link.tell(message)

    def _gone(self, child: str, why: str) -> None:
        _LOG.debug("%r: %s: %s", self, child, why)
        self._links.pop(child, None)
        self._core.leave(child)

    def _leave(self, child: str) -> None:
        link = self._links.pop(child, None)
        if link is not None:
            link.close()
            self._core.leave(child)

    def __repr__(self) -> str:
        return f"Pubend({self._identity.topic!r}[{self._identity.partition}])"
