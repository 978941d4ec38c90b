"""The known defects of Strymon's publish-subscribe, each shown not to be here."""

from itertools import permutations

import pytest

from tests.kit.messages import raises
from tests.kit.pubsub.numbered import fetched, taken
from tidewheel.progress import Antichain, IntegerDomain, ProductDomain
from tidewheel.pubsub.errors import PublisherLost
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions, Slow
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.events import Batch, Event, Frontier
from tidewheel.pubsub.messages.wire import DataMessage, LowerFrontierUpdate, Rejected
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.protocol.subscriber import Subscriber

INTEGERS = IntegerDomain()


def data(time: object) -> DataMessage:
    return encode_batch(time, [time])


def read(subscriber: Subscriber, partition: int, publisher: Publisher) -> list[Event]:
    return [event for numbered in taken(publisher, "s") for event in subscriber.receive(partition, numbered)]


def frontiers(events: list[Event]) -> list[Antichain]:
    return [event.frontier for event in events if isinstance(event, Frontier)]


@pytest.mark.parametrize("leavers", list(permutations("abc", 2)), ids="".join)
def test_the_last_subscriber_goes_on_receiving_after_others_have_left(leavers: tuple[str, str]) -> None:
    """Theirs was forgotten when one with a lower id left; here whoever is left gets everything, to the end."""
    publisher = Publisher(INTEGERS)
    for name in "abc":
        publisher.subscribe(name)
    [left] = set("abc") - set(leavers)
    expected = 1
    for time, leaver in enumerate(leavers):
        publisher.unsubscribe(leaver)
        publisher.data(data(time))
        expected += 1
    publisher.frontier([(0, -1)])
    assert len(taken(publisher, left)) == expected + 2


@pytest.mark.parametrize("slow", ["disconnect", "drop_epochs"])
def test_a_broken_subscriber_is_removed_and_holds_no_memory(slow: Slow) -> None:
    """Theirs was logged and kept; here one that takes a first message and then none is cut off, and told why.

    However often it asked for epochs to be dropped: the list of what was dropped is bounded too.
    """
    publisher = Publisher(INTEGERS, capacity_bytes=2000)
    publisher.subscribe("broken", DeliveryOptions(slow=slow))
    fetched(publisher, "broken", -1)
    most = 0
    for time in range(3000):
        publisher.feed([data(time), LowerFrontierUpdate([(time, -1), (time + 1, 1)])])
        most = max(most, publisher.statistics().queued_bytes)
    assert most < 70_000
    statistics = publisher.statistics()
    assert (statistics.subscribers, statistics.overflows, statistics.queued_bytes) == (0, 1, 0)
    [told] = fetched(publisher, "broken", 0)
    assert isinstance(told.message, Rejected)
    assert "fell too far behind" in told.message.reason
    assert ("drop_epochs" in told.message.reason) == (slow == "disconnect")


def test_a_partition_that_ends_retracts_its_frontier() -> None:
    """Theirs froze the others; here the frontier goes on with those that are left."""
    ended, live = Publisher(INTEGERS), Publisher(INTEGERS)
    subscriber = Subscriber(INTEGERS, 2)
    for partition, publisher in enumerate((ended, live)):
        publisher.subscribe("s")
        read(subscriber, partition, publisher)
    ended.frontier([(0, -1)])
    assert read(subscriber, 0, ended) == []
    live.frontier([(0, -1), (5, 1)])
    assert frontiers(read(subscriber, 1, live)) == [Antichain(INTEGERS, [5])]


def test_a_publisher_that_fails_does_not_freeze_its_group() -> None:
    """One that crashed held everybody's frontier for ever; here its subscribers are told at once."""
    failed, live = Publisher(INTEGERS), Publisher(INTEGERS)
    subscriber = Subscriber(INTEGERS, 2)
    for partition, publisher in enumerate((failed, live)):
        publisher.subscribe("s")
        read(subscriber, partition, publisher)
    failed.fail("it crashed")
    with raises(PublisherLost):
        read(subscriber, 0, failed)


def test_no_queue_is_unbounded() -> None:
    """All of theirs were; here nobody who does not read costs more than the capacity, and one message."""
    publisher = Publisher(INTEGERS, capacity_bytes=2000)
    publisher.subscribe("idle")
    publisher.subscribe("idle, and drops", DeliveryOptions(slow="drop_epochs"))
    message = data(0)
    for time in range(200):
        publisher.feed([message, LowerFrontierUpdate([(time, -1), (time + 1, 1)])])
        message = data(time + 1)
        waiting = publisher.queues["idle, and drops"]
        held = (*waiting._sent, *waiting._pending)
        batches = sum(entry.size for entry in held if isinstance(entry.message, DataMessage))
        assert batches <= 2000
        assert publisher.queues["idle"].bytes <= 2000


def test_a_time_that_is_not_comparable_with_the_upper_frontier_is_delivered() -> None:
    """Their text forwards only what is strictly later than the upper frontier, their code what is not before it.

    The latter keeps epochs whole and loses nothing that was latent.
    """
    domain = ProductDomain(INTEGERS, INTEGERS)
    publisher, subscriber = Publisher(domain), Subscriber(domain, 1)
    publisher.data(data((2, 1)))
    publisher.subscribe("s")
    for time in [(2, 1), (1, 1), (0, 2), (3, 0), (2, 2)]:
        publisher.data(data(time))
    events = read(subscriber, 0, publisher)
    assert [event.time for event in events if isinstance(event, Batch)] == [(0, 2), (3, 0), (2, 2)]
