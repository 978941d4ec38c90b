"""A publisher actor as its callers see it, in this process: calls with ``remote``, which return something to await."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.kit.pubsub.numbered import fetched
from tidewheel.progress import IntegerDomain, Time
from tidewheel.pubsub.catalog.catalog import TopicEvent
from tidewheel.pubsub.catalog.catalog_topic import CatalogPublisher
from tidewheel.pubsub.messages.events import Batch
from tidewheel.pubsub.messages.wire import FeedEvent
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.publishers.live_delivery import LiveDelivery


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an actor: a call begins at once, whether or not somebody awaits it."""

    called: Callable[..., Coroutine[Any, Any, Any]]

    def remote(self, *arguments: Any) -> "asyncio.Task[Any]":
        return asyncio.get_running_loop().create_task(self.called(*arguments))


class CalledPublisher:
    """A publisher of integers as times, with one subscriber from the start; once it is dead its calls fail."""

    def __init__(self) -> None:
        self.is_dead = False
        self._actor = CatalogPublisher(partial(LiveDelivery, "called", IntegerDomain(), 1 << 20))
        self._attached = Method(self._actor.attach).remote("reader")

    @property
    def feed(self) -> Method:
        return Method(self._feed)

    async def _feed(self, events: list[FeedEvent]) -> None:
        if self.is_dead:
            raise ConnectionError("the publisher is dead")
        await self._attached
        await self._actor.feed(events)

    def epochs(self) -> list[tuple[Time, TopicEvent]]:
        """What the subscriber has got: each record with its time."""
        subscriber = Subscriber(IntegerDomain(), 1)
        found = []
        for numbered in fetched(vars(self._actor.live)["_publisher"], "reader", acknowledged=-1):
            for event in subscriber.receive(0, numbered):
                if isinstance(event, Batch):
                    found += [(event.time, record) for record in event.records]
        return found
