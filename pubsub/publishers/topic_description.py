"""The description of a topic that a dataflow publishes."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.catalog.catalog import RESERVED, Delivery, TopicInfo
from tidewheel.pubsub.catalog.topic_schema import TopicSchema
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.protocol.publisher import DEFAULT_CAPACITY_BYTES
from tidewheel.pubsub.publishers.connection import PublisherConnection
from tidewheel.pubsub.publishers.idle_connection import IdleConnection
from tidewheel.pubsub.publishers.topic_log import TopicLog
from tidewheel.transport.attachment import AttachmentHost

Partition: TypeAlias = Literal["worker", "merged"]
"""Whether each worker publishes what it has, or worker 0 what all have, in one partition."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """The description of a topic; picklable.

    Args:
        topic: its name.
        domain: its times.
        capacity_bytes: how much may wait, at each partition, for one subscriber before it is cut off.
        partition: whether each worker has a partition of its own, or worker 0 the only one.
        schema: what its records are; None if nothing is said.
        log: where everything is kept until all subscriptions have it, for exactly-once delivery; None for best effort.
        ends: whether subscribers are told of the ends of substreams.

    Raises:
        DeliveryError: the name is no text, empty or reserved, there is no such partition, or the capacity is no number
            of bytes.
    """

    topic: str
    domain: TimeDomain
    capacity_bytes: int = DEFAULT_CAPACITY_BYTES
    partition: Partition = "worker"
    schema: TopicSchema | None = None
    log: TopicLog | None = None
    ends: bool = False

    def __post_init__(self) -> None:
        name: object = self.topic
        if not isinstance(name, str) or not name:
            raise DeliveryError(f"the name of a topic is a text that is not empty, not {name!r}")
        if name.startswith(RESERVED):
            raise DeliveryError(f"topic {name!r}: names that begin with {RESERVED!r} are reserved: take another one")
        capacity: object = self.capacity_bytes
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity <= 0:
            raise DeliveryError(f"topic {name!r}: the capacity is a whole number of bytes above 0, not {capacity!r}")
        if self.partition not in get_args(Partition):
            ways = " or ".join(map(repr, get_args(Partition)))
            raise DeliveryError(f"topic {name!r}: partition is {ways}, not {self.partition!r}")

    def entry(self, host: AttachmentHost, partitions: Sequence[object]) -> TopicInfo:
        """Return a catalog entry for a new life of this topic, with the addresses of its publishers."""
        declared = None if self.schema is None else self.schema.declared
        return TopicInfo(
            self.topic, host.job, self.domain, tuple(partitions), uuid.uuid4().hex, declared, self.delivery
        )

    @property
    def delivery(self) -> Delivery:
        """What subscribers can rely on."""
        return "best_effort" if self.log is None else "exactly_once"

    @property
    def needs_same_batches(self) -> bool:
        """Whether what a worker sends again after a restart has to be the same: a log knows it by its place."""
        return self.log is not None

    def partitions(self, host: AttachmentHost) -> int:
        """Return how many partitions the topic has."""
        return host.workers if self.partition == "worker" else 1

    def handles(
        self, host: AttachmentHost, connections: Sequence[PublisherConnection]
    ) -> Sequence[PublisherConnection]:
        """Return a connection for each worker, from one for each partition."""
        idle = range(len(connections), host.workers)
        return [*connections, *(IdleConnection(self.topic, worker) for worker in idle)]
