"""The queue of a subscriber that holds back its publisher: the policy ``"block"``."""

from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.protocol.posted import Posted


class BlockingQueue(OutgoingQueue):
    """Accepts every message, and tells when it is full, so that the publisher offers no more messages.

    The queue is full from the moment when it exceeds its capacity until it uses at most half of it.

    Attributes:
        block_limit_s: how many seconds the queue may be full while the subscriber takes no messages.
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

    def close(self, number: int, reason: str) -> None:
        super().close(number, reason)
        self.is_full = False

    def is_overdue(self, now_s: float, taken: int) -> bool:
        """Tell whether this full queue has been full for too long while ``taken`` has not grown."""
        if taken != self._taken_at_last:
            self._taken_at_last, self.overdue_at_s = taken, now_s + self.block_limit_s
        return self.overdue_at_s <= now_s
