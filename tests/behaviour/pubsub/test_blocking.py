"""Subscribers that hold back their publisher: what the core says of them."""

import random

import pytest

from tests.kit.pubsub.numbered import fetched, head, posted
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions, Slow, Where
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    Failed,
    LowerFrontierUpdate,
    Message,
    Numbered,
    PartitionEnded,
    Rejected,
)
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.protocol.posted import size_of
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.protocol.slow_policies import queue_for

CAPACITY = 1000
ALL = 1 << 30
BLOCK = DeliveryOptions(slow="block", block_limit_s=7.0)


def data(size: int, time: int = 0) -> DataMessage:
    """A message that counts for so many bytes."""
    return DataMessage(time, b"x" * (size - size_of(DataMessage(time, b"", "pickle", 1))), "pickle", 1)


def is_none(record: int) -> bool:
    return False


def is_full(queue: OutgoingQueue) -> bool:
    return queue.is_full


def filled(queue: OutgoingQueue, *sizes: int) -> OutgoingQueue:
    """Offer messages of so many bytes, under the numbers 1, 2, 3 and so on."""
    for number, size in enumerate(sizes, 1):
        assert queue.offer(posted(Numbered(number, data(size)), size))
    return queue


@pytest.fixture
def publisher() -> Publisher:
    publisher = Publisher(IntegerDomain(), CAPACITY)
    publisher.subscribe("blocking", BLOCK)
    return publisher


def sequences(publisher: Publisher, subscriber: str, acknowledged: int = -1, max_bytes: int = ALL) -> list[int]:
    return [numbered.sequence for numbered in fetched(publisher, subscriber, acknowledged, max_bytes)]


def last(publisher: Publisher, subscriber: str) -> Message:
    return fetched(publisher, subscriber, -1)[-1].message


def test_a_queue_is_full_from_the_capacity_until_half_of_it() -> None:
    """It takes what comes all the same, so nothing is lost that was on its way."""
    queue = filled(queue_for(CAPACITY, BLOCK), 500, 500)
    assert not is_full(queue)
    assert queue.offer(posted(Numbered(3, data(200)), 200))
    assert is_full(queue)
    assert queue.offer(posted(Numbered(4, data(300)), 300))
    head(queue, ALL)
    queue.acknowledge(1)
    assert (queue.bytes, is_full(queue)) == (1000, True)
    queue.acknowledge(2)
    assert (queue.bytes, is_full(queue)) == (500, False)
    assert [numbered.sequence for numbered in head(queue, ALL)] == [3, 4]


def test_what_is_on_its_way_still_counts() -> None:
    """Room is free when a message has arrived, not when it has left."""
    queue = filled(queue_for(CAPACITY, BLOCK), 600, 600)
    head(queue, ALL)
    assert is_full(queue)
    queue.acknowledge(2)
    assert not is_full(queue)


def test_a_batch_larger_than_the_capacity_is_delivered() -> None:
    """It fills the queue by itself, until it has arrived."""
    queue = filled(queue_for(CAPACITY, BLOCK), 5000)
    assert is_full(queue)
    assert [numbered.sequence for numbered in head(queue, 1)] == [1]
    queue.acknowledge(1)
    assert not is_full(queue)


@pytest.mark.parametrize("slow", ["disconnect", "drop_epochs"])
def test_others_are_never_full(slow: Slow) -> None:
    """Who did not ask for it holds nobody back, whatever waits for it."""
    queue = queue_for(CAPACITY, DeliveryOptions(slow=slow))
    for number in range(20):
        queue.offer(posted(Numbered(number, data(300, number)), 300))
        assert not is_full(queue)


def test_taken_grows_with_every_message_that_has_arrived() -> None:
    """That is how it is told who reads slowly and who does not read."""
    queue = filled(queue_for(CAPACITY, BLOCK), 100, 100, 100)
    head(queue, ALL)
    assert queue.taken == 0
    queue.acknowledge(2)
    assert queue.taken == 2
    queue.acknowledge(2)
    assert queue.taken == 2


