"""A publisher without a log, its worker and its subscribers over real sockets: order, ends, peers that have gone."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from tests.kit.messages import raises
from tests.kit.pubsub.actor_thread import (
    DEADLINE_S,
    NODE,
    PLENTY,
    ActorThread,
    Offering,
    data,
    ended,
    epoch,
    info_of,
    moved,
    subscription_of,
)
from tests.waiting import eventually
from tidewheel.progress import IntegerDomain, ProtocolError
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.exactly_once.journal import OutdatedWorkerError
from tidewheel.pubsub.messages.delivery_messages import Ack
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.encoded_message import encode, encode_batch
from tidewheel.pubsub.messages.events import Batch, End
from tidewheel.pubsub.messages.frames import Join
from tidewheel.pubsub.messages.wire import (
    Failed,
    FeedEvent,
    Generation,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Numbered,
    PartitionEnded,
    WorkerPosition,
)
from tidewheel.pubsub.protocol.fetched import opened
from tidewheel.pubsub.protocol.publisher import NUMBERS_OF_A_LIFE
from tidewheel.pubsub.publishers.confirmed import Confirmed
from tidewheel.pubsub.publishers.connection import RayConnection
from tidewheel.pubsub.publishers.feed import FeedLost, FeedRefused
from tidewheel.pubsub.publishers.live_delivery import LiveDelivery
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor
from tidewheel.pubsub.publishers.worker_link import message_frame, position_frame
from tidewheel.pubsub.subscribers.live_source import LiveSource

EPOCHS = 30
SIZES = (1, 100, 40_000, 700_000)


def sizes_of(subscription: Any) -> list[tuple[int, int]]:
    """Read to the end; return time and bytes of each epoch."""
    return [(one.time, len(one.batches[0].encoded.payload)) for one in subscription.epochs(timeout_s=DEADLINE_S)]


def send_on(send: Callable[[list[FeedEvent]], None]) -> None:
    """Send until that is an error."""
    for time in range(1, 100_000):
        send([data(time)])


def nothing_left(publisher: ActorThread) -> bool:
    partition, statistics = publisher.partition, publisher.statistics()
    listener = partition.connections._listener
    assert listener is not None
    assert all(worker.is_closed for worker in partition.connections._workers)
    left = len(partition.connections.children) + len(listener._strangers) + len(listener._tickets)
    return left + len(partition._publisher.queues) + statistics.queued_bytes == 0


def test_everything_comes_in_order_and_then_the_end() -> None:
    """Batches of all sizes, to several subscribers; when the worker has finished, nothing of it is on its way."""
    with ActorThread() as publisher, ExitStack() as stack:
        subscriptions = [stack.enter_context(publisher.subscription(f"s{number}")) for number in range(3)]
        feed = publisher.feed()
        for time in range(EPOCHS):
            feed.send(epoch(time, SIZES[time % len(SIZES)]))
        feed.send([ended(EPOCHS)])
        feed.finish()
        assert publisher.call(publisher.actor.ended(0))
        for subscription in subscriptions:
            assert sizes_of(subscription) == [(time, SIZES[time % len(SIZES)]) for time in range(EPOCHS)]
        assert publisher.call(publisher.actor.drained(DEADLINE_S))
        assert eventually(lambda: nothing_left(publisher))


def test_a_late_subscriber_misses_nothing_that_comes_after_it() -> None:
    """While the worker goes on: whole epochs from some time on, without a hole."""
    with ActorThread() as publisher:
        feed = publisher.feed()
        feed.send(epoch(0))
        assert eventually(lambda: publisher.statistics().sequence == 2)
        with publisher.subscription("late") as late:
            for time in range(1, EPOCHS):
                feed.send(epoch(time, 5000))
            feed.send([ended(EPOCHS)])
            feed.finish()
            assert [time for time, _ in sizes_of(late)] == list(range(1, EPOCHS))


def test_what_comes_behind_a_long_history_is_not_lost() -> None:
    """A history fills the connection by itself. What was published until a subscriber connects waits behind it.

    It is longer than a head may be.
    """
    with ActorThread(has_history=True) as publisher:
        feed = publisher.feed()
        for time in range(5):
            feed.send([encode_batch(time, [(f"{time}{'x' * 16_000_000}", 1)]), moved(time)])
        assert eventually(lambda: publisher.statistics().sequence == 10)
        offer = publisher.call(publisher.actor.attach("late"))
        feed.send([encode_batch(5, [("5", 1)]), moved(5), encode_batch(6, [("6", 1)]), moved(6)])
        assert eventually(lambda: publisher.statistics().sequence == 14)
        reader = LiveSource(info_of([Offering(offer)]), "late", EVERYTHING, NODE)
        numbers: list[int] = []
        while numbers[-1:] != [14]:
            found = reader.fetch(DEADLINE_S)
            assert found, f"nothing comes behind {numbers}"
            numbers += [numbered.sequence for fetched in found for numbered in fetched.messages]
        reader.release()
    assert numbers == [10, 11, 12, 13, 14]


def test_several_partitions_are_read_at_once() -> None:
    """One that is idle holds nobody up; a connection is let go of when its partition has ended."""
    with ActorThread() as first, ActorThread() as second, subscription_of([first, second], "s") as subscription:
        one, other = first.feed(), second.feed()
        for time in range(EPOCHS):
            one.send(epoch(time, 1000))
        one.send([ended(EPOCHS)])
        one.finish()
        assert eventually(lambda: first.statistics().subscribers == 0)
        batches: list[Batch] = []
        while len(batches) < EPOCHS:
            batches += [event for event in subscription.poll(DEADLINE_S) if isinstance(event, Batch)]
        assert not subscription.has_ended
        other.send([data(3), ended(0)])
        other.finish()
        assert isinstance(list(subscription)[-1], End)


def test_a_failure_comes_after_what_came_before() -> None:
    """With its reason, to everybody."""
    with ActorThread() as publisher, publisher.subscription("s") as subscription:
        feed = publisher.feed()
        feed.send(epoch(0))
        epochs = subscription.epochs(timeout_s=DEADLINE_S)
        assert next(epochs).time == 0
        feed.send(epoch(1))
        assert eventually(lambda: publisher.statistics().sequence == 4)
        publisher.call(publisher.actor.fail("it broke"))
        assert next(epochs).time == 1
        with raises(PublisherLost):
            next(epochs)
        assert eventually(lambda: nothing_left(publisher))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ([moved(0), data(0)], "a batch came at time 0, which the lower frontier"),
        ([moved(0), LowerFrontierUpdate([(1, -1), (0, 1)])], "moved back"),
        ([PartitionEnded()], "a worker does not send PartitionEnded"),
    ],
    ids=["too late", "backwards", "no event"],
)
def test_what_makes_no_sense_is_refused_with_the_reason(wrong: list[Any], reason: str) -> None:
    """The worker hears it at a later call, and its connection says so; the subscribers hear it too."""
    with ActorThread() as publisher, publisher.subscription("s") as subscription:
        connection = RayConnection("ranks", 0, IntegerDomain(), None, has_log=False)
        connection._feed = publisher.feed()
        connection._send(wrong)
        with pytest.raises(DeliveryError, match=f"'ranks', partition 0: the publisher did not take .*{reason}"):
            send_on(connection._send)
        with pytest.raises(FeedRefused, match=reason):
            connection._feed.has_room()
        with pytest.raises(FeedRefused, match=reason):
            connection._feed.finish()
        with pytest.raises(PublisherLost, match=f"the publisher failed: .*{reason}"):
            list(subscription)


def test_who_only_waits_to_finish_is_told_too() -> None:
    """The last event was the wrong one."""
    with ActorThread() as publisher:
        feed = publisher.feed()
        feed.send([moved(0), data(0), ended(1)])
        with raises(FeedRefused):
            feed.finish()


def test_garbage_of_a_worker_fails_the_topic() -> None:
    """It is named; what came before it stays."""
    with ActorThread() as publisher, publisher.subscription("s") as subscription:
        offer = publisher.call(publisher.actor.listen())
        assert offer is not None
        connection = offer.connect(NODE)
        assert connection is not None
        with connection:
            connection.send(b"".join(position_frame(WorkerPosition([], {}))))
            for event in epoch(0):
                connection.send(b"".join(message_frame(encode(event))))
            assert eventually(lambda: publisher.statistics().sequence == 2)
            connection.send(b"\xff" * 12)
            epochs = subscription.epochs(timeout_s=DEADLINE_S)
            assert next(epochs).time == 0
            with raises(PublisherLost):
                next(epochs)


def test_a_worker_whose_publisher_has_gone_is_told() -> None:
    """Whether it sends, asks for room, or finishes."""
    with ActorThread() as publisher, ActorThread() as second:
        feed, other = publisher.feed(), second.feed()
        feed.send(epoch(0))
        assert eventually(lambda: publisher.statistics().sequence == 2)
        other.send(epoch(0))
        publisher.die()
        second.die()
        with raises(FeedLost):
            send_on(feed.send)
        with raises(FeedLost):
            feed.has_room()
        with raises(FeedLost):
            other.finish()


def test_a_topic_that_was_ended_takes_nothing_more() -> None:
    """A worker that goes on all the same learns why."""
    with ActorThread() as publisher:
        feed = publisher.feed()
        publisher.call(publisher.actor.fail("the job has failed"))
        with raises(FeedRefused):
            send_on(feed.send)


def test_a_subscriber_whose_publisher_has_gone_is_told() -> None:
    """After what it was sent."""
    with ActorThread() as publisher, publisher.subscription("s") as subscription:
        publisher.feed().send([*epoch(0), *epoch(1)])
        assert eventually(lambda: publisher.statistics().queued_bytes < 1000 and publisher.statistics().sequence == 4)
        publisher.die()
        epochs = subscription.epochs(timeout_s=DEADLINE_S)
        assert [next(epochs).time, next(epochs).time] == [0, 1]
        with raises(PublisherLost):
            next(epochs)


@pytest.mark.parametrize("slow", ["disconnect", "drop_epochs", "block"])
def test_a_subscriber_that_has_gone_is_forgotten_at_once(slow: Any) -> None:
    """Without a word, in the middle of a large backlog: its queue is freed, and others notice nothing."""
    options = DeliveryOptions(slow=slow)
    with ActorThread() as publisher, publisher.subscription("stays") as stays:
        gone = publisher.reader("gone", options)
        feed = publisher.feed()
        time = 0
        while publisher.statistics().lag_bytes < 2_000_000:  # beyond what its connection takes
            feed.send(epoch(time, 500_000))
            assert next(stays.epochs(timeout_s=DEADLINE_S)).time == time
            time += 1
        gone.release()
        assert eventually(lambda: publisher.statistics().subscribers == 1)
        assert eventually(lambda: publisher.statistics().queued_bytes < 1_000_000)
        feed.send([*epoch(time), ended(time + 1)])
        feed.finish()
        assert [seen for seen, _ in sizes_of(stays)] == [time]


def test_a_subscriber_that_says_something_is_cut_off() -> None:
    """There is nothing for it to say, so nothing of that is read."""
    with ActorThread() as publisher:
        reader = publisher.reader("s")
        assert publisher.statistics().subscribers == 1
        reader._parents.kept[0].say([Ack(0, {"s": ()})])
        assert eventually(lambda: publisher.statistics().subscribers == 0)
        reader.release()


def test_many_subscribers_at_once_all_get_everything() -> None:
    """A hundred, who connect in the same moment, while the publisher's loop does something else."""
    with ActorThread() as publisher, ExitStack() as stack:
        offers = [publisher.call(publisher.actor.attach(f"s{number}")) for number in range(100)]
        begun, may_end = threading.Event(), threading.Event()

        def be_busy() -> None:
            begun.set()
            may_end.wait(DEADLINE_S)

        publisher.loop.call_soon_threadsafe(be_busy)
        assert begun.wait(DEADLINE_S)
        subscriptions = [
            stack.enter_context(subscription_of([Offering(offer)], f"s{number}")) for number, offer in enumerate(offers)
        ]
        may_end.set()
        assert len(subscriptions) == 100
        feed = publisher.feed()
        feed.send([*epoch(0), ended(1)])
        feed.finish()
        for subscription in subscriptions:
            assert [time for time, _ in sizes_of(subscription)] == [0]


