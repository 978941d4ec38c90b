"""The queues of a publisher's subscribers, some of which hold it back or are disconnected. No I/O."""

import sys
from collections.abc import Callable

from tidewheel.pubsub.messages.delivery_messages import Downstream
from tidewheel.pubsub.messages.wire import Rejected
from tidewheel.pubsub.protocol.blocking_queue import BlockingQueue
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue

_UNKNOWN = "it is not subscribed, or was given up because it did not ask for messages for too long"


class SubscriberQueues:
    """The subscribers of one partition, at its publisher.

    Attributes:
        queues: the queue of each subscriber by name, including disconnected subscribers.
    """

    def __init__(self, capacity_bytes: int, partition: int = 0) -> None:
        self.capacity_bytes = capacity_bytes
        self._partition = partition
        self.queues: dict[str, OutgoingQueue] = {}
        self._blocking: dict[str, BlockingQueue] = {}
        self._sequence = 0
        self._overflows = 0
        self._epochs_dropped = 0

    def unsubscribe(self, subscriber: str) -> None:
        queue = self.queues.pop(subscriber, None)
        if queue is not None:
            self._epochs_dropped += queue.epochs_dropped
        self._blocking.pop(subscriber, None)

    def holders(self) -> list[str]:
        if not self._blocking:
            return []
        return [name for name, queue in self._blocking.items() if queue.is_full]

    def cut_off_late(self, now_s: float, taken: Callable[[str], int]) -> bool:
        """Disconnect subscribers that have held this publisher back for too long without taking messages.

        Return whether there were any. ``taken`` returns a number that grows when a subscriber takes messages.
        """
        late = [name for name in self.holders() if self._blocking[name].is_overdue(now_s, taken(name))]
        for name in late:
            held = f"held back what is published for {self._blocking[name].block_limit_s:g} s without taking any of it"
            self.cut_off(name, f"it fell too far behind, and {held}")
        return bool(late)

    def overdue_in_s(self, now_s: float) -> float | None:
        """Return the seconds until `cut_off_late` must be called; None while no subscriber holds the publisher back."""
        holders = self.holders()
        return max(0.0, min(self._blocking[name].overdue_at_s for name in holders) - now_s) if holders else None

    def cut_off(self, subscriber: str, reason: str) -> None:
        """Drop a subscriber's queue; the subscriber receives only ``reason``."""
        queue = self.queues.get(subscriber)
        if queue is not None and not queue.is_closed:
            self._overflows += 1
            # The rejection has its own number, since the subscriber may acknowledge earlier messages after it.
            queue.close(self._sequence + 1, reason)

    def has_news(self, subscriber: str) -> bool:
        return subscriber not in self.queues or bool(self.queues[subscriber])

    def fetch(self, subscriber: str, acknowledged: int, max_bytes: int = sys.maxsize) -> list[Downstream]:
        """Remove the messages up to ``acknowledged``.

        Return the next ones: about ``max_bytes``, at least one message.
        """
        queue = self.queues.get(subscriber)
        if queue is None:
            return [Rejected(self._partition, _UNKNOWN)]
        queue.acknowledge(acknowledged)
        return queue.head(max_bytes)

    def take(self, subscriber: str) -> list[Downstream]:
        """Remove and return all messages for a subscriber, for a shell whose answers cannot be lost."""
        messages = self.fetch(subscriber, acknowledged=-1)
        queue = self.queues.get(subscriber)
        if queue is not None:
            queue.acknowledge(queue.last_sent)
        return messages

    def unread(self) -> list[str]:
        return [name for name, queue in self.queues.items() if queue and not queue.is_closed]

    @property
    def subscribers(self) -> int:
        return sum(not queue.is_closed for queue in self.queues.values())
