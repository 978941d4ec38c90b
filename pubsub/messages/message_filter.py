"""The filter of a subscription with exactly-once delivery: a condition on records, applied to encoded messages."""

from dataclasses import dataclass

from tidewheel.pubsub.messages.encoded_message import EncodedMessage, decode, encode, place_of
from tidewheel.pubsub.messages.where import Where
from tidewheel.pubsub.messages.wire import DataMessage


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Passes the records of each batch that meet a condition, and all messages without a batch.

    Args:
        where: the condition.
    """

    where: Where

    def of(self, message: EncodedMessage) -> EncodedMessage | None:
        """Return a message with the records that meet the condition: itself if all do, None if no record does.

        Raises:
            DeliveryError: the condition raised, or does not fit this kind of batch.
        """
        place = place_of(message)
        if place is None:
            return message
        event = decode(message)
        assert isinstance(event, DataMessage), "what has a place is a batch"
        wanted = self.where.of(event)
        if wanted is None or wanted is event:
            return None if wanted is None else message
        return encode(wanted, place.number)
