"""The queue of a subscriber that holds back its publisher: the policy ``"block"``."""

from tests.kit.former_topics.outgoing_queue import OutgoingQueue
from tests.kit.former_topics.posted import Posted
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions


class BlockingQueue(OutgoingQueue):
    """Takes everything, and says when it is full, so that no more is offered.

    It is full from when the capacity is exceeded until no more than half of it waits.

    Args:
        capacity_bytes, options, partition: as for `OutgoingQueue`.

    Attributes:
        block_limit_s: for how long the queue may be full while nothing is taken, in seconds.
        overdue_at_s: when that is over, as of the last `is_overdue`.
    """

    def __init__(self, capacity_bytes: int, options: DeliveryOptions, partition: int = 0) -> None:
        super().__init__(capacity_bytes, options, partition)
        self.block_limit_s = options.block_limit_s
        self.overdue_at_s = 0.0
        self._taken_at_last = -1

    def _has_room(self, size: int) -> bool:
        return True

    def _append(self, entry: Posted) -> None:
        super()._append(entry)
        if self.bytes > self._capacity_bytes:
            self.is_full = True

    def _forget(self, entry: Posted) -> None:
        super()._forget(entry)
        if self.is_full and self.bytes <= self._capacity_bytes // 2:
            self.is_full = False

    def close(self, reason: Posted) -> None:
        """Free everything, and hold back nothing."""
        super().close(reason)
        self.is_full = False

    def is_overdue(self, now_s: float, taken: int) -> bool:
        """Tell whether this queue, which is full, has been so for too long, and ``taken`` has not grown meanwhile."""
        if taken != self._taken_at_last:
            self._taken_at_last, self.overdue_at_s = taken, now_s + self.block_limit_s
        return self.overdue_at_s <= now_s
