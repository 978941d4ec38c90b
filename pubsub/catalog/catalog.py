"""The catalog: the topics of one cluster, or of one process, with the job that publishes each. No I/O.

A topic's name belongs to the job that registered it, until the job retracts the topic or is found dead. The caller
finds out whether a job is dead. That takes a while, so its answer names the registration that it asked about.

Every change has a number, one more than the previous change, and is returned as an event for those who watch.
"""

from dataclasses import dataclass
from typing import Any, Literal

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.catalog.topic_event import Delivery, TopicEvent
from tidewheel.pubsub.catalog.topic_schema import DeclaredSchema
from tidewheel.pubsub.errors import DeliveryError


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic.

    Args:
        name: the name that subscribers use.
        job: the name of the job that publishes it.
        domain: the domain of its times.
        partitions: the address of each partition's publisher; the catalog does not use it.
        registration: the unique id of this life of the topic.
        schema: the declared schema of its records; None if the publisher declares none.
        delivery: the guarantee to subscribers.
    """

    name: str
    job: str
    domain: TimeDomain
    partitions: tuple[Any, ...]
    registration: str
    schema: DeclaredSchema | None = None
    delivery: Delivery = "best_effort"

    @property
    def schema_text(self) -> str:
        """The schema as text, ``any`` if the publisher declares none."""
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
        self._topics: dict[str, TopicInfo] = {}
        self._published: dict[str, TopicEvent] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """The number of changes so far."""
        return self._version

    def register(self, info: TopicInfo, dead: TopicInfo | None = None, reason: str = "it is dead") -> list[TopicEvent]:
        """Add a topic and return the changes; none if this registration is already there.

        Args:
            info: the topic.
            dead: the present holder of the name, if it was found dead; it is retracted.
            reason: the reason of that retraction.

        Raises:
            DeliveryError: another job holds the name.
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
        """Remove a topic if it still belongs to the registration; return the changes."""
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
            info.schema_text,
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
        """Return a topic, None if no job publishes it."""
        return self._topics.get(topic)

    def topics(self) -> list[TopicInfo]:
        """Return all topics, by name."""
        return [self._topics[name] for name in sorted(self._topics)]

    def published(self) -> tuple[TopicEvent, ...]:
        """Return the events that published the present topics, by name."""
        return tuple(self._published[name] for name in sorted(self._published))
