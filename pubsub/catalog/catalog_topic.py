"""The topic on which the catalog of a cluster publishes its changes."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tidewheel.host.log_lines import LogSettings
from tidewheel.host.ray_cluster import actor_class
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import CATALOG_TOPIC, TopicEvent, TopicInfo, messages, own_topic, start_at
from tidewheel.pubsub.messages.wire import FeedEvent
from tidewheel.pubsub.protocol.publisher import DEFAULT_CAPACITY_BYTES
from tidewheel.pubsub.publishers.live_delivery import LEASE_S, LiveDelivery
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor
from tidewheel.pubsub.publishers.publisher_calls import kill

_LOG = logging.getLogger(__name__)


class CatalogPublisher(PublisherActor):
    """The publisher of ``tidewheel/catalog``; the catalog feeds it."""

    def __init__(self, make: Callable[[], LiveDelivery] | None = None, logs: LogSettings | None = None) -> None:
        made = make or partial(LiveDelivery, f"{CATALOG_TOPIC!r}[0]", IntegerDomain(), DEFAULT_CAPACITY_BYTES)
        super().__init__(CATALOG_TOPIC, 0, made, logs)

    async def feed(self, events: list[FeedEvent]) -> None:
        """Publish events, in order; return when the subscribers have received them.

        Raises:
            ProtocolError: the events are impossible; the topic has failed.
        """
        self.live.take(events)
        await self.live.taken(LEASE_S)


def start_publisher() -> Any:
    """Start the actor; it ends with this process."""
    actor = actor_class(CatalogPublisher).options(num_cpus=0, max_restarts=0, max_task_retries=0)
    return actor.remote(logs=LogSettings.here())


class CatalogTopic:
    """Starts a publisher when the topic is first looked up, and sends it the changes.

    The publisher is an actor of its own, since it runs functions of subscribers. Asyncio actors do not keep the order
    of calls, so changes wait here until the previous call has returned.

    Attributes:
        info: the topic; None while there is no publisher.
    """

    def __init__(
        self,
        incarnation: str,
        start: Callable[[], Any] = start_publisher,
        end: Callable[[Sequence[Any]], None] = kill,
    ) -> None:
        self._incarnation = incarnation
        self._start, self._end = start, end
        self.info: TopicInfo | None = None
        self._untold: list[FeedEvent] = []
        self._telling: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, version: int) -> TopicInfo:
        """Start a publisher, or replace a dead one, when the catalog is at ``version``."""
        self.info = own_topic(self._start(), self._incarnation)
        self._untold, self._telling = [], None
        self._tell(start_at(version))
        return self.info

    def tell(self, events: Sequence[TopicEvent]) -> None:
        if self.info is not None and events:
            self._tell(messages(events))

    def _tell(self, events: list[FeedEvent]) -> None:
        assert self.info is not None, "there is a publisher to feed"
        self._untold += events
        if self._telling is None or self._telling.done():
            told = self._tell_all(self.info.partitions[0], self._untold)
            self._telling = asyncio.get_running_loop().create_task(told)
            self._tasks.add(self._telling)
            self._telling.add_done_callback(self._tasks.discard)

    async def _tell_all(self, publisher: Any, untold: list[FeedEvent]) -> None:
        try:
            while untold:
                events = untold.copy()
                untold.clear()
                await publisher.feed.remote(events)
        except Exception as error:  # noqa: BLE001 - subscribers receive the loss, and the next one a new publisher
            _LOG.warning("%r was not told of a change: %s", CATALOG_TOPIC, error)
            self._end([publisher])  # it may live although the call was lost, and then lacks an event for ever