def test_a_holder_is_named_while_it_is_full(publisher: Publisher) -> None:
    """And with nobody who is not."""
    publisher.subscribe("quick", DeliveryOptions(slow="block"))
    publisher.subscribe("other")
    publisher.data(data(600))
    assert publisher.holders() == []
    for name in ("quick", "other"):
        sequences(publisher, name)
        fetched(publisher, name, 1)
    publisher.data(data(600))
    assert publisher.holders() == ["blocking"]
    assert publisher.statistics().holders == 1
    assert fetched(publisher, "blocking", 1)[0].sequence == 2
    assert publisher.holders() == ["blocking"]
    fetched(publisher, "blocking", 2)
    assert publisher.holders() == []


def test_what_is_taken_of_each_is_known(publisher: Publisher) -> None:
    """By messages."""
    publisher.data(data(600))
    fetched(publisher, "blocking", -1)
    fetched(publisher, "blocking", 1)
    assert publisher.queues["blocking"].taken == 2


def test_a_holder_that_is_cut_off_is_told_and_holds_no_more(publisher: Publisher) -> None:
    """Its queue is freed; others have everything; what comes later is not for it."""
    publisher.subscribe("other", DeliveryOptions(slow="block"))
    publisher.feed([data(600), data(600)])
    fetched(publisher, "other", 2)
    publisher.cut_off("blocking", "too slow")
    assert publisher.holders() == []
    publisher.feed([data(600), LowerFrontierUpdate([(0, -1)])])
    assert [numbered.message for numbered in fetched(publisher, "blocking", -1)] == [Rejected(0, "too slow")]
    assert isinstance(last(publisher, "other"), PartitionEnded)
    statistics = publisher.statistics()
    assert (statistics.overflows, statistics.subscribers) == (1, 1)
    publisher.cut_off("blocking", "again")
    publisher.cut_off("nobody", "at all")
    assert publisher.statistics().overflows == 1


def test_a_holder_that_is_cut_off_hears_it_though_it_had_everything(publisher: Publisher) -> None:
    """What it acknowledges only then is not the news that it was cut off."""
    publisher.data(data(1500))
    assert sequences(publisher, "blocking") == [0, 1]
    publisher.cut_off("blocking", "too slow")
    assert [numbered.message for numbered in fetched(publisher, "blocking", 1)] == [Rejected(0, "too slow")]


def test_who_leaves_holds_no_more(publisher: Publisher) -> None:
    """In the middle of it."""
    publisher.feed([data(600), data(600)])
    publisher.unsubscribe("blocking")
    assert publisher.holders() == []
    publisher.subscribe("blocking")
    publisher.feed([data(600), data(600)])
    assert publisher.holders() == []


def test_the_last_word_has_room(publisher: Publisher) -> None:
    """A topic that fails while it is held back tells so, after what was before."""
    publisher.feed([data(600), data(600)])
    publisher.fail("it broke")
    assert last(publisher, "blocking") == Failed("it broke")
    assert sequences(publisher, "blocking") == [0, 1, 2, 3]


def test_what_is_not_wanted_holds_nobody(publisher: Publisher) -> None:
    """A condition is looked at before the queue."""
    publisher.subscribe("few", DeliveryOptions(Where(is_none), "block", 1.0))
    for _ in range(9):
        publisher.data(DataMessage(0, b"\x80\x05]\x94.", "pickle", 1))
    publisher.unsubscribe("blocking")
    assert publisher.holders() == []


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_lost_and_the_bound_holds(seed: int) -> None:
    """A publisher that is fed only while nobody holds keeps no more than the capacity and one message; all comes."""
    choices = random.Random(seed)
    publisher = Publisher(IntegerDomain(), CAPACITY)
    publisher.subscribe("a", BLOCK)
    publisher.subscribe("b", BLOCK)
    acknowledged, received = dict.fromkeys("ab", -1), {name: list[int]() for name in "ab"}
    fed = 0
    for _ in range(600):
        if not publisher.holders():
            publisher.data(data(choices.choice((150, 400, 900, 1500))))
            fed += 1
        name = choices.choice("aab")
        if choices.random() < 0.7:
            found = fetched(publisher, name, acknowledged[name], choices.choice((1, 500, ALL)))
            received[name] += [numbered.sequence for numbered in found if numbered.sequence > acknowledged[name]]
            acknowledged[name] = received[name][-1] if received[name] else -1
        assert publisher.statistics().lag_bytes <= CAPACITY + 1500
    for name in "ab":
        while found := fetched(publisher, name, acknowledged[name]):
            received[name] += [numbered.sequence for numbered in found]
            acknowledged[name] = received[name][-1]
        assert received[name] == list(range(fed + 1))
    assert fed > 50
