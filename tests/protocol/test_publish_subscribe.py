"""Publishers and subscribers back to back: late subscribers, delays between partitions, replies that get lost."""

from collections.abc import Iterator
from itertools import product
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.topic_world import Order, TopicWorld, check_atomic, check_frontier, check_no_holes
from tidewheel.progress import Time
from tidewheel.pubsub.messages import encoded_message, events
from tidewheel.pubsub.messages.events import Batch
from tidewheel.pubsub.messages.wire import DataMessage
from tidewheel.pubsub.protocol import subscriber
from tidewheel.pubsub.protocol.epochs import EpochAssembler, EpochFilter

SEEDS = st.integers(0, 2**32 - 1)
ORDERS = cast("list[Order]", ["total", "product"])
SHAPES = list(product(ORDERS, [1, 2, 3]))
every_shape = pytest.mark.parametrize(("order", "partitions"), SHAPES)


CAPACITY_BYTES = 2000


def worlds(seeds: int, readers: int = 1, eager: int = 0, capacity_bytes: int = 1 << 30) -> Iterator[TopicWorld]:
    """Worlds of every shape that have not run yet, for tests that count over many."""
    for order, partitions in SHAPES:
        for seed in range(seeds):
            yield TopicWorld(seed, order, partitions, readers, capacity_bytes, eager=eager)


@every_shape
@given(seed=SEEDS)
def test_a_late_subscriber_sees_all_of_an_epoch_or_nothing_of_it(order: Order, partitions: int, seed: int) -> None:
    """Atomicity over all partitions, whenever the subscriber joins each of them."""
    world = TopicWorld(seed, order, partitions).run()
    check_atomic(world, world.readers[0])


@every_shape
@given(seed=SEEDS)
def test_there_are_no_holes_in_what_a_subscriber_sees(order: Order, partitions: int, seed: int) -> None:
    """With an epoch, every later one is seen; in a total order that leaves no holes."""
    world = TopicWorld(seed, order, partitions).run()
    check_no_holes(world, world.readers[0])


@every_shape
@given(seed=SEEDS)
def test_the_frontier_is_never_ahead_of_data_still_to_come(order: Order, partitions: int, seed: int) -> None:
    """The merged lower frontier is a lower bound, never moves back, and is empty before the end, which is the end."""
    world = TopicWorld(seed, order, partitions).run()
    check_frontier(world, world.readers[0])


@every_shape
@given(seed=SEEDS)
def test_the_frontier_holds_without_the_filter_too(order: Order, partitions: int, seed: int) -> None:
    """``atomic=False`` gives parts of epochs, but no batch after the frontier has passed it."""
    world = TopicWorld(seed, order, partitions, atomic=False).run()
    check_frontier(world, world.readers[0])
    assert world.readers[0].core.statistics().filtered == 0


@every_shape
@given(seed=SEEDS)
def test_two_subscribers_see_the_same_in_an_epoch_that_both_see(order: Order, partitions: int, seed: int) -> None:
    """What is in an epoch does not depend on who looks."""
    one, other = (reader.seen for reader in TopicWorld(seed, order, partitions, readers=2).run().readers)
    for time in one.keys() & other.keys():
        assert one[time] == other[time], f"epoch {time!r} differs"


@every_shape
@given(seed=SEEDS)
def test_epochs_come_whole_and_none_before_an_earlier_one(order: Order, partitions: int, seed: int) -> None:
    """The assembler gives every epoch that passed, with all of it, in an order that respects the partial order."""
    world = TopicWorld(seed, order, partitions).run()
    assembler = EpochAssembler(world.domain)
    epochs = [epoch for event in world.readers[0].events for epoch in assembler.receive(event)]
    assert {epoch.time for epoch in epochs} == set(world.readers[0].seen)
    assert len(assembler) == 0
    for index, epoch in enumerate(epochs):
        assert sorted(epoch.records) == sorted(world.upstream.published[epoch.time].elements())
        for after in epochs[index + 1 :]:
            assert not world.domain.less_equal(after.time, epoch.time), f"{after.time!r} came after {epoch.time!r}"


