"""Subscribers that do not read, over real sockets: what becomes of them, of the others, and of memory."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.messages import raises
from tests.kit.pubsub.actor_thread import (
    DEADLINE_S,
    ActorThread,
    data,
    ended,
    epoch,
    moved,
)
from tests.waiting import eventually
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.events import Batch, Dropped
from tidewheel.pubsub.messages.frames import ChildMessage, Join
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent, Message, PartitionEnded, Rejected
from tidewheel.pubsub.protocol.dropping_queue import DROPPED_BYTES
from tidewheel.pubsub.protocol.fetched import opened
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.publishers.feed import ROOM_BYTES, Feed, FeedLost
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor
from tidewheel.pubsub.subscribers.subscription import Subscription

CAPACITY = 4_000_000
SIZE = 300_000
ENOUGH = 160
"""So many batches of that size are more than the capacity, the buffers of connections, and what a worker keeps."""
LIMIT_S = 60.0
BLOCK = DeliveryOptions(slow="block", block_limit_s=LIMIT_S)


@pytest.fixture
def publisher() -> Iterator[ActorThread]:
    with ActorThread(CAPACITY) as running:
        yield running


@pytest.fixture
def peaks(monkeypatch: pytest.MonkeyPatch) -> dict[OutgoingQueue, int]:
    """The most bytes that each queue has ever had."""
    found: dict[OutgoingQueue, int] = {}
    append = OutgoingQueue._append

    def appended(queue: OutgoingQueue, *arguments: Any) -> None:
        append(queue, *arguments)
        found[queue] = max(found.get(queue, 0), queue.bytes)

    monkeypatch.setattr(OutgoingQueue, "_append", appended)
    return found


class Worker(threading.Thread):
    """Does what the operator that publishes does: sends while there is room, and waits for it."""

    def __init__(self, feed: Feed, epochs: int) -> None:
        super().__init__(daemon=True)
        self.feed = feed
        self.sent = 0
        self.most_waiting = 0
        self.waits = False
        self.error: Exception | None = None
        self._epochs = epochs

    def run(self) -> None:
        try:
            for time in range(self._epochs):
                self._wait_for_room()
                self.feed.send(epoch(time, SIZE))
                self.sent += 1
                self.most_waiting = max(self.most_waiting, self.feed._waiting_bytes())
            self.feed.send([ended(self._epochs)])
            self.feed.finish()
        except FeedLost as error:
            self.error = error

    def _wait_for_room(self) -> None:
        while not self.feed.has_room():
            woken = threading.Event()
            again_s = self.feed.wait_for_room(woken.set)
            self.waits = True
            woken.wait(DEADLINE_S if again_s is None else again_s)
            self.waits = False


def times(subscription: Subscription) -> list[int]:
    """Read to the end."""
    return [one.time for one in subscription.epochs(timeout_s=DEADLINE_S)]


def stands_still(worker: Worker) -> bool:
    """Wait until a worker sends nothing more; tell whether it does."""
    before = -1
    pause = threading.Event()
    for _ in range(1000):
        if worker.sent == before and worker.waits:
            return True
        before = worker.sent
        pause.wait(0.05)
    return False


def test_one_that_is_disconnected_costs_the_others_nothing(
    publisher: ActorThread, peaks: dict[OutgoingQueue, int]
) -> None:
    """It is told why, its queue is freed, and it never has more than the capacity."""
    stopped, reads = publisher.subscription("stopped"), publisher.subscription("reads", BLOCK)
    worker = Worker(publisher.feed(), ENOUGH)
    queue = publisher.partition._publisher.queues["stopped"]
    with stopped, reads:
        worker.start()
        for expected, one in enumerate(reads.epochs(timeout_s=DEADLINE_S)):
            assert one.time == expected
        worker.join(DEADLINE_S)
        assert reads.has_ended
        assert publisher.statistics().overflows == 1
        with raises(DeliveryError):
            times(stopped)
    assert CAPACITY / 2 < peaks[queue] <= CAPACITY
    assert worker.most_waiting <= ROOM_BYTES + 2 * SIZE
    assert eventually(lambda: publisher.statistics().queued_bytes == 0)


def test_one_that_drops_epochs_costs_the_others_nothing(
    publisher: ActorThread, peaks: dict[OutgoingQueue, int]
) -> None:
    """It gets the newest, and is told of the rest; it never has more than the capacity and a list of the missing."""
    stopped = publisher.subscription("stopped", DeliveryOptions(slow="drop_epochs"))
    reads = publisher.subscription("reads", BLOCK)
    worker = Worker(publisher.feed(), ENOUGH)
    queue = publisher.partition._publisher.queues["stopped"]
    with stopped, reads:
        worker.start()
        for expected, one in enumerate(reads.epochs(timeout_s=DEADLINE_S)):
            assert one.time == expected
        worker.join(DEADLINE_S)
        events = list(stopped)
    dropped = [time for event in events if isinstance(event, Dropped) for time in event.times]
    seen = [event.time for event in events if isinstance(event, Batch)]
    assert sorted(dropped + seen) == list(range(ENOUGH))
    assert dropped
    assert seen[-1] == ENOUGH - 1
    assert CAPACITY / 2 < peaks[queue] <= CAPACITY + DROPPED_BYTES


def test_one_that_blocks_holds_the_worker(publisher: ActorThread, peaks: dict[OutgoingQueue, int]) -> None:
    """Neither the publisher nor the worker keeps more than a bounded part; when it reads, everything comes."""
    holds, reads = (publisher.subscription(name, BLOCK) for name in ("holds", "reads"))
    worker = Worker(publisher.feed(), ENOUGH)
    seen: list[int] = []
    other = threading.Thread(target=lambda: seen.extend(times(reads)))
    with holds, reads:
        worker.start()
        other.start()
        assert stands_still(worker)
        assert worker.sent < ENOUGH
        statistics = publisher.statistics()
        assert statistics.holders == 1
        assert len(publisher.partition._waiting) * SIZE <= 2 * (8 << 20)
        assert worker.most_waiting <= ROOM_BYTES + 2 * SIZE
        assert times(holds) == list(range(ENOUGH))
        worker.join(DEADLINE_S)
        other.join(DEADLINE_S)
    assert CAPACITY < max(peaks.values()) <= CAPACITY + 2 * SIZE
    assert worker.error is None
    assert seen == list(range(ENOUGH))
    assert publisher.statistics().overflows == 0


def test_finishing_waits_for_one_that_blocks(publisher: ActorThread) -> None:
    """The worker's last call returns when the publisher has everything, and no sooner."""
    with publisher.subscription("holds", BLOCK) as holds:
        feed = publisher.feed()
        for time in range(40):
            feed.send(epoch(time, SIZE))
        feed.send([ended(40)])
        finishing = threading.Thread(target=feed.finish, daemon=True)
        finishing.start()
        assert eventually(lambda: publisher.statistics().holders == 1)
        assert not publisher.call(publisher.actor.ended(0.2))
        assert finishing.is_alive()
        assert times(holds) == list(range(40))
        finishing.join(DEADLINE_S)
        assert not finishing.is_alive()


