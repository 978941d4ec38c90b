"""Ends of substreams on their way to a consumer: beside the records, and with the epoch that they belong to."""

import pickle
import threading

from tests.behaviour.pubsub.test_acknowledging import SNAPSHOT, data, subscribed
from tests.kit.messages import raises
from tests.kit.pubsub.local_job import LocalJob, send_end, send_epoch
from tests.kit.pubsub.numbered import fetched, told
from tidewheel.progress import Antichain, IntegerDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages import encoded_message, frames
from tidewheel.pubsub.messages.delivery_options import MessageFilter, Where
from tidewheel.pubsub.messages.encoded_message import encode_ends
from tidewheel.pubsub.messages.events import Batch, Dropped, Epoch, Frontier, SubstreamsEnded
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    EpochsDropped,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Numbered,
    PartitionEnded,
)
from tidewheel.pubsub.protocol.epochs import EpochAssembler, EpochStates
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.publishers.local_publisher import LocalConnection, LocalPublisher
from tidewheel.pubsub.subscribers.subscribing import subscribe

INTEGERS = IntegerDomain()


def ends(time: int, *keys: object) -> DataMessage:
    return encode_ends(time, list(keys))


def ended(time: int, *keys: object, partition: int = 0) -> SubstreamsEnded:
    return SubstreamsEnded(time, partition, encode_ends(time, list(keys)))


def test_a_connection_sends_them_as_a_message_of_no_records() -> None:
    """In their place among batches, with the next flush."""
    publisher = LocalPublisher(Publisher(INTEGERS), threading.Condition(), LocalJob().host.pump)
    publisher.attach("s")
    connection = LocalConnection("orders", 3, publisher)
    connection.data(0, [1])
    connection.ends(0, ["a", ("b", 2)])
    connection.flush()
    _, batch, message = (numbered.message for numbered in fetched(publisher.publisher, "s", -1))
    assert isinstance(batch, DataMessage)
    assert batch.encoding == "pickle"
    assert message == ends(0, "a", ("b", 2))


def test_a_key_that_cannot_be_pickled_is_an_error() -> None:
    """It names the topic, the partition and the time."""
    publisher = LocalPublisher(Publisher(INTEGERS), threading.Condition(), LocalJob().host.pump)
    with raises(DeliveryError):
        LocalConnection("orders", 3, publisher).ends(7, [threading.Lock()])


def test_keys_that_do_not_decode_are_an_error_when_they_are_looked_at() -> None:
    """And only then."""
    epoch = Epoch(0, (), (SubstreamsEnded(0, 0, DataMessage(0, b"no pickle", "ends", 0)),))
    with raises(DeliveryError):
        _ = epoch.ended


def test_frames_and_logs_hold_them() -> None:
    """They come out as they went in."""
    numbered = Numbered(5, ends(2, "a"), 1)
    parts = b"".join(frames.encode(told(numbered)))
    head_bytes = int.from_bytes(parts[:4], "little")
    assert frames.decode_downstream(parts[12 : 12 + head_bytes], parts[12 + head_bytes :]) == told(numbered)
    logged = encoded_message.encode(ends(2, "a"), 3)
    assert encoded_message.decode(logged) == ends(2, "a")
    assert encoded_message.place_of(logged) == (2, 3)


def test_conditions_on_records_let_them_pass() -> None:
    """At publishers and at pubends, and without a look at the condition."""
    where = Where(lambda record: record / 0)
    assert where.of(ends(0, "a")) == ends(0, "a")
    logged = encoded_message.encode(ends(0, "a"))
    assert MessageFilter(where).of(logged) is logged


def test_an_epoch_says_which_have_ended_and_has_records_beside() -> None:
    """They are not among the records, nor counted, and can be pickled with the epoch."""
    assembler = EpochAssembler(INTEGERS)
    assembler.receive(ended(1, "b", partition=1))
    assembler.receive(ended(1, "a", "c"))
    assembler.receive(ended(0, "a"))
    first, second = assembler.receive(Frontier(Antichain(INTEGERS)))
    assert (first.time, first.ended, first.batches, first.records) == (0, ("a",), (), [])
    assert (second.time, second.ended, len(second)) == (1, ("a", "c", "b"), 0)
    assert second.to_arrow().num_rows == 0
    assert len(assembler) == 0
    assert pickle.loads(pickle.dumps(second)).ended == ("a", "c", "b")


