"""One message on its way into the queues of subscribers: each condition is applied to it once."""

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_options import Where
from tidewheel.pubsub.messages.wire import DataMessage, Disconnected, Numbered
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue, size_of


class Offer:
    """A message that is offered to queues.

    Args:
        numbered: the message.
        capacity_bytes: how much the publisher keeps for a subscriber, for the error of one that is cut off.
    """

    __slots__ = ("_capacity_bytes", "_numbered", "_size", "_wanted")

    def __init__(self, numbered: Numbered, capacity_bytes: int) -> None:
        self._numbered = numbered
        self._size = size_of(numbered.message)
        self._capacity_bytes = capacity_bytes
        self._wanted: dict[Where, Numbered | None] = {}

    def to(self, queue: OutgoingQueue) -> bool:
        """Offer a queue what its subscriber wants; return False if it has no room, so that it is closed."""
        message, where = self._numbered.message, queue.where
        if queue.is_closed:
            return True
        if where is None or not isinstance(message, DataMessage):
            return self._put(queue, self._numbered, self._size)
        if where not in self._wanted:
            self._wanted[where] = self._part(where, message)
        part = self._wanted[where]
        return part is None or self._put(queue, part, size_of(part.message))

    def _part(self, where: Where, message: DataMessage) -> Numbered | None:
        """Return what a condition leaves of the message, if anything; or that it failed."""
        try:
            part = where.of(message)
        except DeliveryError as error:
            return Numbered(self._numbered.sequence, Disconnected(str(error)))
        return None if part is None else Numbered(self._numbered.sequence, part)

    def _put(self, queue: OutgoingQueue, numbered: Numbered, size: int) -> bool:
        if isinstance(numbered.message, Disconnected):
            queue.close(numbered)
        elif not queue.offer(numbered, size):
            what_else = "" if queue.drops_epochs else ', or with slow="drop_epochs" or slow="block"'
            reason = (
                f"it fell too far behind: {queue.bytes} bytes in {len(queue)} messages were waiting, and the publisher "
                f"keeps no more than {self._capacity_bytes} bytes. Read faster, or subscribe to less with where="
                f"{what_else}"
            )
            queue.close(Numbered(numbered.sequence, Disconnected(reason)))
            return False
        return True