def test_one_that_is_far_behind_gives_others_their_turn() -> None:
    """A long backlog is written in several goes, though its reader takes everything at once."""
    with ActorThread() as publisher:
        publisher.call(publisher.actor.attach("far behind"))
        feed = publisher.feed()
        for time in range(40):
            feed.send(epoch(time, 1_000_000))
        assert eventually(lambda: publisher.statistics().sequence == 80)
        offer = publisher.run(lambda: publisher.partition.connections.offer("far behind"))
        assert offer is not None
        connection = offer.connect(NODE)
        assert connection is not None
        goes: list[int] = []

        def look() -> None:
            child = publisher.partition.connections.children.get("far behind")
            goes.append(goes[-1] if child is None and goes else 0 if child is None else child.written_bytes)
            if goes[-1] < 40_000_000:
                publisher.loop.call_soon(look)

        publisher.loop.call_soon_threadsafe(look)
        received = 0
        with connection:
            connection.settimeout(DEADLINE_S)
            while received < 40_000_000:
                received += len(connection.recv(1 << 24))
        assert eventually(lambda: bool(goes) and goes[-1] >= 40_000_000)
        steps = [after - before for before, after in pairwise(goes)]
        assert max(steps) <= 10_000_000


def test_finishing_takes_the_reason_whole() -> None:
    """However many lines it has."""
    with ActorThread() as publisher:
        feed = publisher.feed()
        feed.send(epoch(0))
        publisher.run(lambda: publisher.partition.refuse("so wrong\n" * 1000))
        with pytest.raises(FeedRefused, match=r"^(so wrong\n){1000}$"):
            feed.finish()


