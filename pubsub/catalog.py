"""Who publishes what: the topics of one cluster, or of one process. No I/O.

A topic's name belongs to the job that registered it until that job retracts it or is found dead. Whether it lives is
for the shell to find out, which takes a while; so the answer names the very registration that it is about.
"""

from dataclasses import dataclass
from typing import Any

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.errors import DeliveryError


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic.

    Args:
        name: what subscribers ask for.
        job: the name of the job that publishes it.
        domain: the order of its times.
        partitions: the address of each partition's publisher, which the catalog does not look into.
        registration: tells this life of the topic from others of that name; unique.
    """

    name: str
    job: str
    domain: TimeDomain
    partitions: tuple[Any, ...]
    registration: str


class Catalog:
    """The topics that exist.

    >>> from tidewheel.progress import IntegerDomain
    >>> catalog = Catalog()
    >>> catalog.register(TopicInfo("ranks", "job", IntegerDomain(), (), "first"))
    >>> catalog.names()
    ['ranks']
    """

    def __init__(self) -> None:
        self._topics: dict[str, TopicInfo] = {}

    def register(self, info: TopicInfo, dead: TopicInfo | None = None) -> None:
        """Add a topic.

        Args:
            info: the topic.
            dead: the present holder of the name, if it was found dead; it makes room.

        Raises:
            DeliveryError: the name is taken.
        """
        holder = self._topics.get(info.name)
        if holder is not None and (dead is None or holder.registration != dead.registration):
            raise DeliveryError(
                f"topic {info.name!r} is published by job {holder.job!r} already: "
                f"stop that job, or publish under another name",
                topic=info.name,
            )
        self._topics[info.name] = info

    def retract(self, topic: str, registration: str) -> bool:
        """Remove a topic, unless its name belongs to another registration by now; tell whether it was removed."""
        holder = self._topics.get(topic)
        if holder is None or holder.registration != registration:
            return False
        del self._topics[topic]
        return True

    def lookup(self, topic: str) -> TopicInfo | None:
        """Return a topic, None if nobody publishes it."""
        return self._topics.get(topic)

    def topics(self) -> list[TopicInfo]:
        """Return all topics, by name."""
        return [self._topics[name] for name in sorted(self._topics)]

    def names(self) -> list[str]:
        """Return the names of all topics, in order."""
        return sorted(self._topics)
