"""Connections of workers to partitions with logs, without publishers: what they send waits in pipes."""

from collections import deque
from collections.abc import Callable, Sequence

from tidewheel.host.attachment import AttachmentHost
from tidewheel.progress import TimeDomain
from tidewheel.pubsub.messages.encoded_message import EncodedMessage
from tidewheel.pubsub.messages.wire import FIRST, FeedEvent, Generation
from tidewheel.pubsub.publications.publication import Publication
from tidewheel.pubsub.publishers.connection import PublisherConnection, RayConnection
from tidewheel.pubsub.publishers.sent_events import SavedEvents, SentEvents
from tidewheel.pubsub.publishers.topic_log import TopicLog


class Pipe:
    """The feed of one partition. Its other end takes from `pipe`, and confirms.

    Attributes:
        sent: what the worker keeps.
        pipe: what the publisher has not received.
        has_room_now: what the worker is told.
    """

    is_awaiting = False

    def __init__(self, sent: SentEvents) -> None:
        self.sent = sent
        self.pipe: deque[EncodedMessage] = deque(sent.messages())
        self.has_room_now = True
        self.finished = 0

    def send(self, events: list[FeedEvent]) -> None:
        self.pipe.extend(map(self.sent.add, events))

    @property
    def saved(self) -> SavedEvents:
        return self.sent.saved

    @property
    def is_waiting(self) -> bool:
        return bool(self.sent.waiting)

    def finish(self) -> None:
        """Do not wait: the test does the rest."""
        self.finished += 1

    def has_room(self) -> bool:
        return self.has_room_now

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        return 0.0 if self.has_room_now else None

    def close(self) -> None:
        """Nothing is open."""


class PipedConnection(RayConnection):
    """A connection to one partition, whose feed is a `Pipe`."""

    def __init__(self, domain: TimeDomain, partition: int, generation: Generation = FIRST) -> None:
        super().__init__("topic", partition, domain, None, True, is_remembered=True, generation=generation)

    def _new_feed(self, sent: SentEvents | None = None) -> "Pipe":  # type: ignore[override]
        self.feed = Pipe(sent or self._sent_events())
        return self.feed


def handles(domain: TimeDomain, workers: int, connections: Sequence[RayConnection]) -> Sequence[PublisherConnection]:
    """Return the connection of each worker."""
    publication = Publication("topic", domain, log=TopicLog("/nowhere"))
    return publication.handles(AttachmentHost("job", "ray", workers), connections)