def test_events_of_calls_and_of_sockets_are_the_same() -> None:
    """A subscriber that polls gets what one with a connection gets, message by message."""
    with ActorThread() as publisher:
        publisher.call(publisher.actor.attach("polls"))
        reader = publisher.reader("reads")
        feed = publisher.feed()
        events: list[FeedEvent] = [event for time in range(5) for event in epoch(time, 30_000)]
        feed.send([*events, ended(5)])
        feed.finish()
        polled = opened(publisher.call(publisher.actor.talk("polls", [Join("polls", None)], 0.0)))
        read: list[Numbered] = []
        while not read or not isinstance(read[-1].message, PartitionEnded | Failed):
            read += [numbered for fetched in reader.fetch(DEADLINE_S) for numbered in fetched.messages]
        assert read == polled
        reader.release()


def test_what_waits_is_not_confirmed_and_does_not_count_when_the_job_goes_back() -> None:
    """As while the first subscribers are awaited. It comes again; so the end does not wait here, either."""

    async def scenario() -> None:
        partition = LiveDelivery("'ranks'[0]", IntegerDomain(), PLENTY, awaited=1, is_remembered=True)
        partition.begin(WorkerPosition([0], {}))
        partition.feed([encode(data(0)) for _ in range(3)])
        assert partition.confirmed().messages == 0
        for _ in range(2):
            partition.go_back()
            assert len(partition._waiting) == 0
        with pytest.raises(OutdatedWorkerError):
            partition.begin(WorkerPosition([0], {}))
        partition.begin(WorkerPosition([0], {}, generation=Generation(1)))
        partition.feed([encode(data(0)) for _ in range(3)])
        partition.awaiting.awaited = 0
        partition.go_on()
        assert partition.confirmed() == Confirmed(2, 0, NUMBERS_OF_A_LIFE + 2)

    asyncio.run(scenario())


