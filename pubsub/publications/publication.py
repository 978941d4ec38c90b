"""A topic as an attachment of a dataflow: its description, and its publishers in a local job."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, get_args

from tidewheel.display.checked_name import MOST_CHARACTERS, check_name
from tidewheel.host.attachment import AttachmentHost, RunningTopic
from tidewheel.progress import IntegerDomain, Time, TimeDomain
from tidewheel.pubsub.catalog.catalog import RESERVED, TopicInfo
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_options import Delivery
from tidewheel.pubsub.messages.topic_schema import TopicSchema
from tidewheel.pubsub.protocol.publisher import DEFAULT_CAPACITY_BYTES
from tidewheel.pubsub.publishers.topic_log import TopicLog, identity_of

if TYPE_CHECKING:
    from tidewheel.pubsub.publishers.connection import PublisherConnection
    from tidewheel.pubsub.publishers.publisher_actor import MakeDelivery

STOPPED_EARLY: Final = "the job was stopped before the topic ended"

Partition: TypeAlias = Literal["worker", "merged"]
"""The partitions of a topic: one for each worker, or one at worker 0 with the records of all workers."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The description of a topic, attached to a dataflow; picklable.

    Args:
        capacity_bytes: how many bytes each partition keeps for one subscriber, which is disconnected if it needs more.
        partition: whether each worker publishes a partition, or only worker 0.
        log: the log for exactly-once delivery, which keeps messages until all subscriptions have them; None for best
            effort.
        ends: whether subscribers receive the ends of substreams.
        awaited: the number of subscribers for which each partition waits before it publishes.

    Raises:
        DeliveryError: an argument is wrong, or does not fit a topic with history.
    """

    topic: str
    domain: TimeDomain
    capacity_bytes: int = DEFAULT_CAPACITY_BYTES
    partition: Partition = "worker"
    schema: TopicSchema | None = None
    log: TopicLog | None = None
    ends: bool = False
    awaited: int = 0
    has_history: bool = False

    may_be_reserved: ClassVar[bool] = False

    def __post_init__(self) -> None:
        name = self.topic
        check_name("a topic", name, DeliveryError, 2 * MOST_CHARACTERS if self.may_be_reserved else MOST_CHARACTERS)
        if name.startswith(RESERVED) and not self.may_be_reserved:
            raise DeliveryError(f"topic {name!r}: names that begin with {RESERVED!r} are reserved: take another one")
        capacity: object = self.capacity_bytes
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity <= 0:
            raise DeliveryError(f"topic {name!r}: the capacity is a whole number of bytes above 0, not {capacity!r}")
        if self.has_history and (self.ends or not isinstance(self.domain, IntegerDomain)):
            raise DeliveryError(
                f"topic {name!r}: history=True needs epochs that are whole numbers, and no ends=True: publish what "
                "leaves the loop, and leave ends= out"
            )
        if self.partition not in get_args(Partition):
            ways = " or ".join(map(repr, get_args(Partition)))
            raise DeliveryError(f"topic {name!r}: partition is {ways}, not {self.partition!r}")

    def entry(self, host: AttachmentHost, partitions: Sequence[object]) -> TopicInfo:
        declared = None if self.schema is None else self.schema.declared
        delivery: Delivery = "best_effort" if self.log is None else "exactly_once"
        goes_back = host.engine == "ray" and (host.keeps_snapshots or self.log is not None)
        life = uuid.uuid4().hex
        described = self.topic, host.job, self.domain, tuple(partitions)
        return TopicInfo(*described, life, declared, delivery, goes_back, self.has_history)

    def partitions(self, host: AttachmentHost) -> int:
        """Return the number of partitions, unless existing logs have another number."""
        return host.workers if self.partition == "worker" else 1

    def handles(
        self, host: AttachmentHost, connections: "Sequence[PublisherConnection]"
    ) -> "Sequence[PublisherConnection]":
        """Return a connection for each worker, given a connection for each partition."""
        from tidewheel.pubsub.publishers.connection import PublisherConnection, RayConnection
        from tidewheel.pubsub.publishers.fed_partitions import FedPartitions
        from tidewheel.pubsub.publishers.feeding import feeder_of

        partitions, workers = len(connections), range(host.workers)
        idle = [PublisherConnection(self.topic, worker % partitions) for worker in workers[partitions:]]
        if self.log is None:
            return [*connections, *idle]
        fed: list[list[RayConnection]] = [[] for _ in workers]
        for one in connections:
            assert isinstance(one, RayConnection), "only topics of jobs on Ray have logs"
            fed[feeder_of(one.partition, host.workers)].append(one)
        return [*(FedPartitions(self.topic, self.domain, own) for own in fed if own), *idle]

    def maker(self, number: int, partitions: int, node: str, *, is_remembered: bool) -> "MakeDelivery":
        """Return a function that makes the delivery of a partition, in its publisher's process on ``node``."""
        from tidewheel.pubsub.publishers.durable_delivery import DurableDelivery
        from tidewheel.pubsub.publishers.live_delivery import LiveDelivery

        log, domain, name = self.log, self.domain, f"{self.topic!r}[{number}]"
        if log is None:
            live = partial(LiveDelivery, name, domain, self.capacity_bytes, self.awaited, number=number, node=node)
            return partial(live, is_remembered=is_remembered, has_history=self.has_history)
        identity = identity_of(self.topic, number, partitions, domain)
        place = log.of_partition(self.topic, number)
        durable = partial(DurableDelivery, place, identity, domain, node, self.awaited, retention_s=log.retention_s)
        return partial(durable, has_history=self.has_history)

    def start(self, host: AttachmentHost) -> "RunningPublication":
        """Start a publisher for each partition, and register the topic.

        Raises:
            DeliveryError: a running job publishes a topic with this name, or the log cannot be opened.
        """
        if host.engine == "local" and self.log is not None:
            raise DeliveryError(
                f"topic {self.topic!r}: a log needs publishers in processes of their own: "
                "run the job with engine='ray', or publish it best effort",
                topic=self.topic,
            )
        if host.engine == "local":
            from tidewheel.pubsub.publications.local_publication import LocalPublication

            return LocalPublication(self, host)
        from tidewheel.pubsub.publications.ray_publication import RayPublication

        return RayPublication(self, host)


