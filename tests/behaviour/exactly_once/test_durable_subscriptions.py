"""Subscriptions of a pubend with a real log: who has them, over restarts, and what becomes of those nobody reads."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.exactly_once.partitions import DEADLINE_S, Partition, cursors, opened
from tests.kit.messages import raises
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_messages import Begun, KnowledgeMessage, Nack
from tidewheel.pubsub.messages.encoded_message import decode
from tidewheel.pubsub.messages.tick_set import FOREVER
from tidewheel.pubsub.messages.wire import DataMessage, InitialFrontierSnapshot
from tidewheel.storage.files import Files


def end_of(begun: Begun) -> int:
    """Return up to where all is acknowledged."""
    return begun.acknowledged[0][1] if begun.acknowledged else 0


def contents(partition: Partition, child: str, first: int) -> list[bytes]:
    """Return what a child gets that asks for all from a tick on."""
    partition.told.clear()
    partition.core.join(child)
    partition.core.nack(child, Nack(0, ((first, FOREVER),), 1 << 20))
    messages = [one for at, one in partition.told if at == child and isinstance(one, KnowledgeMessage)]
    events = [decode(message) for one in messages for _, message in one.data]
    return [bytes(event.payload) for event in events if isinstance(event, DataMessage)]


def publish(partition: Partition, *times: int, size: int = 1) -> None:
    for time in times:
        partition.send(time, bytes([time]) * size)
        partition.advance(time, time + 1)
    partition.settle()


# ---------------------------------------------------------------------- who has a subscription


@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])
def test_the_newest_reader_has_it(tmp_path: Path, restarts: bool) -> None:
    """The one before is told at once, and whenever it acknowledges, which is not taken; it does not get it back."""
    partition = Partition(tmp_path)
    try:
        partition.core.subscribe("billing", "first", 0, durable=True)
        partition.core.join("first")
        publish(partition, 0)
        partition.ack("first", (0, 5))
        assert partition.strangers() == []
        begun = partition.core.subscribe("billing", "second", durable=True)
        assert partition.strangers() == [("first", "first")]
        assert begun.acknowledged == ((0, 5),)
        partition.settle()
        if restarts:
            partition.core.close()
            partition = Partition(tmp_path)
        partition.ack("first", (0, 1 << 60))
        assert partition.strangers() == [("first", "first")]
        with raises(DeliveryError):
            partition.core.subscribe("billing", "first", 5, durable=True, again=True)
        assert partition.core.subscribe("billing", "second", durable=True, again=True).acknowledged == ((0, 5),)
        partition.ack("second", (0, 6))
        assert partition.strangers() == []
        assert partition.core.subscriptions.known["billing"].acknowledged.ranges() == ((0, 6),)
    finally:
        partition.core.close()


def test_a_reader_has_one_subscription(tmp_path: Path) -> None:
    """Its id is its own."""
    with opened(tmp_path) as partition:
        partition.core.subscribe("one", "reader", durable=False)
        with raises(DeliveryError):
            partition.core.subscribe("other", "reader", durable=False)
        assert partition.core.subscribe("one", "reader", durable=False, again=True).lost_end == 0


def test_where_it_first_began_is_known_for_good(tmp_path: Path) -> None:
    """Over restarts, and when the files are gone that told of it; where it goes on, it goes on."""
    with opened(tmp_path, segment_bytes=2000, cache_bytes=0) as partition:
        publish(partition, 0, 1)
        begun = partition.core.subscribe("billing", "first", durable=True)
        assert begun.first_frontiers == begun.frontiers == InitialFrontierSnapshot([2], [])
        for at in range(2, 40):
            publish(partition, at, size=200)
            partition.ack("first", (0, partition.core.written_tick + 1))
            partition.core.look()
        partition.settle()
        partition.core.look()
        assert partition.core.trim() > 2000
        assert len(partition.core.log.segments()) < 3
    with opened(tmp_path) as partition:
        begun = partition.core.subscribe("billing", "second", durable=True)
        assert begun.first_frontiers == InitialFrontierSnapshot([2], [])
        assert begun.frontiers == InitialFrontierSnapshot([40], [])


def test_one_that_is_not_durable_is_a_stranger_after_a_restart(tmp_path: Path) -> None:
    """Its reader says where it was, and goes on there; if it does not say, all that there is is kept for it."""
    with opened(tmp_path) as partition:
        partition.core.subscribe("live", "reader", 0, durable=False)
        publish(partition, 0)
        second = partition.core.written_tick + 1
        publish(partition, 1)
    with opened(tmp_path) as partition:
        partition.ack("reader", (0, second))
        assert partition.strangers() == [("reader", "reader")]
        begun = partition.core.subscribe("live", "reader", second, durable=False, again=True)
        assert (begun.acknowledged, begun.lost_end) == (((0, second),), 0)
        assert partition.core.subscribe("other", "other", durable=False, again=True).acknowledged == ()
        assert contents(partition, "reader", second) == [b"\1"]


def test_the_last_word_counts(tmp_path: Path) -> None:
    """Also what comes later by another way, until there is another reader; others take nothing from it."""
    with opened(tmp_path) as partition:
        partition.core.subscribe("billing", "first", 0, durable=True)
        partition.core.unsubscribe("first", ((0, 5),))
        assert partition.core.subscriptions.is_durable("billing")
        assert not partition.core.subscriptions.is_logged("billing")
        partition.settle()
        assert partition.core.subscriptions.is_logged("billing")
        partition.ack("first", (0, 8))
    with opened(tmp_path) as partition:
        partition.ack("first", (0, 9))
        assert partition.core.subscribe("billing", "second", durable=True).acknowledged == ((0, 9),)
        partition.core.unsubscribe("first", ((0, 20),))
        partition.ack("first", (0, 20))
        assert partition.core.subscriptions.known["billing"].acknowledged.ranges() == ((0, 9),)


def test_one_that_is_not_durable_ends_with_its_reader(tmp_path: Path) -> None:
    """What it needed may go."""
    with opened(tmp_path) as partition:
        partition.core.subscribe("live", "reader", 0, durable=False)
        partition.core.unsubscribe("reader")
        assert "live" not in partition.core.subscriptions.known
        assert partition.core.subscriptions.is_logged("live")


def test_one_that_was_ended_does_not_come_back_by_itself(tmp_path: Path) -> None:
    """Its reader is told; who wants it subscribes anew, and begins there."""
    with opened(tmp_path) as partition:
        partition.core.subscribe("billing", "first", 0, durable=True)
        partition.core.end("billing")
        partition.settle()
    with opened(tmp_path) as partition:
        publish(partition, 0)
        with raises(DeliveryError):
            partition.core.subscribe("billing", "first", 0, durable=True, again=True)
        begun = partition.core.subscribe("billing", "second", durable=True)
        assert end_of(begun) == partition.core.written_tick + 1


def test_what_was_acknowledged_before_it_closes_is_durable(tmp_path: Path) -> None:
    """Without waiting for a look."""
    with opened(tmp_path) as partition:
        partition.core.subscribe("billing", "reader", 0, durable=True)
        publish(partition, 0)
        end = partition.core.written_tick + 1
        partition.ack("reader", (0, end))
    with opened(tmp_path) as partition:
        assert cursors(partition.core) == {"billing": ((0, end),)}


# ---------------------------------------------------------------------- what is not kept


def abandoned(partition: Partition, *, is_missing: bool) -> int:
    """Abandon a subscription with what another one needs no more; return where it was."""
    partition.core.subscribe("billing", "first", 0, durable=True)
    partition.core.subscribe("other", "other", 0, durable=True)
    publish(partition, 0)
    end = partition.core.written_tick + 1
    partition.ack("first", (0, end))
    if is_missing:
        for at in range(1, 20):
            publish(partition, at, size=300)
    partition.core.look()
    partition.settle()
    partition.core.abandon("billing")
    partition.ack("other", (0, partition.core.written_tick + 1_000_000))
    partition.core.look()
    partition.settle()
    partition.core.look()
    assert (partition.core.trim() > 0) == is_missing
    return end


@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])
def test_an_abandoned_one_that_has_missed_something_is_told(tmp_path: Path, restarts: bool) -> None:
    """Whoever reads it, also over restarts, until one of them acknowledges; then it is as any other."""
    partition = Partition(tmp_path, segment_bytes=1000)
    try:
        end = abandoned(partition, is_missing=True)
        assert list(cursors(partition.core)) == ["other"]
        for reader in ("second", "third"):
            if restarts:
                partition.core.close()
                partition = Partition(tmp_path, segment_bytes=1000)
            begun = partition.core.subscribe("billing", reader, 0, durable=True)
            assert end < begun.lost_end <= end_of(begun)
            assert begun == partition.core.subscribe("billing", reader, 0, durable=True, again=True)
            partition.settle()
        if restarts:
            partition.core.close()
            partition = Partition(tmp_path, segment_bytes=1000)
        partition.strangers()
        partition.ack("third")
        assert partition.strangers() == []
        partition.core.look()
        partition.settle()
        begun = partition.core.subscribe("billing", "fourth", 0, durable=True)
        assert (begun.lost_end, begun.acknowledged == ()) == (0, False)
    finally:
        partition.core.close()


def test_who_leaves_has_been_told(tmp_path: Path) -> None:
    """The next begins with what there is."""
    with opened(tmp_path, segment_bytes=1000) as partition:
        abandoned(partition, is_missing=True)
        assert partition.core.subscribe("billing", "second", durable=True).lost_end
        partition.core.unsubscribe("second")
    with opened(tmp_path, segment_bytes=1000) as partition:
        assert partition.core.subscribe("billing", "third", durable=True).lost_end == 0


@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])
def test_an_abandoned_one_that_has_missed_nothing_goes_on(tmp_path: Path, restarts: bool) -> None:
    """However much silence others have acknowledged meanwhile; what came after that it gets."""
    partition = Partition(tmp_path)
    try:
        end = abandoned(partition, is_missing=False)
        if restarts:
            partition.core.close()
            partition = Partition(tmp_path)
            partition.core.look()
            partition.core.look()
        partition.send(1, b"next")
        partition.settle()
        begun = partition.core.subscribe("billing", "second", durable=True)
        assert (begun.lost_end, end_of(begun), begun.first_frontiers.lower) == (0, end, [0])
        assert contents(partition, "second", end) == [b"next"]
    finally:
        partition.core.close()


def test_an_abandoned_one_holds_nothing_and_can_be_ended(tmp_path: Path) -> None:
    """Then nothing is known of it."""
    with opened(tmp_path, segment_bytes=1000) as partition:
        abandoned(partition, is_missing=True)
        partition.core.end("billing")
        partition.settle()
    with opened(tmp_path, segment_bytes=1000) as partition:
        assert partition.core.subscribe("billing", "second", durable=True).lost_end == 0


def test_its_reader_knows_better_where_it_was(tmp_path: Path) -> None:
    """What it has acknowledged last may not have been heard: it has lost nothing then."""
    with opened(tmp_path, segment_bytes=1000) as partition:
        end = abandoned(partition, is_missing=True)
        kept = partition.core._pubend.fanout.lost_end
        begun = partition.core.subscribe("billing", "first", kept, durable=True, again=True)
        assert (begun.lost_end, end < kept <= end_of(begun)) == (0, True)


@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])
def test_who_wants_to_begin_earlier_than_what_is_kept_is_told(tmp_path: Path, restarts: bool) -> None:
    """And who just asks, without a subscription, finds out by what he is told."""
    partition = Partition(tmp_path, segment_bytes=1000)
    try:
        end = abandoned(partition, is_missing=True)
        if restarts:
            partition.core.close()
            partition = Partition(tmp_path, segment_bytes=1000)
        assert partition.core.subscribe("earliest", "1", 0, durable=False).lost_end == 0
        assert partition.core.subscribe("late", "2", FOREVER - 1, durable=False).lost_end == 0
        assert partition.core.subscribe("tick", "3", end, durable=False).lost_end > end
        assert partition.core.subscribe("again", "4", end, durable=False, again=True).lost_end > end
        contents(partition, "nobody", end)
        [told] = [message for child, message in partition.told if child == "nobody"]
        assert isinstance(told, KnowledgeMessage)
        assert told.lost_end > end
    finally:
        partition.core.close()


def test_old_files_go_where_there_are_no_subscriptions(tmp_path: Path) -> None:
    """Those that ended before a time; with a subscription they stay for as long as that needs them."""
    with opened(tmp_path, segment_bytes=1000) as partition:
        for at in range(20):
            publish(partition, at, size=500)
        partition.core.look()
        [*old, _, newest] = [one.ended_s for one in partition.core.log.segments()]
        assert newest is None
        assert old[2] is not None
        partition.core.expire(old[2])
        partition.core.look()
        assert partition.core.trim() > 1000
        assert partition.core.log.segments()[0].ended_s == old[2]
        partition.core.subscribe("billing", "reader", 0, durable=True)
        partition.core.expire(FOREVER)
        partition.core.look()
        assert partition.core.trim() == 0


# ---------------------------------------------------------------------- what is durable when


class Gate(Files):
    """A disk that syncs when it is told to."""

    def __init__(self) -> None:
        self.may_sync = threading.Semaphore(1000)

    def sync(self, descriptor: int) -> None:
        """Wait, then sync."""
        assert self.may_sync.acquire(timeout=DEADLINE_S)
        super().sync(descriptor)


def test_a_note_that_is_durable_says_nothing_of_messages_behind_it(tmp_path: Path) -> None:
    """Also where the clock stands still, or was set back."""
    files = Gate()
    with opened(tmp_path, clock=lambda: 5.0, files=files) as partition:
        partition.core.join("child")
        files.may_sync = threading.Semaphore(1)
        partition.core.subscribe("billing", "reader", 0, durable=True)
        partition.turn_until(lambda: partition.core.subscriptions.is_logged("billing"))
        partition.core.end("billing")
        first_note = partition.core.writer.last_tick
        partition.send(0, b"a")
        assert partition.core.written_tick > first_note
        partition.turn()
        told = [message for _, message in partition.told if isinstance(message, KnowledgeMessage) and message.data]
        assert (told, partition.core.writer.durable_tick < partition.core.written_tick) == ([], True)
        files.may_sync.release(1000)
        partition.settle()


def _note_nothing(partition: Partition) -> None:
    partition.ack("first", (0, partition.core.written_tick + 1))


def _abandon(partition: Partition) -> None:
    partition.core.abandon("billing")


def _end(partition: Partition) -> None:
    partition.core.end("billing")


@pytest.mark.parametrize("change", [_note_nothing, _abandon, _end], ids=["acknowledged", "abandoned", "ended"])
def test_files_stay_until_it_is_durable_that_they_are_not_needed(
    tmp_path: Path, change: Callable[[Partition], None]
) -> None:
    """A publisher that dies before that finds everything that the log then says is needed."""
    files = Gate()
    partition = Partition(tmp_path / "log", segment_bytes=1000, files=files)
    partition.core.subscribe("billing", "first", 0, durable=True)
    partition.core.subscribe("other", "other", 0, durable=True)
    for at in range(10):
        publish(partition, at, size=500)
    partition.ack("other", (0, partition.core.written_tick + 1))
    partition.core.look()
    partition.settle()
    files.may_sync = threading.Semaphore(0)
    change(partition)
    partition.core.look()
    partition.core.look()
    assert partition.core.trim() == 0
    files.may_sync.release(1000)
    partition.settle()
    partition.core.look()
    assert partition.core.trim() > 1000
    partition.core.close()
