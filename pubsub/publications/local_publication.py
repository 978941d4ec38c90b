"""The publishers of a topic in the process of a local job."""

import threading
from dataclasses import asdict

from tidewheel.host.attachment import AttachmentHost
from tidewheel.pubsub.catalog.catalog import ENDED
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.publications.publication import STOPPED_EARLY, Publication, RunningPublication
from tidewheel.pubsub.publishers.local_publisher import LocalConnection, LocalPublisher


class LocalPublication(RunningPublication):
    """Publishers of a topic in this process, which exist until their subscribers have read everything."""

    def __init__(self, publication: Publication, host: AttachmentHost) -> None:
        super().__init__(publication.topic)
        self._changed = threading.Condition()
        self._publishers = [
            LocalPublisher(
                Publisher(
                    publication.domain,
                    publication.capacity_bytes,
                    publication.awaited,
                    has_begun=not host.keeps_snapshots,
                    has_history=publication.has_history,
                    partition=partition,
                ),
                self._changed,
                host.pump,
            )
            for partition in range(publication.partitions(host))
        ]
        self._info = publication.entry(host, self._publishers)
        remembered = publication.domain if host.keeps_snapshots else None
        LOCAL_CATALOG.register(self._info)
        self.handles = publication.handles(
            host,
            [
                LocalConnection(publication.topic, partition, publisher, remembered, publication.has_history)
                for partition, publisher in enumerate(self._publishers)
            ],
        )

    def wait_for_subscribers(self, count: int, timeout_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: min(self._connected(), default=count) >= count, timeout_s):
                raise self._too_few(count, self._connected(), timeout_s)

    def statistics(self) -> list[dict[str, int]]:
        with self._changed:
            return [asdict(publisher.publisher.statistics()) for publisher in self._publishers]

    def finish(self, error: str | None, timeout_s: float, *, on_purpose: bool = False) -> None:
        for publisher in self._publishers:
            publisher.fail(error or STOPPED_EARLY, on_purpose=on_purpose)
        LOCAL_CATALOG.retract(self._info.name, self._info.registration, error or ENDED)

    def _connected(self) -> list[int]:
        return [publisher.publisher.subscribers for publisher in self._publishers]
