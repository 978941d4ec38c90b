"""The catalog: the topics of one cluster or process, each with its publishing job; no I/O.

A topic's name belongs to the job that has registered it, until the job retracts the topic or is found dead. Every
change is an event with the next number. The topic ``tidewheel/catalog`` publishes each event as an epoch of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tidewheel.progress import IntegerDomain, TimeDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_options import Delivery
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.topic_schema import DeclaredSchema, topic_schema
from tidewheel.pubsub.messages.wire import FeedEvent, LowerFrontierUpdate

RESERVED: Final = "tidewheel/"
"""The prefix of reserved names, which no job may publish."""
CATALOG_TOPIC: Final = f"{RESERVED}catalog"
"""The topic on which a catalog publishes its changes."""
TELEMETRY: Final = f"{RESERVED}telemetry/"
"""The prefix of the topics on which jobs describe themselves, before the job's name."""
ENDED: Final = "its job has ended"
"""The default reason of a retraction."""


@dataclass(frozen=True, slots=True)
class TopicEvent:
    """A topic was published or retracted.

    Attributes:
        event: ``"published"`` or ``"retracted"``.
        topic: its name.
        job: the name of its job.
        partitions: the number of its partitions.
        times: the domain of its times, such as ``IntegerDomain()``.
        schema: the schema of its records, such as ``int``; ``any`` if it declares none.
        reason: the reason of a retraction, else empty.
        version: the number of this change, which is the time of the event.
        registration: the id of the registration.
        delivery: the guarantee to subscribers.
    """

    event: Literal["published", "retracted"]
    topic: str
    job: str
    partitions: int
    times: str
    schema: str
    reason: str
    version: int
    registration: str
    delivery: Delivery = "best_effort"


@dataclass(frozen=True, slots=True)
class Listing:
    """The topics of a catalog at one moment: their events by name, the catalog's id, and its number of changes."""

    incarnation: str
    version: int
    published: tuple[TopicEvent, ...]


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic.

    Args:
        registration: the id of the registration.
        goes_back: whether its job may return to a snapshot, which makes batches of incomplete epochs void.
    """

    name: str
    job: str
    domain: TimeDomain
    partitions: tuple[Any, ...]
    registration: str
    schema: DeclaredSchema | None = None
    delivery: Delivery = "best_effort"
    goes_back: bool = False
    has_history: bool = False

    @property
    def schema_text(self) -> str:
        return "any" if self.schema is None else self.schema.text


class Catalog:
    """The topics that exist.

    >>> from tidewheel.progress import IntegerDomain
    >>> catalog = Catalog()
    >>> [event.version for event in catalog.register(TopicInfo("ranks", "job", IntegerDomain(), (), "first"))]
    [1]
    >>> [info.name for info in catalog.topics()]
    ['ranks']
    """

    def __init__(self) -> None:
        self._topics: dict[str, tuple[TopicInfo, TopicEvent]] = {}
        self.version = 0

    def register(self, info: TopicInfo, dead: TopicInfo | None = None, reason: str = "it is dead") -> list[TopicEvent]:
        """Add a topic and return the changes; there are none if the registration is known.

        Raises:
            DeliveryError: another job holds the name.
        """
        holder = self.lookup(info.name)
        if holder is None:
            return [self._add(info)]
        if holder.registration == info.registration:
            return []
        if dead is None or holder.registration != dead.registration:
            raise DeliveryError(
                f"topic {info.name!r} is published by job {holder.job!r} already: "
                f"stop that job, or publish under another name",
                topic=info.name,
            )
        return [*self.retract(holder.name, holder.registration, reason), self._add(info)]

    def retract(self, topic: str, registration: str, reason: str = "") -> list[TopicEvent]:
        """Remove a topic if it still belongs to the registration; return the changes."""
        if not self.has(topic, registration):
            return []
        info, _ = self._topics.pop(topic)
        return [self._event("retracted", info, reason)]

    def _add(self, info: TopicInfo) -> TopicEvent:
        event = self._event("published", info, "")
        self._topics[info.name] = (info, event)
        return event

    def _event(self, event: Literal["published", "retracted"], info: TopicInfo, reason: str) -> TopicEvent:
        self.version += 1
        return TopicEvent(
            event,
            info.name,
            info.job,
            len(info.partitions),
            repr(info.domain),
            info.schema_text,
            reason,
            self.version,
            info.registration,
            info.delivery,
        )

    def has(self, topic: str, registration: str) -> bool:
        holder = self.lookup(topic)
        return holder is not None and holder.registration == registration

    def lookup(self, topic: str) -> TopicInfo | None:
        return self._topics[topic][0] if topic in self._topics else None

    def topics(self) -> list[TopicInfo]:
        """Return all topics, by name."""
        return [self._topics[name][0] for name in sorted(self._topics)]

    def listing(self, incarnation: str) -> Listing:
        return Listing(incarnation, self.version, tuple(self._topics[name][1] for name in sorted(self._topics)))


def messages(events: Sequence[TopicEvent]) -> list[FeedEvent]:
    """Return the messages of the catalog's topic for successive events; each event is an epoch."""
    told: list[FeedEvent] = []
    for event in events:
        told.append(encode_batch(event.version, [event]))
        told.append(LowerFrontierUpdate([(event.version, -1), (event.version + 1, 1)]))
    return told


def start_at(version: int) -> list[FeedEvent]:
    """Return the first message of the catalog's topic, at a version of the catalog."""
    return [LowerFrontierUpdate([(0, -1), (version + 1, 1)])]


def own_topic(publisher: Any, incarnation: str) -> TopicInfo:
    declared = topic_schema(TopicEvent).declared
    return TopicInfo(CATALOG_TOPIC, "tidewheel", IntegerDomain(), (publisher,), incarnation, declared)