@every_shape
@given(seed=SEEDS)
def test_a_subscriber_that_leaves_stops_nobody(order: Order, partitions: int, seed: int) -> None:
    """The first of three leaves in the middle, and the two others still see everything that passes, to the end."""
    world = TopicWorld(seed, order, partitions, readers=3)
    leaver, stayers = world.readers[0], world.readers[1:]
    patience = world.rng.randrange(20)

    def leave_in_the_middle(reader: object) -> bool:
        if len(leaver.events) >= patience and not leaver.has_left:
            world.leave(leaver)
        return True

    world.run(leave_in_the_middle)
    for reader in stayers:
        check_atomic(world, reader)
        check_frontier(world, reader)


def test_overflow_cuts_off_the_slow_subscriber_only() -> None:
    """One that never reads is cut off once its queue is full, and told why; one that keeps up notices nothing."""
    cut_off = 0
    for world in worlds(seeds=60, readers=2, eager=1, capacity_bytes=CAPACITY_BYTES):
        quick, slow = world.readers
        world.run(lambda reader, quick=quick: reader is quick)  # type: ignore[misc]
        assert quick.error is None, world.label
        check_atomic(world, quick)
        check_frontier(world, quick)
        overflows = sum(publisher.statistics().overflows for publisher in world.publishers)
        world.run()
        assert (slow.error is not None) == (overflows > 0), world.label
        if slow.error is None:
            check_frontier(world, slow)
        else:
            assert "fell too far behind" in str(slow.error), world.label
            cut_off += 1
        assert all(publisher.statistics().queued_bytes <= 2 * CAPACITY_BYTES for publisher in world.publishers)
    assert cut_off > 50


def test_what_does_not_pass_is_never_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Payloads are decoded on demand: as many as were asked for, and none of those that were filtered."""
    decoded: list[DataMessage] = []

    def decode_and_tell(message: DataMessage) -> object:
        decoded.append(message)
        return encoded_message.decode_batch(message)

    monkeypatch.setattr(events, "decode_batch", decode_and_tell)
    filtered = 0
    for world in worlds(seeds=30):
        decoded.clear()
        reader = world.run().readers[0]
        assert not decoded, "nobody has asked for a record yet"
        delivered = [event for event in reader.events if isinstance(event, Batch)]
        assert all(batch.records and batch.records for batch in delivered)
        statistics = reader.core.statistics()
        assert len(decoded) == len(delivered) == statistics.delivered == statistics.decoded
        filtered += statistics.filtered
    assert filtered > 100


def test_the_worlds_are_not_trivial() -> None:
    """Over many seeds, subscribers see some epochs and miss others, and some messages come twice."""
    seen = missed = duplicates = 0
    for world in worlds(seeds=100):
        reader = world.run().readers[0]
        seen += len(reader.seen)
        missed += len(world.upstream.published.keys() - reader.seen.keys())
        duplicates += reader.core.statistics().duplicates
    assert seen > 500
    assert missed > 500
    assert duplicates > 500


class UpperFrontierOnly(EpochFilter):
    """The rule for one partition, applied to several: it forgets what a partition had completed."""

    def passes(self, time: Time) -> bool:
        return not any(self._domain.less_equal(time, element) for element in self._upper)


def epochs_in_part(partitions: int) -> int:
    """Count the worlds in which a subscriber sees part of an epoch."""
    broken = 0
    for seed in range(200):
        world = TopicWorld(seed, "total", partitions).run()
        try:
            check_atomic(world, world.readers[0])
        except AssertionError:
            broken += 1
    return broken


def test_the_upper_frontier_alone_is_not_enough_for_several_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker catches the rule that looks at upper frontiers only: so it can catch anything at all."""
    assert epochs_in_part(partitions=2) == 0
    monkeypatch.setattr(subscriber, "EpochFilter", UpperFrontierOnly)
    assert epochs_in_part(partitions=1) == 0
    assert epochs_in_part(partitions=2) > 0