def test_epochs_of_other_topics_have_none() -> None:
    """So consumers may ask every epoch."""
    running = LocalJob(runs_by_itself=True).publish("ended/none")
    with subscribe("ended/none") as subscription:
        send_epoch(running, 0, [1])
        send_end(running, 1)
        assert [(epoch.records, epoch.ended) for epoch in subscription.epochs(timeout_s=5)] == [([1], ())]
    running.finish(None, 0)


def test_a_subscriber_gives_them_as_events() -> None:
    """With the number of their message, under which they are acknowledged."""
    subscriber = Subscriber(INTEGERS, 1)
    subscriber.receive(0, Numbered(0, SNAPSHOT))
    [event] = subscriber.receive(0, Numbered(1, ends(0, "a")))
    assert isinstance(event, SubstreamsEnded)
    assert (event.time, event.partition, event.number, event.keys) == (0, 0, 1, ("a",))


def test_a_late_subscriber_gets_none_of_an_epoch_that_had_begun() -> None:
    """It sees all of an epoch, ends included, or nothing."""
    subscriber = Subscriber(INTEGERS, 1)
    subscriber.receive(0, Numbered(0, InitialFrontierSnapshot([0], [3])))
    assert subscriber.receive(0, Numbered(1, ends(3, "a"))) == []
    [event] = subscriber.receive(0, Numbered(2, ends(4, "b")))
    assert isinstance(event, SubstreamsEnded)


def test_those_of_epochs_that_are_dropped_are_dropped() -> None:
    """Who asked for that is told of the epoch; of others they come once it is complete."""
    subscriber = Subscriber(INTEGERS, 1, may_drop=True)
    subscriber.receive(0, Numbered(0, SNAPSHOT))
    assert subscriber.receive(0, Numbered(1, ends(0, "a"))) == []
    assert subscriber.receive(0, Numbered(2, ends(1, "b"))) == []
    assert subscriber.receive(0, Numbered(3, EpochsDropped([0]))) == [Dropped((0,))]
    [event, _] = subscriber.receive(0, Numbered(4, LowerFrontierUpdate([(0, -1), (2, 1)])))
    assert isinstance(event, SubstreamsEnded)
    assert event.keys == ("b",)


WITH_ENDS = (
    SNAPSHOT,
    data(0, 1),
    ends(0, "a"),
    LowerFrontierUpdate([(0, -1), (1, 1)]),
    ends(1, "b"),
    LowerFrontierUpdate([(1, -1)]),
    PartitionEnded(),
)


def test_they_are_acknowledged_with_their_epoch() -> None:
    """By themselves, or by the consumer; also of an epoch that has nothing else."""
    reader, subscription = subscribed(WITH_ENDS)
    assert [epoch.ended for epoch in subscription.epochs()] == [("a",), ("b",)]
    assert reader.log == [1, 2, 4, "left", "closed"]

    reader, subscription = subscribed(WITH_ENDS, ack="manual")
    for epoch in subscription.epochs():
        subscription.acknowledge(epoch)
    assert reader.log[:3] == [1, 2, 4]


def test_as_events_they_are_acknowledged_one_by_one() -> None:
    """As batches are."""
    reader, subscription = subscribed(WITH_ENDS)
    assert sum(isinstance(event, SubstreamsEnded) for event in subscription) == 2
    assert reader.log[:3] == [1, 2, 4]

    reader, subscription = subscribed(WITH_ENDS, ack="manual")
    for event in subscription:
        if isinstance(event, Batch | SubstreamsEnded):
            subscription.acknowledge(event)
    assert reader.log[:3] == [1, 2, 4]


def test_a_partition_has_begun_with_its_first_message() -> None:
    """Which may be one of ends, or a move of the frontier."""
    assert not EpochStates(INTEGERS).has_begun
    active = EpochStates(INTEGERS)
    active.observe(0)
    assert active.has_begun
    moved = EpochStates(INTEGERS)
    moved.advance([(0, -1), (1, 1)])
    assert moved.has_begun
    over = EpochStates(INTEGERS)
    over.advance([(0, -1)])
    assert over.has_begun
