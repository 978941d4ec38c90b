"""Delivers one partition of a topic without a log, from its worker to its subscribers, on an asyncio loop.

While a subscriber holds the publisher back, the worker's messages wait here, and no more are read. A subscriber's
connection gets messages as fast as it accepts them; further messages wait in a bounded queue of the `Publisher`.
"""

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Final

from tidewheel.progress import ProtocolError, TimeDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.journal import OutdatedWorkerError
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, decode
from tidewheel.pubsub.messages.frames import ChildMessage, Join, Told
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent, LowerFrontierUpdate, WorkerPosition
from tidewheel.pubsub.protocol.blocking_queue import BlockingQueue
from tidewheel.pubsub.protocol.posted import size_of
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.protocol.topic_end import PartitionEnd
from tidewheel.pubsub.publishers.confirmed import Confirmed
from tidewheel.pubsub.publishers.connections import Connections
from tidewheel.pubsub.publishers.partition import Awaiting
from tidewheel.pubsub.publishers.worker_events import WorkerEvents
from tidewheel.transport import tickets
from tidewheel.transport.stream_link import HAS_GONE

_LOG = logging.getLogger(__name__)

LEASE_S: Final = 60.0
ENDED_ALREADY: Final = "the topic has been ended already"

_WRITE_BYTES = 1024 * 1024
_MOST_WRITES = 8
_TAKEN_AT_ONCE = 4
"""A publisher takes at most 1 / 4 of its capacity at once; then its subscribers can read."""
_NOTHING = Confirmed(0, 0)
_EVENTS = (DataMessage, LowerFrontierUpdate)


