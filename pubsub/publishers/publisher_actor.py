"""The Ray actor around one `Publisher`: for others on its node it has sockets, and calls for those on other nodes.

It is an asyncio actor, so that subscribers can wait in it for news, and all happens on its loop. Calls on asyncio
actors do not keep their order, so the worker numbers its calls and an `OrderedInbox` restores it. The worker only ever
waits for a subscriber that asked for that. This module does not import Ray: the class is plain, and whoever starts it
makes it an actor.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from msgspec import structs

from tidewheel.progress import ProtocolError, TimeDomain
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent, Numbered
from tidewheel.pubsub.protocol.holds import Holds, held_too_long
from tidewheel.pubsub.protocol.lease import Leases
from tidewheel.pubsub.protocol.outgoing_queue import size_of
from tidewheel.pubsub.protocol.publisher import Publisher, PublisherStatistics
from tidewheel.pubsub.publishers.publisher_socket import PublisherHost, PublisherSocket
from tidewheel.transport import socket_offer
from tidewheel.transport.change_signal import ChangeSignal
from tidewheel.transport.ordered_inbox import OrderedInbox
from tidewheel.transport.process_memory import keep_freed_memory
from tidewheel.transport.socket_offer import SocketOffer

_LOG = logging.getLogger(__name__)

LEASE_S = 60.0
_TAKEN_AT_ONCE = 4
"""Of its capacity, a publisher takes one part in so many at a time; then its subscribers have a chance to take that."""


class PublisherActor(PublisherHost):
    """Publishes one partition of a topic.

    Args:
        topic: its name.
        partition: the number of the partition.
        domain: the times of the topic.
        capacity_bytes: how much may wait for one subscriber.
        node: the node of the cluster that it is on; None for one without sockets.
        lease_s: after how many seconds without a poll a subscriber is given up.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        domain: TimeDomain,
        capacity_bytes: int,
        node: str | None = None,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        keep_freed_memory()
        self._name = f"{topic!r}[{partition}]"
        self._publisher = Publisher(domain, capacity_bytes)
        self._inbox: OrderedInbox[list[FeedEvent]] = OrderedInbox()
        self._leases = Leases(lease_s)
        self._clock = clock
        self._changed = ChangeSignal()
        self._holds = Holds()
        self._alarm: asyncio.TimerHandle | None = None
        self._untaken: deque[FeedEvent] = deque()
        self._told = 0
        self._node = node
        self._socket: PublisherSocket | None = None
        self._goes_on_soon = False
        self._take_bytes = capacity_bytes // _TAKEN_AT_ONCE
        self.refusal = ""

    async def listen(self) -> SocketOffer | None:
        """Return where the worker can connect to, if it is on this node; None if there are no sockets here."""
        return self._offer(None)

    async def feed(self, incarnation: int, sequence: int, events: list[FeedEvent]) -> None:
        """Take events of the worker; return once they are told to the subscribers.

        Args:
            incarnation: the same for all calls of one worker; a second worker is refused.
            sequence: 0 for its first call, and so on.
            events: what happened, in order.

        Raises:
            ProtocolError: the events are impossible; the topic has failed.
        """
        try:
            for batch in self._inbox.accept(self._name, incarnation, sequence, events):
                self.take(batch)
        except ProtocolError as error:
            self._publisher.fail(str(error))
            self.go_on()
            raise
        told = self._told
        while not await self._changed.wait_until(lambda: self._told - len(self._untaken) >= told, LEASE_S):
            pass
        if self.refusal:
            raise ProtocolError(self.refusal)

    def take(self, events: list[FeedEvent]) -> None:
        """Take events of the worker, in order; they wait while the publisher is held back."""
        if not self.refusal:
            self._untaken.extend(events)
        self._told += len(events)
        self.go_on()

    def go_on(self) -> None:
        """Take what is to be taken, give away what there is to be given, and let everybody look again."""
        self._expire_leases()
        while self._go_on_once():
            pass
        if self._socket is not None:
            self._socket.pause(is_paused=bool(self._publisher.holders()))
        self._set_alarm()
        self._changed.notify()

    def _go_on_once(self) -> bool:
        """Go on with what can be done now; return whether more can be done after that."""
        self._take_in()
        if self._socket is not None:
            self._socket.deliver()
        holders = self._publisher.holders()
        late = self._holds.expired(holders, self._clock(), self._taken)
        for subscriber in late:
            self._publisher.cut_off(subscriber, held_too_long(holders[subscriber]))
        return bool(late) or (bool(self._untaken) and not holders)

    def _taken(self, subscriber: str) -> int:
        """Return a number that grows as a subscriber takes what there is for it."""
        written = 0 if self._socket is None else self._socket.written(subscriber)
        return self._publisher.taken(subscriber) + written

    def _take_in(self) -> None:
        taken_bytes = 0
        try:
            while self._untaken and taken_bytes <= self._take_bytes and not self._publisher.holders():
                event = self._untaken.popleft()
                taken_bytes += size_of(event)
                self._publisher.feed([event])
        except ProtocolError as error:
            self._fail_for(str(error))

    def refuse(self, reason: str) -> None:
        """End the partition before its time, since what the worker told makes no sense."""
        self._fail_for(reason)
        self.go_on()

    def _fail_for(self, reason: str) -> None:
        self.refusal = reason
        self._untaken.clear()
        self._publisher.fail(reason)

    def _set_alarm(self) -> None:
        """Look again when those who hold back the publisher have done so for too long."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        left_s = self._holds.left_s(self._clock())
        if left_s is not None:
            self._alarm = asyncio.get_running_loop().call_later(left_s, self.go_on)

    async def attach(self, subscriber: str, options: DeliveryOptions = EVERYTHING) -> SocketOffer | None:
        """Connect a subscriber: from now on it misses nothing that it wants and fetches in time.

        Returns where it can fetch that, if it is on this node; otherwise, or if it does not, it polls.
        """
        self._publisher.subscribe(subscriber, options)
        self._leases.grant(subscriber, self._clock())
        self.go_on()
        return self._offer(subscriber)

    def _offer(self, subscriber: str | None) -> SocketOffer | None:
        if not socket_offer.is_possible() or self._node is None:
            return None
        if self._socket is None:
            self._socket = PublisherSocket(self._publisher, self, self._node)
        return self._socket.offer(subscriber)

    def connected(self, subscriber: str) -> None:
        """Take note that a subscriber has a connection, which tells when it has gone."""
        self._leases.release(subscriber)

    def leave(self, subscriber: str) -> None:
        """Forget a subscriber."""
        self._publisher.unsubscribe(subscriber)
        self._leases.release(subscriber)
        if self._socket is not None:
            self._socket.withdraw(subscriber)
        self.go_on_soon()

    def go_on_soon(self) -> None:
        """Go on when all that has just happened is done with; once, however many ask for it."""
        if not self._goes_on_soon:
            self._goes_on_soon = True
            asyncio.get_running_loop().call_soon(self._go_on_now)

    def _go_on_now(self) -> None:
        self._goes_on_soon = False
        self.go_on()

    async def poll(self, subscriber: str, acknowledged: int, max_bytes: int, timeout_s: float) -> list[Numbered]:
        """Return the next messages of a subscriber, as soon as there are any; none if the time is over.

        Args:
            subscriber: its name.
            acknowledged: the number of the last message that it has; until then messages are sent again.
            max_bytes: about how much to return at once.
            timeout_s: how long to wait for the first message, in seconds.
        """
        self._expire_leases()
        self._leases.renew(subscriber, self._clock())
        messages = self._publisher.fetch(subscriber, acknowledged, max_bytes)
        if self._alarm is not None:
            self.go_on()  # since it has taken what was before, it may not hold back the publisher any more

        def has_news() -> bool:
            nonlocal messages
            messages = self._publisher.fetch(subscriber, acknowledged, max_bytes)
            return bool(messages)

        await self._changed.wait_until(has_news, timeout_s)
        self._leases.renew(subscriber, self._clock())
        return [_portable(numbered) for numbered in messages]

    async def detach(self, subscriber: str) -> None:
        """Forget a subscriber, which is its last acknowledgement too; a poll of it that waits returns at once."""
        self.leave(subscriber)

    async def wait_for_subscribers(self, count: int, timeout_s: float) -> int:
        """Wait until ``count`` subscribers are connected; return how many are in the end."""
        await self._changed.wait_until(lambda: self._publisher.subscribers >= count, timeout_s)
        return self._publisher.subscribers

    async def ended(self, timeout_s: float) -> bool:
        """Wait until the partition has ended or failed; tell whether it has."""
        return await self._changed.wait_until(lambda: self._publisher.is_finished, timeout_s)

    async def drained(self, timeout_s: float, but_for: str | None = None) -> bool:
        """Wait until the partition is finished and every subscriber has all of it; tell whether that is so.

        Subscribers of the process ``but_for`` do not count: who waits is that process, and they cannot read meanwhile.
        """
        self._expire_leases()
        return await self._changed.wait_until(lambda: self._publisher.is_drained_but_for(but_for), timeout_s)

    async def retire(self, owner: str) -> None:
        """End this actor once every subscriber has all of it, was cut off, or has taken nothing for as long as a lease.

        Those of the process ``owner`` have all the time that they want.
        """
        import ray

        taken: dict[str, int] = {}
        while not await self._changed.wait_until(lambda: not self._publisher.unread(), self._leases.duration_s):
            self._expire_leases()
            for subscriber in self._publisher.unread():
                if taken.get(subscriber) == self._taken(subscriber) and not subscriber.startswith(f"{owner}/"):
                    self.leave(subscriber)
            taken = {subscriber: self._taken(subscriber) for subscriber in self._publisher.unread()}
        ray.actor.exit_actor()

    async def fail(self, reason: str) -> None:
        """End the partition before its time, with ``reason`` for the subscribers."""
        self._publisher.fail(reason)
        self.go_on()

    async def ping(self) -> None:
        """Answer, which shows that the actor lives."""

    async def statistics(self) -> PublisherStatistics:
        """Return counts of what happened so far."""
        return self._publisher.statistics()

    def _expire_leases(self) -> None:
        for subscriber in self._leases.expire(self._clock()):
            _LOG.warning("%r gives up subscriber %s, which has not polled for too long", self, subscriber)
            self.leave(subscriber)

    def __repr__(self) -> str:
        return f"Publisher({self._name})"


def _portable(numbered: Numbered) -> Numbered:
    """Return a message in a form that can be pickled."""
    message = numbered.message
    if not isinstance(message, DataMessage) or not isinstance(message.payload, memoryview):
        return numbered
    return structs.replace(numbered, message=structs.replace(message, payload=bytes(message.payload)))
