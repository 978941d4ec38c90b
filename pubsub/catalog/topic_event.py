"""The changes of a catalog, published on the topic ``tidewheel/catalog``, one change an epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tidewheel.pubsub.catalog.topic_schema import DeclaredSchema, topic_schema
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.wire import FeedEvent, LowerFrontierUpdate

RESERVED: Final = "tidewheel/"
"""The prefix of the names that no job may publish."""
CATALOG_TOPIC: Final = f"{RESERVED}catalog"
"""The topic on which a catalog publishes its changes."""
ENDED: Final = "its job has ended"
"""The reason of a retraction, unless there is another."""

Delivery: TypeAlias = Literal["best_effort", "exactly_once"]
"""The guarantee of a topic; with ``"best_effort"``, subscribers receive what comes while they are connected."""


@dataclass(frozen=True, slots=True)
class TopicEvent:
    """A topic was published or retracted.

    Attributes:
        event: which of the two.
        topic: its name.
        job: the name of the job that publishes it.
        partitions: the number of its partitions.
        times: the domain of its times, such as ``IntegerDomain()``.
        schema: the schema of its records, such as ``int``; ``any`` if the publisher declares none.
        reason: the reason of a retraction, else empty.
        version: the number of this change of the catalog: the time of the event.
        registration: the id of this life of the topic.
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
    """The topics that a catalog has at one moment.

    Args:
        incarnation: the id of this catalog among those before and after it.
        version: the number of its changes so far.
        published: the events that published the topics, by name.
    """

    incarnation: str
    version: int
    published: tuple[TopicEvent, ...]


def messages(events: Sequence[TopicEvent]) -> list[FeedEvent]:
    """Return the messages with which the topic's publisher publishes successive events, each an epoch."""
    told: list[FeedEvent] = []
    for event in events:
        told.append(encode_batch(event.version, [event]))
        told.append(LowerFrontierUpdate([(event.version, -1), (event.version + 1, 1)]))
    return told


def start_at(version: int) -> list[FeedEvent]:
    """Return the first message for a publisher of the topic, at a version of the catalog."""
    return [LowerFrontierUpdate([(0, -1), (version + 1, 1)])]


def declared_events() -> DeclaredSchema:
    """Return the schema of the topic."""
    return topic_schema(TopicEvent).declared()
