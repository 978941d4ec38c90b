"""Who publishes what: the topics of one cluster, or of one process. No I/O.

A topic's name belongs to the job that registered it until that job retracts it or is found dead. Whether it lives is
for the shell to find out, which takes a while; so the answer names the very registration that it is about.

Every change has a number, one more than that before it, and is returned as an event, for whoever watches.
"""

from dataclasses import dataclass
from typing import Any, Literal

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.catalog.topic_event import Delivery, TopicEvent
from tidewheel.pubsub.catalog.topic_schema import DeclaredSchema
from tidewheel.pubsub.errors import DeliveryError

ANYTHING = DeclaredSchema("any")
"""What a topic has of which nobody has said."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic.

    Args:
        name: what subscribers ask for.
        job: the name of the job that publishes it.
        domain: the order of its times.
        partitions: the address of each partition's publisher, which the catalog does not look into.
        registration: tells this life of the topic from others of that name; unique.
        schema: what its records are said to be; None if nothing is said.
        delivery: what those who subscribe can count on.
    """

    name: str
    job: str
    domain: TimeDomain
    partitions: tuple[Any, ...]
    registration: str
    schema: DeclaredSchema | None = None
    delivery: Delivery = "best_effort"


class Catalog:
    """The topics that exist.

    >>> from tidewheel.progress import IntegerDomain
    >>> catalog = Catalog()
    >>> [event.version for event in catalog.register(TopicInfo("ranks", "job", IntegerDomain(), (), "first"))]
    [1]
    >>> catalog.names()
    ['ranks']
    """

    def __init__(self) -> None:
        self._topics: dict[str, TopicInfo] = {}
        self._published: dict[str, TopicEvent] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """How often the topics have changed."""
        return self._version

    def register(self, info: TopicInfo, dead: TopicInfo | None = None, reason: str = "it is dead") -> list[TopicEvent]:
        """Add a topic; return what has changed, which is nothing if it was registered before.

        Args:
            info: the topic.
            dead: the present holder of the name, if it was found dead; it makes room.
            reason: what is said of that one.

        Raises:
            DeliveryError: the name is taken.
        """
        holder = self._topics.get(info.name)
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
        """Remove a topic, unless its name belongs to another registration by now; return what has changed."""
        if not self.has(topic, registration):
            return []
        info = self._topics.pop(topic)
        del self._published[topic]
        return [self._event("retracted", info, reason)]

    def _add(self, info: TopicInfo) -> TopicEvent:
        self._topics[info.name] = info
        event = self._published[info.name] = self._event("published", info, "")
        return event

    def _event(self, event: Literal["published", "retracted"], info: TopicInfo, reason: str) -> TopicEvent:
        self._version += 1
        return TopicEvent(
            event,
            info.name,
            info.job,
            len(info.partitions),
            repr(info.domain),
            (info.schema or ANYTHING).text,
            reason,
            self._version,
            info.registration,
            info.delivery,
        )

    def has(self, topic: str, registration: str) -> bool:
        """Tell whether a topic belongs to a registration."""
        holder = self._topics.get(topic)
        return holder is not None and holder.registration == registration

    def lookup(self, topic: str) -> TopicInfo | None:
        """Return a topic, None if nobody publishes it."""
        return self._topics.get(topic)

    def topics(self) -> list[TopicInfo]:
        """Return all topics, by name."""
        return [self._topics[name] for name in sorted(self._topics)]

    def published(self) -> tuple[TopicEvent, ...]:
        """Return the events with which the topics came that exist, by name."""
        return tuple(self._published[name] for name in sorted(self._published))

    def names(self) -> list[str]:
        """Return the names of all topics, in order."""
        return sorted(self._topics)