def test_one_that_blocks_for_too_long_is_cut_off(publisher: ActorThread) -> None:
    """When it has taken nothing for its limit, with a reason, and the worker goes on; not before."""
    holds = publisher.subscription("holds", BLOCK)
    worker = Worker(publisher.feed(), ENOUGH)
    with holds:
        worker.start()
        assert stands_still(worker)
        publisher.advance(LIMIT_S * 0.9)
        assert publisher.statistics().holders == 1
        publisher.advance(LIMIT_S * 0.2)
        assert eventually(lambda: publisher.statistics().holders == 0)
        worker.join(DEADLINE_S)
        assert worker.sent == ENOUGH
        with raises(DeliveryError):
            times(holds)
    assert publisher.statistics().overflows == 1


def test_one_that_takes_a_little_now_and_then_may_go_on(publisher: ActorThread) -> None:
    """However slowly it reads, and however long that takes in all, it gets everything."""
    with publisher.subscription("slow", BLOCK) as slow:
        worker = Worker(publisher.feed(), ENOUGH)
        worker.start()
        seen: list[int] = []
        for one in slow.epochs(timeout_s=DEADLINE_S):
            seen.append(one.time)
            if one.time % 5 == 0:
                publisher.advance(LIMIT_S * 0.9)
        worker.join(DEADLINE_S)
    assert seen == list(range(ENOUGH))
    assert publisher.statistics().overflows == 0


def test_who_holds_and_leaves_lets_the_worker_go_on(publisher: ActorThread) -> None:
    """At once, whether it leaves or has gone."""
    worker = Worker(publisher.feed(), ENOUGH)
    reader = publisher.reader("holds", BLOCK)
    worker.start()
    assert stands_still(worker)
    reader.release()
    worker.join(DEADLINE_S)
    assert worker.sent == ENOUGH


def test_a_worker_that_waits_for_room_is_told_when_the_publisher_has_gone(publisher: ActorThread) -> None:
    """It is woken, and asking again raises: it does not wait for ever, nor ask for ever."""
    with publisher.subscription("holds", BLOCK):
        worker = Worker(publisher.feed(), ENOUGH)
        worker.start()
        assert stands_still(worker)
        publisher.die()
        worker.join(DEADLINE_S)
        assert not worker.is_alive()
        assert isinstance(worker.error, FeedLost)


