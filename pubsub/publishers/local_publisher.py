"""The publisher of a partition within one process, as threads use it, and the connection of its worker."""

import threading
import time
from collections.abc import Callable

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import FeedEvent, Numbered
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.publishers.connection import MOST_GATHERED, PublisherConnection

_PART_GATHERED = 4


class LocalPublisher:
    """One partition of a topic of a job that runs in this process.

    Args:
        publisher: the core; nobody else may touch it.
        changed: guards the cores of all partitions of the topic, and is notified when one of them changes.
        pump: runs the job one round in the calling thread and returns False if there was nothing to do; None if the job
            runs by itself.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        publisher: Publisher,
        changed: threading.Condition,
        pump: Callable[[], bool] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.publisher = publisher
        self.changed = changed
        self.pump = pump
        self._clock = clock
        self._waiting: list[Callable[[], None]] = []

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
            messages = self.publisher.take(subscriber)
        self._let_go_on()
        return messages

    def has_news(self, subscriber: str) -> bool:
        """Tell whether anything is there for a subscriber."""
        with self.changed:
            return self.publisher.has_news(subscriber)

    def detach(self, subscriber: str) -> None:
        """Forget a subscriber."""
        with self.changed:
            self.publisher.unsubscribe(subscriber)
            self.changed.notify_all()
        self._let_go_on()

    def is_held(self) -> bool:
        """Tell whether a subscriber holds this publisher back; who has done so for too long is cut off."""
        with self.changed:
            if self.publisher.cut_off_late(self._clock(), lambda name: self.publisher.queues[name].taken):
                self.changed.notify_all()
            return bool(self.publisher.holders())

    def when_free(self, wake: Callable[[], None]) -> float | None:
        """Have ``wake`` called once no subscriber holds; return after how many seconds to ask in any case."""
        with self.changed:
            if not self.is_held():
                return 0.0
            if wake not in self._waiting:
                self._waiting.append(wake)
            return self.publisher.overdue_in_s(self._clock())

    def _let_go_on(self) -> None:
        with self.changed:
            waiting: list[Callable[[], None]] = []
            if not self.publisher.holders():
                waiting, self._waiting = self._waiting, waiting
        for wake in waiting:
            wake()

    def fail(self, reason: str) -> None:
        """End the partition before its time, with ``reason`` for the subscribers."""
        with self.changed:
            self.publisher.fail(reason)
            self.changed.notify_all()


class LocalConnection(PublisherConnection):
    """A connection to a publisher in this process."""

    def __init__(self, topic: str, partition: int, publisher: LocalPublisher) -> None:
        super().__init__(topic, partition)
        self._publisher = publisher
        self._most_gathered = min(MOST_GATHERED, publisher.publisher.capacity_bytes // _PART_GATHERED)

    def _send(self, events: list[FeedEvent]) -> None:
        try:
            self._publisher.feed(events)
        except ProtocolError as error:
            self._publisher.fail(str(error))
            raise self._refusal(error) from error

    def _has_room(self) -> bool:
        """Tell whether no subscriber holds the publisher back."""
        return not self._publisher.is_held()

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        """Have ``wake`` called when no subscriber holds the publisher back any more."""
        return self._publisher.when_free(wake)
