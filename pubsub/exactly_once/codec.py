"""The codec of the links between publishers, relays and subscribers."""

from typing import Final

from tidewheel.pubsub.exactly_once.frames import (
    MOST_PAYLOAD_BYTES,
    Join,
    Told,
    decode_downstream,
    decode_upstream,
    encode,
)
from tidewheel.pubsub.exactly_once.messages import KnowledgeMessage, Rejected
from tidewheel.pubsub.exactly_once.unsaid import Unsaid
from tidewheel.pubsub.messages.wire import DataMessage, Numbered
from tidewheel.transport.stream_link import Codec

_EACH_BYTES = 64


def size_of(message: Told) -> int:
    """Return the approximate size of a message in bytes."""
    if isinstance(message, KnowledgeMessage):
        sizes: list[int] = [one.size_bytes for _, one in message.data]
        return sum(sizes, _EACH_BYTES * (1 + len(sizes)))
    if isinstance(message, Numbered) and isinstance(message.message, DataMessage):
        return _EACH_BYTES + len(message.message.payload)
    return _EACH_BYTES


def _must_be_told(message: Told) -> bool:
    """Tell whether a message is a rejection, whose loss a rejected child would not notice."""
    return isinstance(message, Rejected)


def _joins(message: object) -> bool:
    return isinstance(message, Join)


CODEC: Final = Codec(
    encode=encode,
    decode_told=decode_downstream,
    decode_said=decode_upstream,
    most_told_bytes=MOST_PAYLOAD_BYTES,
    size_of=size_of,
    must_be_told=_must_be_told,
    joins=_joins,
    unsaid=Unsaid,
)
