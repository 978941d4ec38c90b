"""One partition of a topic without a log, on an asyncio loop: from its worker to its subscribers.

A subscriber's connection is given messages as fast as it takes them. The rest waits in its queue in the `Publisher`,
where it is bounded. While a subscriber holds the publisher back, nothing is read from the worker.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from tidewheel.progress import ProtocolError, TimeDomain
from tidewheel.pubsub.exactly_once.frames import ChildMessage, Join, Told
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.wire import FeedEvent, LastMessage, Numbered
from tidewheel.pubsub.protocol.holds import Holds, held_too_long
from tidewheel.pubsub.protocol.publisher import Publisher, PublisherStatistics
from tidewheel.pubsub.publishers.live_intake import LiveIntake
from tidewheel.pubsub.publishers.partition import Partition
from tidewheel.pubsub.publishers.worker_link import MessageSink
from tidewheel.transport import tickets
from tidewheel.transport.change_signal import ChangeSignal
from tidewheel.transport.stream_link import HAS_GONE
from tidewheel.transport.tickets import SocketOffer

_LOG = logging.getLogger(__name__)

LEASE_S: Final = 60.0
_WRITE_BYTES = 1024 * 1024
_MOST_WRITES = 8


class LivePartition(Partition):
    """A publisher without a log, its worker and its subscribers.

    Args:
        name: of the partition, for messages and logs.
        domain: the times of the topic.
        capacity_bytes: how much may wait for one subscriber.
        changed: is notified of everything that others may wait for.
        node: the node of the cluster that this process is on; None for a partition without sockets.
        lease_s: a subscriber without a connection that is silent for longer is given up.
        clock: seconds, which never go back.
    """

    def __init__(
        self,
        name: str,
        domain: TimeDomain,
        capacity_bytes: int,
        changed: ChangeSignal,
        *,
        node: str | None = None,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name, node, changed, self._drained, lease_s)
        self._publisher = Publisher(domain, capacity_bytes)
        self._clock = clock
        self._lease_s = lease_s
        self._awaited_until_s: dict[str, float] = {}
        self._holds = Holds()
        self._last: dict[str, Numbered] = {}
        self._intake = LiveIntake(self._publisher, self._pass_on)
        self._alarm: asyncio.TimerHandle | None = None
        self._goes_on_soon = False

    # ------------------------------------------------------------------ the worker

    @property
    def _sink(self) -> MessageSink:
        return self._intake

    def take(self, events: Sequence[FeedEvent]) -> None:
        """Receive events of a worker without a connection, in order; they wait while a subscriber holds back."""
        self._intake.take(events)
        self._settle()

    async def taken(self, again_s: float) -> None:
        """Wait until all events that have come are told to the subscribers; raise ProtocolError if one is wrong."""
        received = self._intake.received
        while not await self._changed.wait_until(lambda: self._intake.passed_on >= received, again_s):
            pass
        if self._intake.refusal:
            raise ProtocolError(self._intake.refusal)

    def _refuse(self, reason: str) -> None:
        self._intake.refuse(reason)
        self.go_on()

    # ------------------------------------------------------------------ going on

    def go_on(self) -> None:
        """Pass on what has come, read from the worker if there is room, and wake all who wait."""
        self._pass_on()
        self._settle()

    def _pass_on(self) -> None:
        if self._awaited_until_s:
            self._give_up_late()
        while self._pass_on_once():
            pass
        self._set_alarm()
        self._changed.notify()

    def _pass_on_once(self) -> bool:
        """Pass on what can be passed on now; return whether to look again after that."""
        has_more = self._intake.pass_on()
        for name in self.children.names:
            self._fill(name)
        holders = self._publisher.holders()
        late = self._holds.expired(holders, self._clock(), self.taken_by) if holders or self._holds else ()
        for subscriber in late:
            self._publisher.cut_off(subscriber, held_too_long(holders[subscriber]))
        return bool(late) or (has_more and not holders)

    def _fill(self, name: str) -> None:
        """Tell a subscriber what there is for it, until its connection takes no more, or it is the turn of others."""
        for _ in range(_MOST_WRITES):
            child = self.children.get(name)
            if child is None or child.waiting_bytes:
                return
            last = self._last.get(name)
            if last is not None and isinstance(last.message, LastMessage):
                self.leave(name)
                return
            messages = self._publisher.fetch(name, -1 if last is None else last.sequence, _WRITE_BYTES)
            if not messages:
                return
            self._last[name] = messages[-1]
            child.tell_now(messages)
        self.go_on_soon()

    def _drained(self, name: str) -> None:
        self._fill(name)
        self.go_on_soon()

    def go_on_soon(self) -> None:
        """Go on when all that has just happened is done with; once, however many ask for it."""
        if not self._goes_on_soon:
            self._goes_on_soon = True
            self._loop.call_soon(self._go_on_now)

    def _go_on_now(self) -> None:
        self._goes_on_soon = False
        self.go_on()

    def _set_alarm(self) -> None:
        """Look again when those who hold back the publisher have done so for too long."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._holds:
            self._alarm = self._loop.call_later(self._holds.left_s(self._clock()) or 0.0, self.go_on)

    # ------------------------------------------------------------------ subscribers

    def attach(self, child: str, options: DeliveryOptions) -> SocketOffer | None:
        """Take on a subscriber; return where it can connect to if it is on this node."""
        self._publisher.subscribe(child, options)
        self._awaited_until_s[child] = self._clock() + self._lease_s
        self.go_on()
        return self.offer(child)

    def connect(self, child: str, connection: socket.socket) -> None:
        """Take on the connection of a subscriber."""
        tickets.prepare(connection, steadily=self._publisher.may_hold(child))
        super().connect(child, connection)
        self._connected(child)

    def _connected(self, subscriber: str) -> None:
        self._awaited_until_s.pop(subscriber, None)
        self._fill(subscriber)

    async def talk(
        self, child: str, said: list[ChildMessage], wait_s: float, received: int | None, *, again: bool
    ) -> list[Told]:
        """Answer a subscriber without a connection; one that was given up is told so."""
        self._give_up_late()
        if not self._publisher.has_subscriber(child):
            return list(self._publisher.fetch(child, -1))
        return await super().talk(child, said, wait_s, received, again=again)

    def _hear(self, child: str, said: list[ChildMessage]) -> None:
        if all(isinstance(message, Join) for message in said):
            self._connected(child)
        else:
            _LOG.warning("%s: subscriber %s is cut off, as it sent what no subscriber sends", self._name, child)
            self.leave(child)

    def _gone(self, child: str, why: str) -> None:
        if why != HAS_GONE:
            _LOG.warning("%s gives up subscriber %s: %s", self._name, child, why)
        self.leave(child)

    def leave(self, child: str) -> None:
        """Forget a subscriber that has gone, or has everything."""
        self._publisher.unsubscribe(child)
        self._awaited_until_s.pop(child, None)
        self._last.pop(child, None)
        super().leave(child)
        if self._listener is not None:
            self._listener.withdraw(child)
        self.go_on_soon()

    def taken_by(self, subscriber: str) -> int:
        """Return a number that grows as a subscriber takes what there is for it."""
        child = self.children.get(subscriber)
        if child is not None:
            child.tell_now(())  # a socket says that it takes more only when three quarters of it were read
        return self._publisher.taken(subscriber) + (0 if child is None else child.written_bytes)

    def _give_up_late(self) -> None:
        """Forget subscribers that were attached and have neither connected nor called in time."""
        now_s = self._clock()
        for subscriber in [name for name, until_s in self._awaited_until_s.items() if until_s <= now_s]:
            _LOG.warning("%s gives up subscriber %s, which has not connected in time", self._name, subscriber)
            self.leave(subscriber)

    # ------------------------------------------------------------------ the state of the partition

    @property
    def has_ended(self) -> bool:
        """Whether the partition has ended or failed."""
        return self._publisher.is_finished

    @property
    def readers(self) -> int:
        """How many subscribers are connected."""
        return self._publisher.subscribers

    async def drained(self, timeout_s: float, but_for: str | None) -> bool:
        """Wait until the partition is finished and every subscriber has all of it; tell whether that is so."""
        self.go_on()
        return await self._changed.wait_until(lambda: self._publisher.is_drained_but_for(but_for), timeout_s)

    async def read_by_all(self, owner: str) -> None:
        """Wait until every subscriber has all of it, was cut off, or has received nothing for as long as a lease."""
        taken: dict[str, int] = {}
        while not await self._changed.wait_until(lambda: not self._publisher.unread(), self._lease_s):
            self.go_on()
            for subscriber in self._publisher.unread():
                is_idle = taken.get(subscriber) == self.taken_by(subscriber)
                if is_idle and not subscriber.startswith(f"{owner}/"):
                    self.leave(subscriber)
            taken = {subscriber: self.taken_by(subscriber) for subscriber in self._publisher.unread()}

    def fail(self, reason: str) -> None:
        """End the partition before its time, with ``reason`` for the subscribers."""
        self._publisher.fail(reason)
        self.go_on()

    def statistics(self) -> PublisherStatistics:
        """Return counts of what happened so far."""
        return self._publisher.statistics()

    async def close(self) -> None:
        """Let go of the worker and of all subscribers."""
        self._let_go()
        if self._alarm is not None:
            self._alarm.cancel()
