"""A running publication of a job in this process."""

import threading
import time
from dataclasses import asdict

from tidewheel.pubsub.catalog.catalog import ENDED
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.publishers.connection import LocalConnection
from tidewheel.pubsub.publishers.local_publisher import LocalPublisher
from tidewheel.pubsub.publishers.running_publication import STOPPED_EARLY, RunningPublication
from tidewheel.pubsub.publishers.topic_description import TopicDescription
from tidewheel.transport.attachment import AttachmentHost


class LocalPublication(RunningPublication):
    """Publishers of a topic in this process. Subscribers hold them, so they outlive the job until they are read."""

    def __init__(self, publication: TopicDescription, host: AttachmentHost) -> None:
        super().__init__(publication.topic)
        self._changed = threading.Condition()
        self._publishers = [
            LocalPublisher(Publisher(publication.domain, publication.capacity_bytes), self._changed, host.pump)
            for _ in range(publication.partitions(host))
        ]
        self._info = publication.entry(host, self._publishers)
        LOCAL_CATALOG.register(self._info)
        self.handles = publication.handles(
            host,
            [
                LocalConnection(publication.topic, partition, publisher)
                for partition, publisher in enumerate(self._publishers)
            ],
        )

    def check(self) -> None:
        """Find nothing: the publishers live as long as this process."""

    def wait_for_subscribers(self, count: int, timeout: float) -> None:
        """Wait until ``count`` subscribers are connected to every partition, ``timeout`` seconds at most."""
        deadline_s = time.monotonic() + timeout
        with self._changed:
            while min(self._connected(), default=count) < count:
                if not self._changed.wait(deadline_s - time.monotonic()):
                    raise self._too_few(count, self._connected(), timeout)

    def statistics(self) -> list[dict[str, int]]:
        """Return what each partition has done."""
        return [asdict(publisher.statistics()) for publisher in self._publishers]

    def finish(self, error: str | None, timeout: float) -> None:
        """End the topic and retract it. Does not wait: what subscribers have not read yet stays with them."""
        for publisher in self._publishers:
            publisher.fail(error or STOPPED_EARLY)
        LOCAL_CATALOG.retract(self._info.name, self._info.registration, error or ENDED)

    def _connected(self) -> list[int]:
        return [publisher.subscribers for publisher in self._publishers]
