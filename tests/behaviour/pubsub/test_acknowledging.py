"""Acknowledgements of a consumer of a topic with exactly-once delivery, and when its publishers hear of them."""

from collections.abc import Iterable, Sequence

import pytest

from tests.kit.messages import raises
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.events import Batch
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Numbered,
    PartitionEnded,
)
from tidewheel.pubsub.protocol.fetched import Fetched
from tidewheel.pubsub.subscribers.message_source import MessageSource
from tidewheel.pubsub.subscribers.subscription import Subscription
from tidewheel.pubsub.subscribers.subscription_options import Acknowledging

INFO = TopicInfo("kept", "job", IntegerDomain(), (None,), "life", None, "exactly_once")


def data(time: int, *records: int) -> DataMessage:
    return encode_batch(time, list(records))


class KeptSource(MessageSource):
    """Has messages one after the other, and notes what is acknowledged, and when it is left."""

    is_durable = True

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = [Numbered(number, message) for number, message in enumerate(messages)]
        self.log: list[object] = []

    def fetch(self, timeout_s: float) -> list[Fetched]:
        """Return the next message."""
        return [Fetched(0, [self._messages.pop(0)])] if self._messages else []

    def acknowledge(self, batches: Sequence[tuple[int, int]]) -> None:
        """Note that."""
        self.log += (number for _, number in batches)

    def leave(self) -> None:
        """Note that."""
        self.log.append("left")

    def detach(self, partition: int) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Note that."""
        self.log.append("closed")


SNAPSHOT = InitialFrontierSnapshot([0], [])
TWO_EPOCHS = (
    SNAPSHOT,
    data(0, 1),
    data(0, 2),
    LowerFrontierUpdate([(0, -1), (1, 1)]),
    data(1, 3),
    LowerFrontierUpdate([(1, -1)]),
    PartitionEnded(),
)


def subscribed(
    messages: Iterable[Message] = TWO_EPOCHS, ack: Acknowledging = "auto"
) -> tuple[KeptSource, Subscription]:
    reader = KeptSource(messages)
    return reader, Subscription(INFO, reader, ack=ack)


def test_an_epoch_is_acknowledged_when_the_next_is_asked_for() -> None:
    """Not when it is given out: who dies with it gets it again; at the end all is, and the publishers are left."""
    reader, subscription = subscribed()
    epochs = subscription.epochs()
    assert next(epochs).records == [1, 2]
    assert reader.log == []
    assert next(epochs).records == [3]
    assert reader.log == [1, 2]
    assert list(epochs) == []
    assert reader.log == [1, 2, 4, "left", "closed"]


def test_leaving_the_with_block_acknowledges_what_was_given_out_last() -> None:
    """So a loop that breaks has had its epoch; one that raises has not."""
    reader, subscription = subscribed()
    with subscription:
        next(subscription.epochs())
    assert reader.log == [1, 2, "left", "closed"]

    reader, subscription = subscribed()
    with pytest.raises(ZeroDivisionError), subscription:
        _ = next(subscription.epochs()).records[0] / 0
    assert reader.log == ["left", "closed"]


def test_close_alone_acknowledges_nothing() -> None:
    """It cannot know how the consumer has fared."""
    reader, subscription = subscribed()
    next(subscription.epochs())
    subscription.close()
    subscription.close()
    assert [what for what in reader.log if what != "closed"] == ["left", "left"]


def test_batches_are_acknowledged_one_by_one_where_events_are_read() -> None:
    """Each with the event after it, or with the next call of take."""
    reader, subscription = subscribed()
    events = iter(subscription)
    while not isinstance(next(events), Batch):
        assert reader.log == []
    assert isinstance(next(events), Batch)
    assert reader.log == [1]

    reader, subscription = subscribed()
    taken = [*subscription.poll(), *subscription.poll()]
    assert sum(isinstance(event, Batch) for event in taken) == 1
    subscription.poll()
    assert reader.log == [1]


def test_a_table_is_acknowledged_as_a_whole() -> None:
    """All the epochs that it was made of, with what is asked for next."""
    reader, subscription = subscribed([SNAPSHOT, data(0, 1), LowerFrontierUpdate([(0, -1), (1, 1)])])
    with raises(DeliveryError):
        subscription.to_arrow(until=0)
    assert reader.log == []
    assert [epoch.records for epoch in subscription._complete] == [[1]]


def test_with_manual_acknowledgement_only_what_is_said_is_acknowledged() -> None:
    """Epochs or batches, in any order; also after the topic has ended."""
    reader, subscription = subscribed(ack="manual")
    with subscription:
        first, second = subscription.epochs()
        assert reader.log == []
        subscription.acknowledge(second)
        subscription.acknowledge(first.batches[1])
        assert reader.log == [4, 2]
    assert reader.log == [4, 2, "left", "closed"]


def test_what_nobody_will_see_is_acknowledged_at_once() -> None:
    """An epoch of which a part came before is held back; it must not hold the log for ever."""
    reader, subscription = subscribed([InitialFrontierSnapshot([0], [0]), *TWO_EPOCHS[1:]], ack="manual")
    assert [epoch.records for epoch in subscription.epochs()] == [[3]]
    assert reader.log == [1, 2]


def test_acknowledging_what_cannot_be_is_an_error() -> None:
    """By hand what is done automatically, or something else than an epoch or a batch."""
    _, subscription = subscribed()
    epoch = next(subscription.epochs())
    with raises(DeliveryError):
        subscription.acknowledge(epoch)
    _, subscription = subscribed(ack="manual")
    with raises(DeliveryError):
        subscription.acknowledge(3)  # type: ignore[arg-type]
