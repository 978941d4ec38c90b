"""The Ray actor around one `Publisher`. An asyncio actor, so that subscribers can wait in it for news.

Calls on asyncio actors do not keep their order, so the worker numbers its calls and an `OrderedInbox` restores it. No
call of the worker ever waits for a subscriber. This module does not import Ray: the class is plain, and whoever starts
it makes it an actor.
"""

import logging
import time
from collections.abc import Callable

from tidewheel.progress import OrderedInbox, ProtocolError, TimeDomain
from tidewheel.pubsub.change_signal import ChangeSignal
from tidewheel.pubsub.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.lease import Leases
from tidewheel.pubsub.publisher import Publisher, PublisherStatistics
from tidewheel.pubsub.wire import FeedEvent, Numbered

_LOG = logging.getLogger(__name__)

LEASE_S = 60.0


class PublisherActor:
    """Publishes one partition of a topic.

    Args:
        topic: its name.
        partition: the number of the partition.
        domain: the times of the topic.
        capacity_bytes: how much may wait for one subscriber.
        lease_s: after how many seconds without a poll a subscriber is given up.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        domain: TimeDomain,
        capacity_bytes: int,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = f"{topic!r}[{partition}]"
        self._publisher = Publisher(domain, capacity_bytes)
        self._inbox: OrderedInbox[list[FeedEvent]] = OrderedInbox()
        self._leases = Leases(lease_s)
        self._clock = clock
        self._changed = ChangeSignal()

    async def feed(self, incarnation: int, sequence: int, events: list[FeedEvent]) -> None:
        """Take events of the worker.

        Args:
            incarnation: the same for all calls of one worker; a second worker is refused.
            sequence: 0 for its first call, and so on.
            events: what happened, in order.

        Raises:
            ProtocolError: the events are impossible; the topic has failed.
        """
        try:
            for batch in self._inbox.accept(self._name, incarnation, sequence, events):
                self._publisher.feed(batch)
        except ProtocolError as error:
            self._publisher.fail(str(error))
            raise
        finally:
            self._expire_leases()
            self._changed.notify()

    async def attach(self, subscriber: str, options: DeliveryOptions = EVERYTHING) -> None:
        """Connect a subscriber: from now on it misses nothing that it wants and polls for in time."""
        self._publisher.subscribe(subscriber, options)
        self._leases.grant(subscriber, self._clock())
        self._changed.notify()

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
        messages: list[Numbered] = []

        def has_news() -> bool:
            nonlocal messages
            messages = self._publisher.fetch(subscriber, acknowledged, max_bytes)
            return bool(messages)

        await self._changed.wait_until(has_news, timeout_s)
        self._leases.renew(subscriber, self._clock())
        return messages

    async def detach(self, subscriber: str) -> None:
        """Forget a subscriber, which is its last acknowledgement too; a poll of it that waits returns at once."""
        self._publisher.unsubscribe(subscriber)
        self._leases.release(subscriber)
        self._changed.notify()

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

    async def retire(self) -> None:
        """End this actor once every subscriber has all of it, or has let its lease run out."""
        import ray

        while not await self.drained(LEASE_S):
            pass
        ray.actor.exit_actor()

    async def fail(self, reason: str) -> None:
        """End the partition before its time, with ``reason`` for the subscribers."""
        self._publisher.fail(reason)
        self._changed.notify()

    async def ping(self) -> None:
        """Answer, which shows that the actor lives."""

    async def statistics(self) -> PublisherStatistics:
        """Return counts of what happened so far."""
        return self._publisher.statistics()

    def _expire_leases(self) -> None:
        for subscriber in self._leases.expire(self._clock()):
            _LOG.warning("%r gives up subscriber %s, which has not polled for too long", self, subscriber)
            self._publisher.unsubscribe(subscriber)

    def __repr__(self) -> str:
        return f"Publisher({self._name})"
