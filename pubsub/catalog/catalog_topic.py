"""The topic on which the catalog of a cluster publishes its changes."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.catalog.topic_event import CATALOG_TOPIC, TopicEvent, declared_events, messages, start_at
from tidewheel.pubsub.messages.wire import FeedEvent
from tidewheel.pubsub.protocol.publisher import DEFAULT_CAPACITY_BYTES
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor

_LOG = logging.getLogger(__name__)


class CatalogPublisher(PublisherActor):
    """The publisher of ``tidewheel/catalog``, with a name of its own in Ray's lists of actors."""


def start_publisher() -> Any:
    """Start the actor; it ends with the process that starts it."""
    import ray

    actor: Any = ray.remote(CatalogPublisher).options(num_cpus=0, max_restarts=0, max_task_retries=0)
    return actor.remote(CATALOG_TOPIC, 0, IntegerDomain(), DEFAULT_CAPACITY_BYTES)


class CatalogTopic:
    """Starts a publisher at the first lookup of the topic, and sends it the changes.

    The publisher is an actor of its own: it evaluates conditions of subscribers, which must not run in the catalog.
    All calls are made on one asyncio loop, and none of them waits.

    Args:
        incarnation: the id of this catalog.
        start: starts a publisher and returns its handle.
    """

    def __init__(self, incarnation: str, start: Callable[[], Any] = start_publisher) -> None:
        self._incarnation = incarnation
        self._start = start
        self._info: TopicInfo | None = None
        self._feeder = 0
        self._sequence = 0
        self._calls: set[asyncio.Task[None]] = set()

    @property
    def info(self) -> TopicInfo | None:
        """The entry of the topic; None before it has a publisher."""
        return self._info

    def open(self, version: int) -> TopicInfo:
        """Start a publisher, or replace a dead one, when the catalog is at ``version``."""
        publisher = self._start()
        self._info = TopicInfo(
            CATALOG_TOPIC, "tidewheel", IntegerDomain(), (publisher,), self._incarnation, declared_events()
        )
        self._feeder = uuid.uuid4().int
        self._sequence = 0
        self._feed(start_at(version))
        return self._info

    def tell(self, events: Sequence[TopicEvent]) -> None:
        """Publish changes, if there is a publisher."""
        if self._info is not None and events:
            self._feed(messages(events))

    def _feed(self, events: list[FeedEvent]) -> None:
        assert self._info is not None, "there is a publisher to feed"
        call = self._info.partitions[0].feed.remote(self._feeder, self._sequence, events)
        self._sequence += 1
        task = asyncio.get_running_loop().create_task(self._settle(call))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _settle(self, call: Any) -> None:
        try:
            await call
        except Exception as error:  # noqa: BLE001 - subscribers receive the loss, and the next one a new publisher
            _LOG.warning("%r was not told of a change: %s", CATALOG_TOPIC, error)
