"""The messages that one subscriber has not yet acknowledged, bounded in bytes."""

from collections import deque
from collections.abc import Callable
from typing import ClassVar

from tidewheel.progress import Time
from tidewheel.pubsub.messages.delivery_messages import Downstream
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import Rejected
from tidewheel.pubsub.protocol.posted import Posted


class OutgoingQueue:
    """Keeps messages until they are acknowledged, so that a lost reply loses nothing.

    Policy ``"disconnect"``: the queue refuses a message that does not fit, and the publisher disconnects the
    subscriber. `slow_policies` has the queues of the other policies. An empty queue accepts a message of any size.

    Attributes:
        advice: the advice for a disconnected subscriber.
        is_full: whether the publisher should offer no more messages now.
        is_closed: whether the subscriber was disconnected.
        last_sent: the number of the last message that `head` has returned; -1 before the first.
        taken: how many messages have been acknowledged.
    """

    advice: ClassVar[str] = ', or with slow="drop_epochs" or slow="block"'

    def __init__(self, capacity_bytes: int, options: DeliveryOptions = EVERYTHING, partition: int = 0) -> None:
        self._capacity_bytes = capacity_bytes
        self._partition = partition
        self.where = options.where
        self.is_full = self.is_closed = False
        self._sent: deque[Posted] = deque()
        self._pending: deque[Posted] = deque()
        self.bytes = 0
        self.last_sent = -1
        self.epochs_dropped = self.taken = 0

    def offer(self, posted: Posted) -> bool:
        """Append a message; return False if there is no room for it.

        Complexity: O(1), unless a policy makes room.
        """
        if not posted.size or not len(self) or self._has_room(posted.size):
            self._append(posted)
            return True
        return self._make_room_for(posted)

    def _has_room(self, size: int) -> bool:
        return self.bytes + size <= self._capacity_bytes

    def _make_room_for(self, posted: Posted) -> bool:
        """Append a message that does not fit, if the policy can make room; return False if it cannot."""
        return False

    def _append(self, entry: Posted) -> None:
        self._pending.append(entry)
        self.bytes += entry.size

    def _forget(self, entry: Posted) -> None:
        self.bytes -= entry.size

    def prune(self, is_live: Callable[[Time], bool]) -> None: ...

    def close(self, number: int, reason: str) -> None:
        """Drop all messages; the subscriber then receives only ``reason``, as message ``number``."""
        self._sent.clear()
        self._pending.clear()
        self.bytes = 0
        self._append(Posted(number, Rejected(self._partition, reason)))
        self.is_closed = True

    def acknowledge(self, sequence: int) -> None:
        """Forget the messages up to number ``sequence``, which the subscriber has received.

        Complexity: O(forgotten messages).
        """
        while self._pending and self._pending[0].number <= sequence:
            self._leave()
        while self._sent and self._sent[0].number <= sequence:
            self._forget(self._sent.popleft())
            self.taken += 1

    def head(self, max_bytes: int) -> list[Downstream]:
        """Return the oldest messages without removing them: up to ``max_bytes``, but at least one if there is one.

        After this, epochs of returned messages can no longer be dropped.
        """
        return [entry.told(self._partition) for entry in self.oldest(max_bytes)]

    def oldest(self, max_bytes: int) -> list[Posted]:
        found: list[Posted] = []
        taken = 0
        for entry in self._sent:
            taken += entry.size
            if found and taken > max_bytes:
                return found
            found.append(entry)
        while self._pending:
            taken += self._pending[0].size
            if found and taken > max_bytes:
                break
            found.append(self._leave())
        return found

    def _leave(self) -> Posted:
        entry = self._pending.popleft()
        skipped = entry.number - self.last_sent - 1
        if skipped and self.last_sent >= 0:
            entry = entry.after(skipped)
        self.last_sent = entry.number
        self._sent.append(entry)
        return entry

    def __len__(self) -> int:
        return len(self._sent) + len(self._pending)