def test_one_that_never_connects_holds_no_longer_than_its_limit(publisher: ActorThread) -> None:
    """It has been announced, and nothing more is heard of it."""
    publisher.call(publisher.actor.attach("announced", BLOCK))
    worker = Worker(publisher.feed(), ENOUGH)
    worker.start()
    assert stands_still(worker)
    publisher.advance(LIMIT_S + 1)
    worker.join(DEADLINE_S)
    assert worker.sent == ENOUGH


# ---------------------------------------------------------------------- by Ray's calls


class Polling:
    """A subscriber without a connection."""

    def __init__(self, publisher: ActorThread, name: str, options: DeliveryOptions) -> None:
        self._publisher = publisher
        self._name = name
        self._received = 0
        self._said: list[ChildMessage] = [Join(name, None)]
        publisher.call(publisher.actor.attach(name, options))

    def poll(self) -> list[Message]:
        """Return what comes next, which says that what came before has arrived."""
        said, self._said = self._said, []
        told = self._publisher.call(self._publisher.actor.talk(self._name, said, DEADLINE_S, self._received))
        self._received += len(told)
        return [numbered.message for numbered in opened(told)]


@pytest.mark.parametrize("size", [CAPACITY // 3, CAPACITY * 2], ids=["several batches", "one is more than fits"])
def test_one_that_polls_lets_the_worker_go_on_as_it_takes(publisher: ActorThread, size: int) -> None:
    """As soon as there is room again, and not when a limit is over: each poll returns at once."""
    polling = Polling(publisher, "polls", BLOCK)
    events: list[FeedEvent] = [event for time in range(12) for event in (data(time, size), moved(time))]
    feeding = publisher.submit(publisher.actor.feed([*events, ended(12)]))
    found: list[Message] = []
    while not found or not isinstance(found[-1], PartitionEnded):
        assert publisher.statistics().lag_bytes <= CAPACITY + size + 1000
        found += polling.poll()
    assert [one.time for one in found if isinstance(one, DataMessage)] == list(range(12))
    feeding(DEADLINE_S)


def test_calls_of_a_worker_are_answered_when_they_are_taken(publisher: ActorThread) -> None:
    """So that it knows how much is on its way; while a subscriber holds they are not."""
    polling = Polling(publisher, "polls", BLOCK)
    publisher.call(publisher.actor.feed([data(0, CAPACITY * 2)]))
    waiting = publisher.submit(publisher.actor.feed([moved(0)]))
    with pytest.raises(TimeoutError):
        waiting(0.2)
    for _ in range(3):
        polling.poll()
    waiting(DEADLINE_S)


def test_one_that_polls_and_stops_is_cut_off(publisher: ActorThread) -> None:
    """After its limit, though its lease has not run out."""
    polling = Polling(publisher, "polls", DeliveryOptions(slow="block", block_limit_s=5.0))
    waiting = publisher.submit(publisher.actor.feed([*epoch(0, CAPACITY * 2), *epoch(1)]))
    assert eventually(lambda: publisher.statistics().holders == 1)
    publisher.advance(5.1)
    waiting(DEADLINE_S)
    [told] = polling.poll()
    assert isinstance(told, Rejected)
    assert "for 5 s without taking any of it" in told.reason


def test_a_small_capacity_is_enough_for_who_reads() -> None:
    """A worker that tells much at once does not make one fall behind that takes it as fast as it comes."""
    with ActorThread(100_000) as publisher, publisher.subscription("reads") as reads:
        feed = publisher.feed()
        feed.send([event for time in range(100) for event in epoch(time, 20_000)])
        feed.send([ended(100)])
        feed.finish()
        assert times(reads) == list(range(100))


def test_leases_are_given_back_with_a_connection(publisher: ActorThread) -> None:
    """One that has a connection and nothing to read is not given up; one that was announced and never came is."""
    reader = publisher.reader("connected")
    publisher.call(publisher.actor.attach("announced"))
    listener = publisher.partition.connections._listener
    assert listener is not None
    assert len(listener._tickets) == 1
    publisher.advance(61.0)
    publisher.run(publisher.partition.go_on)
    assert eventually(lambda: publisher.statistics().subscribers == 1)
    assert not listener._tickets
    assert reader.fetch(0.0)
    assert reader.fetch(0.0) == []
    reader.release()


def test_a_publisher_without_sockets_offers_none() -> None:
    """Then everybody calls."""
    with ActorThread(has_sockets=False) as publisher:
        assert publisher.call(publisher.actor.listen()) is None
        assert publisher.call(publisher.actor.attach("s")) is None
        assert isinstance(publisher.actor, PublisherActor)
