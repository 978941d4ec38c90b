"""The publisher of one partition in the process of a local job, and the connection of its worker."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic

from tidewheel.progress import ProtocolError, TimeDomain
from tidewheel.pubsub.messages.delivery_messages import Downstream
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import FeedEvent, WorkerPosition
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.publishers.connection import AWAITED_AGAIN_S, AWAITED_S, PublisherConnection, Saved, log_awaited
from tidewheel.pubsub.publishers.sent_events import SavedEvents, SentEvents

_PART_GATHERED = 4


@dataclass(eq=False)
class LocalPublisher:
    """One partition of a topic of a job in this process.

    Args:
        changed: guards all partitions of the topic, and is notified when one changes.
        pump: runs one round of the job in the calling thread, and returns False if there was nothing to do; None for a
            job that runs by itself.
    """

    publisher: Publisher
    changed: threading.Condition
    pump: Callable[[], bool] | None
    clock: Callable[[], float] = monotonic
    _waiting: list[Callable[[], None]] = field(default_factory=list)

    def begin(self, position: WorkerPosition) -> None:
        with self.changed:
            self.publisher.begin(position)
            self.changed.notify_all()

    def feed(self, events: list[FeedEvent]) -> None:
        with self.changed:
            self.publisher.feed(events)
            self.changed.notify_all()

    def attach(self, subscriber: str, options: DeliveryOptions = EVERYTHING) -> None:
        with self.changed:
            self.publisher.subscribe(subscriber, options)
            self.changed.notify_all()
        self._let_go_on()

    def take(self, subscriber: str) -> list[Downstream]:
        """Remove and return the messages for a subscriber, without waiting."""
        with self.changed:
            messages = self.publisher.take(subscriber)
        self._let_go_on()
        return messages

    def has_news(self, subscriber: str) -> bool:
        with self.changed:
            return self.publisher.has_news(subscriber)

    def detach(self, subscriber: str) -> None:
        with self.changed:
            self.publisher.unsubscribe(subscriber)
            self.changed.notify_all()
        self._let_go_on()

    def is_held(self) -> bool:
        """Tell whether a subscriber holds this publisher back or is awaited.

        Disconnect subscribers that hold it back for too long.
        """
        with self.changed:
            if self.publisher.cut_off_late(self.clock(), lambda name: self.publisher.queues[name].taken):
                self.changed.notify_all()
            return self.publisher.is_held

    def when_free(self, wake: Callable[[], None]) -> float | None:
        """Call ``wake`` once no subscriber holds the publisher back.

        Return the seconds after which to check again, in case ``wake`` is not called.
        """
        with self.changed:
            if not self.is_held():
                return 0.0
            if wake not in self._waiting:
                self._waiting.append(wake)
            return self.publisher.overdue_in_s(self.clock())

    def _let_go_on(self) -> None:
        with self.changed:
            waiting: list[Callable[[], None]] = []
            if not self.publisher.is_held:
                waiting, self._waiting = self._waiting, waiting
        for wake in waiting:
            wake()

    def fail(self, reason: str, *, on_purpose: bool = False) -> None:
        with self.changed:
            self.publisher.fail(reason, on_purpose=on_purpose)
            self.changed.notify_all()


class LocalConnection(PublisherConnection):
    """A connection to a publisher in this process.

    ``remembered`` has the times of the topic if its job keeps snapshots.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        publisher: LocalPublisher,
        remembered: TimeDomain | None = None,
        has_history: bool = False,
    ) -> None:
        super().__init__(topic, partition)
        self._publisher = publisher
        self._remembered = remembered
        self._has_history = has_history
        self._sent: SentEvents | None = None
        self._log_at_s = monotonic() + AWAITED_S
        self._most_gathered = min(self._most_gathered, publisher.publisher.capacity_bytes // _PART_GATHERED)

    def go_on(self, saved: Saved | None) -> None:
        """Begin to send at a snapshot's position, with the next flush.

        It also sends the events in a snapshot from Ray.
        """
        assert not isinstance(saved, Mapping), "topics of local jobs have no logs"
        if self._remembered is not None:
            before = saved and SavedEvents(saved.position, ())
            self._sent = SentEvents(self._remembered, before, has_history=self._has_history)
            self._events = [] if saved is None else list(saved.kept)
            self._publisher.begin(self._sent.position)

    def saved(self) -> SavedEvents | None:
        """Return the worker's position; the publisher already has all flushed events."""
        if self._sent is None:
            return None
        saved = self._sent.saved
        return SavedEvents(saved.position, [*saved.kept, *self._events])

    def flush(self) -> None:
        """Send everything since the last flush; nothing while the first subscribers are awaited."""
        if not self.is_awaiting:
            super().flush()

    def _send(self, events: list[FeedEvent]) -> None:
        if self._sent is not None:
            for event in events:
                self._sent.add(event)
            self._sent.durable(len(events))
        try:
            self._publisher.feed(events)
        except ProtocolError as error:
            self._publisher.fail(str(error))
            raise self._refusal(error) from error

    def _has_room(self) -> bool:
        return not self._publisher.is_held()

    @property
    def is_awaiting(self) -> bool:
        return self._publisher.publisher.awaited > 0

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        again_s = self._publisher.when_free(wake)
        if not self.is_awaiting:
            return again_s
        now_s = monotonic()
        if now_s >= self._log_at_s:
            log_awaited(self._topic, self._publisher.publisher.awaited)
            self._log_at_s = now_s + AWAITED_AGAIN_S
        return self._log_at_s - now_s
