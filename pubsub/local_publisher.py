"""The in-process shell around one `Publisher`: the same calls as the Ray actor, for threads of one process."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from tidewheel.pubsub.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.publisher import Publisher, PublisherStatistics
from tidewheel.pubsub.wire import FeedEvent, Numbered


@dataclass(frozen=True, slots=True)
class LocalPublisher:
    """One partition of a topic of a job that runs in this process.

    Args:
        publisher: the core; nobody else may touch it.
        changed: guards the cores of all partitions of the topic, and is notified when one of them changes.
        pump: runs the job one round in the calling thread and returns False if there was nothing to do; None if the job
            runs by itself.
    """

    publisher: Publisher
    changed: threading.Condition
    pump: Callable[[], bool] | None

    def feed(self, events: list[FeedEvent]) -> None:
        """Take events of the worker, in order; raises ProtocolError if they are impossible."""
        with self.changed:
            self.publisher.feed(events)
            self.changed.notify_all()

    def attach(self, subscriber: str, options: DeliveryOptions = EVERYTHING) -> None:
        """Connect a subscriber: from now on it misses nothing that it wants."""
        with self.changed:
            self.publisher.subscribe(subscriber, options)
            self.changed.notify_all()

    def take(self, subscriber: str) -> list[Numbered]:
        """Return and remove what is there for a subscriber; never waits."""
        with self.changed:
            return self.publisher.take(subscriber)

    def has_news(self, subscriber: str) -> bool:
        """Tell whether anything is there for a subscriber."""
        with self.changed:
            return self.publisher.has_news(subscriber)

    def detach(self, subscriber: str) -> None:
        """Forget a subscriber."""
        with self.changed:
            self.publisher.unsubscribe(subscriber)
            self.changed.notify_all()

    def fail(self, reason: str) -> None:
        """End the partition before its time, with ``reason`` for the subscribers."""
        with self.changed:
            self.publisher.fail(reason)
            self.changed.notify_all()

    @property
    def is_finished(self) -> bool:
        """Whether the partition has ended or failed."""
        with self.changed:
            return self.publisher.is_finished

    @property
    def subscribers(self) -> int:
        """How many subscribers are connected."""
        with self.changed:
            return self.publisher.subscribers

    def statistics(self) -> PublisherStatistics:
        """Return counts of what happened so far."""
        with self.changed:
            return self.publisher.statistics()
