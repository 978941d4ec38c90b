"""One partition of a topic without a log, on an asyncio loop: from its worker to its subscribers.

A subscriber's connection is given messages as fast as it takes them. The rest waits in its queue in the `Publisher`,
where it is bounded. While a subscriber holds the publisher back, nothing is read from the worker.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.codec import CODEC
from tidewheel.pubsub.exactly_once.frames import ChildMessage, Join, Told
from tidewheel.pubsub.exactly_once.journal import WorkerPosition
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, decode
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent, LastMessage, LowerFrontierUpdate, Numbered
from tidewheel.pubsub.protocol.holds import Holds, held_too_long
from tidewheel.pubsub.protocol.outgoing_queue import size_of
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.publishers.worker_link import Confirmed, WorkerLink
from tidewheel.transport import socket_offer
from tidewheel.transport.change_signal import ChangeSignal
from tidewheel.transport.children import Children
from tidewheel.transport.codec import HAS_GONE

_LOG = logging.getLogger(__name__)

ENDED_ALREADY: Final = "the topic has been ended already"

_TAKEN_AT_ONCE = 4
"""Of its capacity, a publisher takes one part in so many at a time; then its subscribers have a chance to take that."""
_WRITE_BYTES = 1024 * 1024
_MOST_WRITES = 8


class LivePartition:
    """A publisher without a log, its worker and its subscribers. To be used on the loop only.

    Args:
        name: of the partition, for the log of the process.
        publisher: the machine.
        changed: is notified of everything that others may wait for.
        lease_s: a subscriber without a connection that is silent for longer is given up.
        clock: seconds, which never go back.
        left: is told of each subscriber that is not attached any more.
    """

    def __init__(
        self,
        name: str,
        publisher: Publisher,
        changed: ChangeSignal,
        lease_s: float,
        clock: Callable[[], float],
        left: Callable[[str], None],
    ) -> None:
        self._name = name
        self._publisher = publisher
        self._changed = changed
        self._clock = clock
        self._left = left
        self._loop = asyncio.get_running_loop()
        self._children = Children(CODEC, self._loop, self._hear, self._gone, drained=self._drained, silent_s=lease_s)
        self._workers: list[WorkerLink] = []
        self._lease_s = lease_s
        self._awaited_until_s: dict[str, float] = {}
        self._holds = Holds()
        self._last: dict[str, Numbered] = {}
        self._untaken: deque[FeedEvent] = deque()
        self._told = self._unconfirmed = 0
        self._take_bytes = publisher.capacity_bytes // _TAKEN_AT_ONCE
        self._alarm: asyncio.TimerHandle | None = None
        self._goes_on_soon = False
        self._refusal = ""

    # ------------------------------------------------------------------ the worker

    def connect_worker(self, connection: socket.socket) -> None:
        """Take on the connection of a worker."""
        self._workers.append(WorkerLink(connection, self._loop, self, self.refuse))

    def begin(self, position: WorkerPosition) -> None:
        """Do nothing: a worker begins with its first event, as nothing is kept."""

    def feed(self, sent: Sequence[EncodedMessage]) -> None:
        """Take messages of the worker, in order; raises ProtocolError for what a worker does not send."""
        events: list[FeedEvent] = []
        try:
            for message in sent:
                event = decode(message)
                if not isinstance(event, DataMessage | LowerFrontierUpdate):
                    raise ProtocolError(f"a worker does not send {event!r}")
                events.append(event)
        finally:
            self._unconfirmed += len(events)
            self._take(events)

    def take(self, events: Sequence[FeedEvent]) -> None:
        """Receive events of a worker without a connection, in order; they wait while a subscriber holds back."""
        self._take(events)
        self._settle()

    def _take(self, events: Sequence[FeedEvent]) -> None:
        if not self._refusal:
            self._untaken.extend(events)
        self._told += len(events)
        self._pass_on()

    async def taken(self, again_s: float) -> None:
        """Wait until all events that have come are told to the subscribers; raise ProtocolError if one is wrong."""
        told = self._told
        while not await self._changed.wait_until(lambda: self._told - len(self._untaken) >= told, again_s):
            pass
        if self._refusal:
            raise ProtocolError(self._refusal)

    def confirmed(self) -> Confirmed:
        """Return how many messages a worker may forget: all of them once the partition has ended."""
        if not self._publisher.is_finished:
            return Confirmed(0, 0)
        messages, self._unconfirmed = self._unconfirmed, 0
        return Confirmed(messages, 0)

    @property
    def has_room(self) -> bool:
        """Whether no subscriber holds the publisher back."""
        return not self._publisher.holders()

    @property
    def error(self) -> ProtocolError | None:
        """Why nothing more is taken of the worker, if that is so."""
        reason = self._refusal or (ENDED_ALREADY if self._publisher.has_failed else "")
        return ProtocolError(reason) if reason else None

    def refuse(self, reason: str) -> None:
        """End the partition before its time, since what the worker sent makes no sense."""
        self._fail_for(reason)
        self.go_on()

    def _fail_for(self, reason: str) -> None:
        self._refusal = self._refusal or reason
        self._untaken.clear()
        self._publisher.fail(reason)

    # ------------------------------------------------------------------ going on

    def go_on(self) -> None:
        """Pass on what has come, read from the worker if there is room, and wake all who wait."""
        self._pass_on()
        self._settle()

    def _settle(self) -> None:
        for worker in self._workers:
            worker.settle()

    def _pass_on(self) -> None:
        if self._awaited_until_s:
            self._give_up_late()
        while self._pass_on_once():
            pass
        self._set_alarm()
        self._changed.notify()

    def _pass_on_once(self) -> bool:
        """Pass on what can be passed on now; return whether there is more after that."""
        if self._untaken and not self._publisher.holders():
            self._take_in()
        for name in self._children.names:
            self._fill(name)
        holders = self._publisher.holders()
        late = self._holds.expired(holders, self._clock(), self.taken_by) if holders or self._holds else ()
        for subscriber in late:
            self._publisher.cut_off(subscriber, held_too_long(holders[subscriber]))
        return bool(late) or (bool(self._untaken) and not holders)

    def _take_in(self) -> None:
        """Give the publisher events until a subscriber holds it back, or it is the subscribers' turn."""
        taken_bytes = 0
        try:
            while self._untaken and taken_bytes <= self._take_bytes:
                event = self._untaken.popleft()
                taken_bytes += size_of(event)
                self._publisher.feed([event])
                if self._publisher.holders():
                    break
        except ProtocolError as error:
            self._fail_for(str(error))

    def _fill(self, name: str) -> None:
        """Tell a subscriber what there is for it, until its connection takes no more, or it is the turn of others."""
        for _ in range(_MOST_WRITES):
            child = self._children.get(name)
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

    def attach(self, subscriber: str, options: DeliveryOptions) -> None:
        """Take on a subscriber: from now on it misses nothing that it wants, if it connects or calls in time."""
        self._publisher.subscribe(subscriber, options)
        self._awaited_until_s[subscriber] = self._clock() + self._lease_s
        self.go_on()

    def connect(self, subscriber: str, connection: socket.socket) -> None:
        """Take on the connection of a subscriber."""
        socket_offer.prepare(connection, steadily=self._publisher.may_hold(subscriber))
        self._children.connect(subscriber, connection)
        self._connected(subscriber)

    def _connected(self, subscriber: str) -> None:
        self._awaited_until_s.pop(subscriber, None)
        self._fill(subscriber)

    async def talk(
        self, subscriber: str, said: list[ChildMessage], wait_s: float, received: int | None, *, again: bool
    ) -> list[Told]:
        """Answer a subscriber without a connection, as `Children.talk` does; one that was given up hears that."""
        self._give_up_late()
        if not self._publisher.has_subscriber(subscriber):
            return list(self._publisher.fetch(subscriber, -1))
        return await self._children.talk(subscriber, said, wait_s, received, again=again)

    def _hear(self, subscriber: str, said: list[ChildMessage]) -> None:
        if all(isinstance(message, Join) for message in said):
            self._connected(subscriber)
        else:
            _LOG.warning("%s: subscriber %s is cut off, as it sent what no subscriber sends", self._name, subscriber)
            self.leave(subscriber)

    def _gone(self, subscriber: str, why: str) -> None:
        if why != HAS_GONE:
            _LOG.warning("%s gives up subscriber %s: %s", self._name, subscriber, why)
        self.leave(subscriber)

    def leave(self, subscriber: str) -> None:
        """Forget a subscriber that has gone, or has everything."""
        self._publisher.unsubscribe(subscriber)
        self._awaited_until_s.pop(subscriber, None)
        self._last.pop(subscriber, None)
        self._children.let_go(subscriber)
        self._left(subscriber)
        self.go_on_soon()

    def taken_by(self, subscriber: str) -> int:
        """Return a number that grows as a subscriber takes what there is for it."""
        child = self._children.get(subscriber)
        if child is not None:
            child.tell_now(())  # a socket says that it takes more only when three quarters of it were read
        return self._publisher.taken(subscriber) + (0 if child is None else child.written_bytes)

    def _give_up_late(self) -> None:
        """Forget subscribers that were attached and have neither connected nor called in time."""
        now_s = self._clock()
        for subscriber in [name for name, until_s in self._awaited_until_s.items() if until_s <= now_s]:
            _LOG.warning("%s gives up subscriber %s, which has not connected in time", self._name, subscriber)
            self.leave(subscriber)

    def close(self) -> None:
        """Let go of the worker and of all subscribers."""
        for worker in self._workers:
            worker.close()
        self._children.close()
        if self._alarm is not None:
            self._alarm.cancel()
