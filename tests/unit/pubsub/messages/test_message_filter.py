"""The filter of a subscription with exactly-once delivery."""

import pytest

from tidewheel.pubsub import DeliveryError
from tidewheel.pubsub.exactly_once.fanout import select
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, decode, encode, place_of
from tidewheel.pubsub.messages.message_filter import MessageFilter
from tidewheel.pubsub.messages.payload import EncodedBatch
from tidewheel.pubsub.messages.payload import decode as decode_batch
from tidewheel.pubsub.messages.payload import encode as encode_batch
from tidewheel.pubsub.messages.where import Where
from tidewheel.pubsub.messages.wire import DataMessage, LowerFrontierUpdate, PartitionEnded


def batch(*records: int) -> EncodedMessage:
    encoded = encode_batch(list(records))
    return encode(DataMessage(4, encoded.payload, encoded.encoding, encoded.records), number=2)


def is_odd(number: int) -> bool:
    return bool(number % 2)


def test_of_a_batch_what_is_wanted_passes_at_the_same_place() -> None:
    """All of it as it is, a part encoded anew, or nothing."""
    odd = MessageFilter(Where(is_odd))
    whole = batch(1, 3)
    assert odd.of(whole) is whole
    assert odd.of(batch(2, 4)) is None
    part = odd.of(batch(1, 2, 3))
    assert part is not None
    assert place_of(part) == (4, 2)
    event = decode(part)
    assert isinstance(event, DataMessage)
    assert decode_batch(EncodedBatch(event.encoding, event.payload, event.records)) == [1, 3]


def test_what_is_no_batch_passes() -> None:
    """Moves of the frontier, and the end."""
    odd = MessageFilter(Where(is_odd))
    for message in (encode(LowerFrontierUpdate([(0, -1)])), encode(PartitionEnded())):
        assert odd.of(message) is message


def test_filters_of_one_condition_are_one() -> None:
    """So that a relay tells their subscribers the same without looking twice."""
    assert MessageFilter(Where(is_odd)) == MessageFilter(Where(is_odd))
    assert len({MessageFilter(Where(is_odd)), MessageFilter(Where(is_odd)), MessageFilter(Where(bool))}) == 2


def test_a_condition_that_raises_is_an_error_with_the_time() -> None:
    """Of those who subscribed with it, and of nobody else."""
    with pytest.raises(DeliveryError, match=r"where= failed for a batch at time 4: .*ZeroDivisionError"):
        select(MessageFilter(Where(lambda number: 1 // number)), ((7, batch(0)),))
