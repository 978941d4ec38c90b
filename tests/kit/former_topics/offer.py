"""One message on its way into the queues of subscribers: each condition is applied to it once."""

from tests.kit.former_topics.outgoing_queue import OutgoingQueue
from tests.kit.former_topics.posted import Disconnected, Posted
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_options import Where
from tidewheel.pubsub.messages.wire import DataMessage


class Offer:
    """A message that is offered to queues.

    Args:
        posted: the message.
        capacity_bytes: how much the publisher keeps for a subscriber, for the error of one that is cut off.
    """

    __slots__ = ("_capacity_bytes", "_posted", "_wanted")

    def __init__(self, posted: Posted, capacity_bytes: int) -> None:
        self._posted = posted
        self._capacity_bytes = capacity_bytes
        self._wanted: dict[Where, Posted | None] = {}

    def to(self, queue: OutgoingQueue) -> bool:
        """Offer a queue what its subscriber wants; return False if it has no room, so that it is closed."""
        message, where = self._posted.message, queue.where
        if queue.is_closed:
            return True
        if where is None or not isinstance(message, DataMessage):
            return self._put(queue, self._posted)
        if where not in self._wanted:
            self._wanted[where] = self._part(where, message)
        part = self._wanted[where]
        return part is None or self._put(queue, part)

    def _part(self, where: Where, message: DataMessage) -> Posted | None:
        """Return what a condition leaves of the message, if anything; or that it failed."""
        try:
            part = where.of(message)
        except DeliveryError as error:
            return Posted(self._posted.number, Disconnected(str(error)))
        return None if part is None else Posted(self._posted.number, part)

    def _put(self, queue: OutgoingQueue, posted: Posted) -> bool:
        if isinstance(posted.message, Disconnected):
            queue.close(posted)
        elif not queue.offer(posted):
            reason = (
                f"it fell too far behind: {queue.bytes} bytes in {len(queue)} messages were waiting, and the publisher "
                f"keeps no more than {self._capacity_bytes} bytes. Read faster, or subscribe to less with where="
                f"{queue.advice}"
            )
            queue.close(Posted(posted.number, Disconnected(reason)))
            return False
        return True