class RunningPublication(RunningTopic):
    """A topic of a running job, with one connection for each worker."""

    handles: "Sequence[PublisherConnection]"

    def __init__(self, topic: str) -> None:
        self._topic = topic

    @property
    def pending(self) -> Sequence[Any]:
        """The pending calls whose answers `check` reads."""
        return ()

    @property
    def has_ended(self) -> bool:
        """True if the job need not wait: the end of the topic is final, or partitions end by themselves."""
        return True

    def check(self) -> None:
        """Raise PublisherLost if a publisher has died; never wait."""

    def go_back(self, nodes: Sequence[str]) -> None:
        """Prepare for a return to a snapshot, with workers on these nodes.

        Raises:
            PublisherLost: a dead publisher is not restarted, or its worker is now on another node.
        """

    @property
    def problem(self) -> str | None:
        """The reason why the topic cannot be found now, or publishes nothing; None if there is no problem."""
        return None

    def wait_until(self, time: Time, timeout_s: float) -> None:
        """Wait until every time before ``time`` is durable at every partition: no death of a process can lose it.

        Raises:
            TimeoutError: the times were not durable within ``timeout_s`` seconds.
            DeliveryError: the topic has no log.
        """
        raise DeliveryError(
            f"topic {self._topic!r} keeps nothing, so there is no waiting until {time!r} is durable: publish it with "
            "log=tw.Log(place)",
            topic=self._topic,
        )

    def _too_few(self, count: int, connected: Sequence[int], timeout_s: float) -> DeliveryError:
        return DeliveryError(
            f"topic {self._topic!r}: waited {timeout_s:g} s for {count} subscribers, and there are {list(connected)} "
            "at its partitions",
            topic=self._topic,
        )
