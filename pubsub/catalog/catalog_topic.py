"""The topic on which the catalog of a cluster publishes its changes."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tidewheel.progress import IntegerDomain, ProtocolError
from tidewheel.pubsub.catalog.catalog import CATALOG_TOPIC, TopicEvent, TopicInfo, messages, own_topic, start_at
from tidewheel.pubsub.messages.wire import FeedEvent
from tidewheel.pubsub.protocol.publisher import DEFAULT_CAPACITY_BYTES
from tidewheel.pubsub.publishers.live_partition import LEASE_S, LivePartition
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor
from tidewheel.transport.link import OrderedInbox
from tidewheel.transport.ray_cluster import actor_class

_LOG = logging.getLogger(__name__)


class CatalogPublisher(PublisherActor):
    """The publisher of ``tidewheel/catalog``, which the catalog calls: it has no socket to it.

    Calls on asyncio actors do not keep their order, so the catalog numbers its calls.
    """

    def __init__(self, make: Callable[[], LivePartition] | None = None) -> None:
        name = f"{CATALOG_TOPIC!r}[0]"
        super().__init__(
            CATALOG_TOPIC, 0, make or partial(LivePartition, name, IntegerDomain(), DEFAULT_CAPACITY_BYTES)
        )
        self._inbox: OrderedInbox[list[FeedEvent]] = OrderedInbox()

    async def feed(self, incarnation: int, sequence: int, events: list[FeedEvent]) -> None:
        """Receive events; return once the subscribers are told of them.

        Args:
            incarnation: the same for all calls of one catalog; a second catalog is refused.
            sequence: 0 for its first call, and so on.
            events: what happened, in order.

        Raises:
            ProtocolError: the events are impossible; the topic has failed.
        """
        partition = self.partition
        assert isinstance(partition, LivePartition), "the catalog has no log"
        try:
            for batch in self._inbox.accept(CATALOG_TOPIC, incarnation, sequence, events):
                partition.take(batch)
        except ProtocolError as error:
            partition.fail(str(error))
            raise
        await partition.taken(LEASE_S)


def start_publisher() -> Any:
    """Start the actor; it ends with the process that starts it."""
    return actor_class(CatalogPublisher).options(num_cpus=0, max_restarts=0, max_task_retries=0).remote()


class CatalogTopic:
    """Starts a publisher at the first lookup of the topic, and sends it the changes.

    The publisher is an actor of its own: it evaluates conditions of subscribers, which must not run in the catalog.
    All calls are made on one asyncio loop, and none of them waits.

    Args:
        incarnation: the id of this catalog.
        start: starts a publisher and returns its handle.

    Attributes:
        info: the entry of the topic; None before it has a publisher.
    """

    def __init__(self, incarnation: str, start: Callable[[], Any] = start_publisher) -> None:
        self._incarnation = incarnation
        self._start = start
        self.info: TopicInfo | None = None
        self._feeder = 0
        self._sequence = 0
        self._calls: set[asyncio.Task[None]] = set()

    def open(self, version: int) -> TopicInfo:
        """Start a publisher, or replace a dead one, when the catalog is at ``version``."""
        self.info = own_topic(self._start(), self._incarnation)
        self._feeder = uuid.uuid4().int
        self._sequence = 0
        self._feed(start_at(version))
        return self.info

    def tell(self, events: Sequence[TopicEvent]) -> None:
        """Publish changes, if there is a publisher."""
        if self.info is not None and events:
            self._feed(messages(events))

    def _feed(self, events: list[FeedEvent]) -> None:
        assert self.info is not None, "there is a publisher to feed"
        call = self.info.partitions[0].feed.remote(self._feeder, self._sequence, events)
        self._sequence += 1
        task = asyncio.get_running_loop().create_task(self._settle(call))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _settle(self, call: Any) -> None:
        try:
            await call
        except Exception as error:  # noqa: BLE001 - subscribers receive the loss, and the next one a new publisher
            _LOG.warning("%r was not told of a change: %s", CATALOG_TOPIC, error)
