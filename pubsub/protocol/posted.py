"""One message of a publisher, shared by the queues of its subscribers."""

from typing import Final

from tidewheel.pubsub.messages.delivery_messages import Downstream, KnowledgeMessage
from tidewheel.pubsub.messages.encoded_message import encode
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    EpochsDropped,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Rejected,
)

_MESSAGE_BYTES: Final = 128
_TIME_BYTES: Final = 64


class Posted:
    """A message with its number. A queue may change a message that it has not sent, if no other queue has it.

    Args:
        skipped: the number of messages right before it that the subscriber does not receive.
        size: its bytes in memory, by default `size_of`; also an attribute.

    >>> from tidewheel.pubsub.messages.wire import PartitionEnded
    >>> Posted(7, PartitionEnded()).after(2).told(partition=1).final
    ((5, 7),)
    """

    __slots__ = ("_skipped", "_told", "message", "number", "size")

    def __init__(self, number: int, message: Message, skipped: int = 0, size: int | None = None) -> None:
        self.number = number
        self.message = message
        self.size = size_of(message) if size is None else size
        self._skipped = skipped
        self._told: KnowledgeMessage | None = None

    def after(self, skipped: int) -> "Posted":
        """Return the message for a subscriber that does not receive ``skipped`` messages right before it."""
        return Posted(self.number, self.message, skipped, self.size)

    def told(self, partition: int) -> Downstream:
        """Return the message in the form for subscribers, the same object for each.

        Skipped messages are silence.
        """
        if isinstance(self.message, Rejected):
            return self.message
        if self._told is None:
            number, skipped = self.number, self._skipped
            silence = ((number - skipped, number),) if skipped else ()
            self._told = KnowledgeMessage(partition, silence, ((number, encode(self.message)),))
        return self._told


def size_of(message: Message) -> int:
    """Estimate the bytes of a message in memory; 0 for a final message, which always fits."""
    match message:
        case DataMessage():
            return _MESSAGE_BYTES + len(message.payload)
        case LowerFrontierUpdate():
            return _MESSAGE_BYTES + _TIME_BYTES * len(message.updates)
        case InitialFrontierSnapshot():
            return _MESSAGE_BYTES + _TIME_BYTES * (len(message.lower) + len(message.upper))
        case EpochsDropped():
            return _MESSAGE_BYTES + _TIME_BYTES * len(message.times)
        case _:
            return 0
