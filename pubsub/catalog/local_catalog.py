"""The topics of the jobs that run in this process, with ``engine="local"``."""

import threading
import uuid

from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import (
    ENDED,
    Catalog,
    Listing,
    TopicEvent,
    TopicInfo,
    messages,
    own_topic,
    start_at,
)
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.publishers.local_publisher import LocalPublisher


class LocalCatalog:
    """A thread-safe `Catalog` that publishes its changes on a topic; the name of a finished topic may be used again."""

    def __init__(self) -> None:
        self._catalog = Catalog()
        self._hidden: dict[str, TopicInfo] = {}
        self._lock = threading.Condition()
        self._publisher = LocalPublisher(Publisher(IntegerDomain()), threading.Condition(), None)
        self._publisher.feed(start_at(0))
        self.own_topic = own_topic(self._publisher, uuid.uuid4().hex)
        """The topic on which this catalog publishes its changes."""

    def register(self, info: TopicInfo) -> None:
        """Add a topic; raise DeliveryError if a running job publishes that name."""
        with self._lock:
            holder = self._catalog.lookup(info.name)
            dead = holder if holder is not None and _is_finished(holder) else None
            self._tell(self._catalog.register(info, dead, ENDED))
            self._lock.notify_all()

    def hide(self, info: TopicInfo) -> None:
        with self._lock:
            self._hidden[info.name] = info
            self._lock.notify_all()

    def hidden(self) -> list[str]:
        return sorted(self._hidden)

    def retract(self, topic: str, registration: str, reason: str = ENDED) -> bool:
        with self._lock:
            hidden = self._hidden.get(topic)
            if hidden is not None and hidden.registration == registration:
                del self._hidden[topic]
                return True
            return self._tell(self._catalog.retract(topic, registration, reason))

    def _tell(self, events: list[TopicEvent]) -> bool:
        self._publisher.feed(messages(events))
        return bool(events)

    def lookup(self, topic: str, timeout_s: float = 0.0) -> TopicInfo | None:
        with self._lock:
            return self._lock.wait_for(lambda: self._hidden.get(topic) or self._catalog.lookup(topic), timeout_s)

    def topics(self) -> list[TopicInfo]:
        with self._lock:
            return self._catalog.topics()

    def names(self) -> list[str]:
        return [info.name for info in self.topics()]

    def listing(self) -> Listing:
        with self._lock:
            return self._catalog.listing(self.own_topic.registration)


def _is_finished(info: TopicInfo) -> bool:
    publishers: tuple[LocalPublisher, ...] = info.partitions
    return all(publisher.publisher.is_finished for publisher in publishers)


LOCAL_CATALOG = LocalCatalog()
"""The catalog of this process."""