class LiveDelivery:
    """A `Delivery` with a publisher that has no log.

    Args:
        is_remembered: whether its job keeps snapshots. Then the worker keeps unconfirmed messages, and sends its
            position first. Numbers are greater than those of a dead publisher, and the partition ends when `end` is
            called.
        node: the publisher's node; None for a partition without sockets.
        lease_s: the seconds of silence after which a subscriber without a connection is given up.

    Attributes:
        may_return: whether subscribers of a dead publisher may still connect.
    """

    def __init__(  # noqa: PLR0913 - the settings of a publication, one by one
        self,
        name: str,
        domain: TimeDomain,
        capacity_bytes: int,
        awaited: int = 0,
        *,
        is_remembered: bool = False,
        has_history: bool = False,
        number: int = 0,
        node: str | None = None,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self.room_for, self.is_eager = lambda _size: None, False
        alone = {"has_begun": not is_remembered, "ends_alone": not is_remembered}
        self._publisher = Publisher(domain, capacity_bytes, awaited, **alone, has_history=has_history, partition=number)
        self.awaiting: Awaiting = self._publisher
        # `_fill` bounds the waiting messages; a message that a link dropped would never arrive, since the queue takes
        # it for sent.
        self.connections = Connections(node, self, self, lease_s, sys.maxsize)
        self.problem = ""
        self.lease_s = lease_s
        self._loop, self._children = self.connections.loop, self.connections.children
        self._is_remembered = is_remembered
        self._most_bytes = capacity_bytes // _TAKEN_AT_ONCE
        self._clock = clock
        self._waiting = WorkerEvents()
        self._unconfirmed, self._generation, self._least_generation = 0, -1, 0
        self.may_return = False
        self._awaited_until_s: dict[str, float] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._goes_on_soon = False

    # ------------------------------------------------------------------ the worker

    def begin(self, position: WorkerPosition) -> None:
        """Begin at a worker's position; drop waiting messages of an earlier worker."""
        if not self._is_remembered:
            return
        if position.generation.number < self._least_generation:
            raise OutdatedWorkerError
        self._generation = position.generation.number
        self._waiting.begin(position)
        self._unconfirmed = 0
        self._pass_on()

    def go_back(self) -> None:
        self._least_generation = self._generation + 1
        self._waiting.clear()
        self._unconfirmed = 0
        self.may_return = True
        self.connections.changed.notify()

    def feed(self, sent: list[EncodedMessage]) -> None:
        events: list[FeedEvent] = []
        try:
            for message in sent:
                event = decode(message)
                if not isinstance(event, _EVENTS):
                    raise ProtocolError(f"a worker does not send {event!r}")
                events.append(event)
        finally:
            self.take(events)
            # Linux may let a subscriber wait for this core until the publisher sleeps, although another core is idle.
            os.sched_yield()

    def take(self, events: Sequence[FeedEvent]) -> None:
        """Receive events, in order; they wait while a subscriber holds the publisher back."""
        if not self.connections.refusal:
            self._waiting.extend(events)
        self._pass_on()

    async def taken(self, again_s: float) -> None:
        """Wait until all received events are passed on to the subscribers; raise ProtocolError if one is wrong."""
        waiting, received = self._waiting, self._waiting.received
        while not await self.connections.changed.wait_until(
            lambda: waiting.received - len(waiting) >= received, again_s
        ):
            pass
        if self.connections.refusal:
            raise ProtocolError(self.connections.refusal)

    def confirmed(self) -> Confirmed:
        """Return how many messages the worker may forget: all of them once this delivery has received everything.

        Before that, a worker that keeps messages may forget all passed-on messages except the newest.
        """
        left = 0 if self._publisher.has_everything else 1
        if self._unconfirmed <= left or (left and not self._is_remembered):
            return _NOTHING
        messages, self._unconfirmed = self._unconfirmed - left, left
        return Confirmed(messages, 0, self._publisher.number - left)

    @property
    def has_room(self) -> bool:
        return not self._publisher.is_held

    @property
    def error(self) -> ProtocolError | None:
        reason = self.connections.refusal or (ENDED_ALREADY if self._publisher.has_failed else "")
        return ProtocolError(reason) if reason else None

    def refuse(self, reason: str) -> None:
        self.connections.refusal = self.connections.refusal or reason
        self._waiting.clear()
        self.fail(reason)

    # ------------------------------------------------------------------ going on

    def go_on(self) -> None:
        """Pass on received events, read more from the worker if there is room, and wake all waiting calls."""
        self._goes_on_soon = False
        self._pass_on()
        self.connections.settle()

    def _pass_on(self) -> None:
        if self._awaited_until_s:
            self._give_up_late()
        while self._pass_on_some():
            pass
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        wait_s = self._publisher.overdue_in_s(self._clock()) if self._publisher.is_held else None
        if wait_s is not None:
            self._alarm = self._loop.call_later(wait_s, self.go_on)
        self.connections.changed.notify()

    def _pass_on_some(self) -> bool:
        publisher = self._publisher
        passed_bytes = 0
        try:
            while self._waiting and passed_bytes <= self._most_bytes and not publisher.is_held:
                event = self._waiting.take()
                if isinstance(event, WorkerPosition):
                    publisher.begin(event)
                    self.may_return = True
                    self._loop.call_later(self.lease_s, publisher.forget)
                    continue
                passed_bytes += size_of(event)
                self._unconfirmed += 1
                publisher.feed([event])
        except ProtocolError as error:
            self.refuse(str(error))
        for name in self._children.names:
            self._fill(name)
        if publisher.is_held:
            return publisher.cut_off_late(self._clock(), self.taken_by)
        return bool(self._waiting)

    def _fill(self, name: str) -> None:
        for _ in range(_MOST_WRITES):
            child, queue = self._children.get(name), self._publisher.queues.get(name)
            if child is None or queue is None or child.waiting_bytes:
                return
            queue.acknowledge(queue.last_sent)
            if not queue:
                if queue.is_closed or self._publisher.is_finished:
                    self.leave(name)
                return
            child.tell_now(queue.head(_WRITE_BYTES))
        self.go_on_soon()

    def go_on_soon(self) -> None:
        """Call `go_on` soon, once for several calls of this method."""
        if not self._goes_on_soon:
            self._goes_on_soon = True
            self._loop.call_soon(self.go_on)

    # ------------------------------------------------------------------ subscribers

    def attach(self, child: str, options: DeliveryOptions, *, again: bool = False) -> None:
        """Accept a subscriber; raise as `Publisher.subscribe` does.

        With ``again``, the subscriber may repeat this until it has connected.
        """
        if again and not self.may_return:
            raise DeliveryError("it was started again, and its job has not gone back to a snapshot")
        if not again or child not in self._publisher.queues or child in self._children:
            self._publisher.subscribe(child, options, again=again)
        self._awaited_until_s[child] = self._clock() + self.lease_s
        self.go_on()

    def connect(self, child: str, connection: socket.socket) -> None:
        tickets.prepare(connection, steadily=isinstance(self._publisher.queues[child], BlockingQueue))
        self._children.connect(child, connection)
        self._awaited_until_s.pop(child, None)
        self._fill(child)

    def turned_away(self, child: str) -> list[Told]:
        """Return the messages for a subscriber that was given up; empty if it was not.

        Raises:
            ProtocolError: the subscriber is unknown, but may attach again, since its job keeps snapshots.
        """
        self._give_up_late()
        if child in self._publisher.queues:
            return []
        if self._is_remembered:  # perhaps the subscriber was one of a publisher that has died
            raise ProtocolError(f"subscriber {child!r} is not known here, or no more: it has to attach again")
        return list(self._publisher.fetch(child, -1))

    def hear(self, child: str, said: list[ChildMessage]) -> None:
        if all(isinstance(message, Join) for message in said):
            self._awaited_until_s.pop(child, None)
            self._fill(child)
        else:
            _LOG.warning("%s: subscriber %s is cut off, as it sent what no subscriber sends", self._name, child)
            self.leave(child)

    def drained(self, _: str) -> None:
        self.go_on_soon()

    def gone(self, child: str, why: str) -> None:
        if why != HAS_GONE:
            _LOG.warning("%s gives up subscriber %s: %s", self._name, child, why)
        self.leave(child)

    def leave(self, child: str) -> None:
        self._publisher.unsubscribe(child)
        self._awaited_until_s.pop(child, None)
        self.connections.let_go(child)
        self.go_on_soon()

    def taken_by(self, subscriber: str) -> int:
        """Return a number that grows when a subscriber takes messages."""
        child = self._children.get(subscriber)
        if child is not None:
            child.tell_now(())  # a socket reports room only when its peer has read three quarters of it
        return self._publisher.queues[subscriber].taken + (0 if child is None else child.written_bytes)

    def _give_up_late(self) -> None:
        now_s = self._clock()
        for subscriber in [name for name, until_s in self._awaited_until_s.items() if until_s <= now_s]:
            _LOG.warning("%s gives up subscriber %s, which has not connected in time", self._name, subscriber)
            self.leave(subscriber)

    # ------------------------------------------------------------------ the state of the partition

    @property
    def has_ended(self) -> bool:
        return self._publisher.is_finished

    @property
    def readers(self) -> int:
        return self._publisher.subscribers

    def is_drained(self, but_for: str | None) -> bool:
        return self.has_ended and self._publisher.is_drained_but_for(but_for)

    def has_been_read(self, but_for: str | None) -> bool:
        return self._publisher.is_drained_but_for(but_for)

    @property
    def is_read_by_all(self) -> bool:
        return not (self._publisher.missing or self._publisher.unread())

    def unread(self) -> dict[str, int]:
        return {subscriber: self.taken_by(subscriber) for subscriber in self._publisher.unread()}

    def is_of(self, name: str, process: str | None) -> bool:
        return process is not None and name.startswith(f"{process}/")

    def give_up(self, name: str) -> None:
        self.leave(name)

    def fail(self, reason: str, *, on_purpose: bool = False) -> None:
        self.may_return = True
        self._publisher.fail(reason, on_purpose=on_purpose)
        self.go_on()

    def statistics(self) -> dict[str, int]:
        return asdict(self._publisher.statistics())

    def known_end(self, generation: int) -> PartitionEnd | None:
        if not self._publisher.has_everything:
            return None
        known = self._publisher.known_end
        return known if known.generation >= generation else None

    def end(self, known: PartitionEnd | None) -> None:
        assert known is not None, "without a log, the end is that which a publisher has known"
        self.expect(known.readers)
        self._publisher.end(known)
        self.may_return = True
        self.go_on()

    def expect(self, readers: Iterable[str]) -> list[str]:
        publisher = self._publisher
        if not publisher.has_begun:
            publisher.missing = {*readers} - {*publisher.queues}
            self._loop.call_later(self.lease_s, publisher.forget)
            self._loop.call_later(self.lease_s, self.connections.changed.notify)
        return [name for name, queue in publisher.queues.items() if not queue.is_closed]

    async def close(self) -> None:
        self.connections.close()
        if self._alarm is not None:
            self._alarm.cancel()
