"""What happens in a catalog, as it is told on the topic ``tidewheel/catalog``, one change an epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tidewheel.pubsub.catalog.topic_schema import DeclaredSchema, topic_schema
from tidewheel.pubsub.messages.payload import encode
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent, LowerFrontierUpdate

RESERVED: Final = "tidewheel/"
"""So begin the names of topics that no job may publish."""
CATALOG_TOPIC: Final = f"{RESERVED}catalog"
"""On this topic a catalog tells what changes."""

Delivery: TypeAlias = Literal["best_effort", "exactly_once"]
"""What those who subscribe to a topic can count on: ``"best_effort"`` is all that comes while they are there."""


@dataclass(frozen=True, slots=True)
class TopicEvent:
    """A topic came, or went.

    Attributes:
        event: which of them.
        topic: its name.
        job: the name of the job that publishes it.
        partitions: how many publishers it has.
        times: what its times are, such as ``IntegerDomain()``.
        schema: what its records are, such as ``int``, or ``any`` if nobody has said.
        reason: why it went; empty if it came.
        version: how often the catalog has changed, with this: the time of the event.
        registration: tells this life of the topic from others of that name.
        delivery: what those who subscribe can count on.
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
        incarnation: tells this catalog from others before and after it.
        version: how often it has changed.
        published: the events with which they came, by name.
    """

    incarnation: str
    version: int
    published: tuple[TopicEvent, ...]


def messages(events: Sequence[TopicEvent]) -> list[FeedEvent]:
    """Return what the publisher of the topic is to be told of events in a row: each is an epoch of its own."""
    told: list[FeedEvent] = []
    for event in events:
        encoded = encode([event])
        told.append(DataMessage(event.version, encoded.payload, encoded.encoding, encoded.records))
        told.append(LowerFrontierUpdate([(event.version, -1), (event.version + 1, 1)]))
    return told


def start_at(version: int) -> list[FeedEvent]:
    """Return what a publisher of the topic is to be told first, when the catalog has changed so often."""
    return [LowerFrontierUpdate([(0, -1), (version + 1, 1)])]


def declared_events() -> DeclaredSchema:
    """Return what the records of the topic are."""
    return topic_schema(TopicEvent).declared()
