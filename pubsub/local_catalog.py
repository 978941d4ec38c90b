"""The topics of the jobs that run in this process, with ``engine="local"``."""

import threading

from tidewheel.pubsub.catalog import Catalog, TopicInfo
from tidewheel.pubsub.local_publisher import LocalPublisher


class LocalCatalog:
    """A `Catalog` that threads share. A job whose publishers are all finished no longer owns its name."""

    def __init__(self) -> None:
        self._catalog = Catalog()
        self._lock = threading.Lock()

    def register(self, info: TopicInfo) -> None:
        """Add a topic.

        Raises:
            DeliveryError: a job that has not ended publishes a topic of that name.
        """
        with self._lock:
            holder = self._catalog.lookup(info.name)
            self._catalog.register(info, holder if holder is not None and _is_finished(holder) else None)

    def retract(self, topic: str, registration: str) -> bool:
        """Remove a topic if it is still that registration's; tell whether it was."""
        with self._lock:
            return self._catalog.retract(topic, registration)

    def lookup(self, topic: str) -> TopicInfo | None:
        """Return a topic, None if no job of this process publishes it."""
        with self._lock:
            return self._catalog.lookup(topic)

    def names(self) -> list[str]:
        """Return the names of all topics, in order."""
        with self._lock:
            return self._catalog.names()


def _is_finished(info: TopicInfo) -> bool:
    publishers: tuple[LocalPublisher, ...] = info.partitions
    return all(publisher.is_finished for publisher in publishers)


LOCAL_CATALOG = LocalCatalog()
"""The catalog of this process."""
