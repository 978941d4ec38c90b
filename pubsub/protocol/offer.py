"""One message offered to the queues of many subscribers: each distinct condition is applied to it once."""

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_options import Where
from tidewheel.pubsub.messages.filters import part_of
from tidewheel.pubsub.messages.wire import DataMessage
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.protocol.posted import Posted


class Offer:
    """A message, offered to one queue after the other.

    Args:
        capacity_bytes: how much the publisher keeps for a subscriber, for the error of a disconnected subscriber.
    """

    __slots__ = ("_capacity_bytes", "_posted", "_wanted")

    def __init__(self, posted: Posted, capacity_bytes: int) -> None:
        self._posted = posted
        self._capacity_bytes = capacity_bytes
        self._wanted: dict[Where, Posted | DeliveryError | None] = {}

    def to(self, queue: OutgoingQueue) -> bool:
        """Offer a queue the part of the message that its subscriber wants.

        If there is no room, close it and return False.
        """
        message, where = self._posted.message, queue.where
        if queue.is_closed:
            return True
        if where is None or not isinstance(message, DataMessage):
            return self._put(queue, self._posted)
        if where not in self._wanted:
            self._wanted[where] = self._part(where, message)
        part = self._wanted[where]
        if isinstance(part, DeliveryError):
            queue.close(self._posted.number, str(part))
            return True
        return part is None or self._put(queue, part)

    def _part(self, where: Where, message: DataMessage) -> Posted | DeliveryError | None:
        try:
            part = part_of(where, self._posted.number, message)
        except DeliveryError as error:
            return error
        return None if part is None else Posted(self._posted.number, part)

    def _put(self, queue: OutgoingQueue, posted: Posted) -> bool:
        if not queue.offer(posted):
            reason = (
                f"it fell too far behind: {queue.bytes} bytes in {len(queue)} messages were waiting, and the publisher "
                f"keeps no more than {self._capacity_bytes} bytes. Read faster, or subscribe to less with where="
                f"{queue.advice}"
            )
            queue.close(posted.number, reason)
            return False
        return True