def test_subscribers_of_a_publisher_that_has_died_come_back() -> None:
    """They wait for the job to go back. One that comes late receives the same, and later ones an error."""

    async def scenario() -> None:
        clock = [0.0]
        make = partial(
            LiveDelivery, "ranks", IntegerDomain(), PLENTY, is_remembered=True, lease_s=0.01, clock=lambda: clock[0]
        )
        actor = PublisherActor("ranks", 0, make)
        with raises(ProtocolError):
            await actor.talk("early", [], 0.0)
        early = asyncio.create_task(actor.attach("early", again=True))
        await asyncio.sleep(0)
        assert not early.done()
        assert await actor.go_back(False) == []
        await early
        partition = actor.live
        partition.begin(WorkerPosition([0], {}, 7, Generation(1), 9))
        partition.feed([encode(event) for event in epoch(0)])
        await actor.attach("late", again=True)
        told = [await actor.talk(name, [Join(name, None)], 0.0) for name in ("early", "late")]
        assert told[0] == told[1]
        first, *others = opened(told[0])
        assert first.message == InitialFrontierSnapshot([0], [], 1, (), 9)
        assert len(others) == 2
        assert await asyncio.to_thread(eventually, lambda: partition._publisher.kept is None, DEADLINE_S)
        with raises(DeliveryError):
            await actor.attach("too late", again=True)

    asyncio.run(scenario())
