"""The filter of a subscription with exactly-once delivery: a condition on records, for what travels encoded."""

from dataclasses import dataclass

from tidewheel.pubsub.messages.encoded_message import EncodedMessage, decode, encode, place_of
from tidewheel.pubsub.messages.where import Where
from tidewheel.pubsub.messages.wire import DataMessage


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Passes of each batch the records that meet a condition, and whatever is no batch.

    Args:
        where: the condition.
    """

    where: Where

    def of(self, message: EncodedMessage) -> EncodedMessage | None:
        """Return what is wanted of a message, itself if that is all of it; None if it is nothing.

        Raises:
            DeliveryError: the condition raised, or does not go with this kind of batch.
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
