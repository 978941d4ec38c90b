"""The queue of one subscriber."""

from tests.kit.pubsub.numbered import head, posted
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.tick_set import FOREVER
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    EpochsDropped,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Numbered,
    PartitionEnded,
    Rejected,
)
from tidewheel.pubsub.protocol.dropping_queue import DROPPED_BYTES, DroppingQueue
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.protocol.posted import size_of

ALL = 1 << 20
DROP = DeliveryOptions(slow="drop_epochs")


def data(sequence: int, time: int = 0) -> Numbered:
    return Numbered(sequence, DataMessage(time, b"", "pickle", 1))


def batch(time: int, size: int = 300) -> DataMessage:
    return DataMessage(time, b"x" * (size - size_of(DataMessage(time, b"", "pickle", 1))), "pickle", 1)


def moved(time: int, to: int | None = None) -> LowerFrontierUpdate:
    return LowerFrontierUpdate([(time, -1), (time + 1 if to is None else to, 1)])


class Dropping:
    """A queue of 1000 bytes that drops epochs, and what is offered to it under the numbers 1, 2, 3 and so on."""

    def __init__(self, capacity_bytes: int = 1000) -> None:
        self.queue = DroppingQueue(capacity_bytes, DROP)
        self.sequence = 0

    def offer(self, *messages: Message) -> bool:
        for message in messages:
            self.sequence += 1
            if not self.queue.offer(posted(Numbered(self.sequence, message), size_of(message))):
                return False
        return True

    def waiting(self) -> list[Message]:
        return [numbered.message for numbered in head(self.queue, ALL)]


def test_messages_stay_until_they_are_acknowledged() -> None:
    """Reading removes nothing, so a lost reply loses nothing; acknowledging frees the room."""
    queue = OutgoingQueue(100)
    assert all(queue.offer(posted(data(number), 30)) for number in (1, 2, 3))
    assert head(queue, 1000) == head(queue, 1000) == [data(1), data(2), data(3)]
    queue.acknowledge(2)
    assert head(queue, 1000) == [data(3)]
    assert (queue.bytes, len(queue)) == (30, 1)
    queue.acknowledge(1)
    assert len(queue) == 1


def test_a_message_that_does_not_fit_is_not_taken() -> None:
    """The bound is in bytes, to the byte; what was there stays."""
    queue = OutgoingQueue(100)
    assert queue.offer(posted(data(1), 60))
    assert not queue.offer(posted(data(2), 41))
    assert queue.offer(posted(data(2), 40))
    assert queue.bytes == 100


def test_there_is_room_for_one_message_of_any_size_and_for_the_last_one() -> None:
    """A batch larger than the capacity can be delivered, and a full queue still takes the end."""
    queue = OutgoingQueue(100)
    assert queue.offer(posted(data(1), 1000))
    assert not queue.offer(posted(data(2), 1))
    assert queue.offer(posted(Numbered(2, PartitionEnded()), size_of(PartitionEnded())))


def test_head_stops_at_the_limit_but_not_before_the_first() -> None:
    """A reply is bounded, and never empty while something waits."""
    queue = OutgoingQueue(1000)
    for number in (1, 2, 3):
        queue.offer(posted(data(number), 50))
    assert [numbered.sequence for numbered in head(queue, 100)] == [1, 2]
    assert [numbered.sequence for numbered in head(queue, 1)] == [1]
    assert head(OutgoingQueue(10), 1) == []


def test_closing_frees_everything_but_the_reason() -> None:
    """One that is cut off keeps no memory, and learns why."""
    queue = OutgoingQueue(100)
    queue.offer(posted(data(1), 90))
    queue.close(2, "why")
    assert queue.is_closed
    assert queue.bytes == 0
    assert head(queue, 1000) == [Numbered(FOREVER, Rejected(0, "why"))]


def test_small_messages_count_too() -> None:
    """A queue of empty batches, or of moves of the frontier, is bounded as well."""
    for message in (
        DataMessage(0, b"", "pickle", 0),
        LowerFrontierUpdate([]),
        InitialFrontierSnapshot([], []),
    ):
        assert size_of(message) > 0
    assert size_of(DataMessage(0, b"x" * 1000, "pickle", 1)) > 1000
    assert size_of(LowerFrontierUpdate([(0, 1)] * 10)) > size_of(LowerFrontierUpdate([]))


def test_the_oldest_epoch_gives_way_to_a_new_one() -> None:
    """All of it, and in its place stands that it was dropped; the newer ones stay."""
    talk = Dropping()
    assert talk.offer(batch(0), batch(0), batch(1), batch(2))
    assert talk.waiting() == [EpochsDropped([0]), batch(1), batch(2)]
    assert talk.queue.epochs_dropped == 1
    assert talk.queue.bytes == size_of(EpochsDropped([0])) + 600


def test_the_rest_of_a_dropped_epoch_is_not_kept() -> None:
    """What comes of it afterwards counts as taken, and takes no room; once it is over nothing is remembered of it."""
    talk = Dropping()
    talk.offer(batch(0), batch(0), batch(0), batch(1))
    before = talk.queue.bytes
    assert talk.offer(batch(0))
    assert talk.queue.bytes == before
    talk.queue.prune(lambda time: time > 0)
    assert talk.offer(batch(0, size=200))
    assert talk.queue.bytes == before + 200


def test_an_epoch_that_has_begun_to_leave_does_not_give_way() -> None:
    """Of what was handed out once the rest follows; then the new epoch is the one that gives way, and only it."""
    talk = Dropping()
    talk.offer(batch(0))
    head(talk.queue, ALL)
    assert talk.offer(batch(0), batch(0), batch(1))
    assert talk.waiting() == [batch(0), batch(0), batch(0), EpochsDropped([1])]
    assert not talk.offer(batch(0, size=800))


def test_an_epoch_that_has_begun_and_is_over_does_not_give_way_either() -> None:
    """That the frontier has passed it changes nothing as long as more of it waits."""
    talk = Dropping()
    talk.offer(batch(0), batch(0), batch(0))
    assert len(head(talk.queue, 300)) == 1
    talk.queue.acknowledge(1)
    talk.offer(moved(0))
    talk.queue.prune(lambda time: time > 0)
    assert talk.offer(batch(1), batch(2))
    assert batch(0) in talk.waiting()
    assert EpochsDropped([0]) not in talk.waiting()


def test_nothing_is_dropped_for_a_batch_that_does_not_fit_anyway() -> None:
    """Its own epoch goes, and no other."""
    talk = Dropping()
    assert talk.offer(batch(0), batch(1), batch(2, size=2000))
    assert talk.waiting() == [batch(0), batch(1), EpochsDropped([2])]


def test_the_first_parts_of_an_epoch_that_does_not_fit_go_with_it() -> None:
    """An epoch larger than the capacity is dropped whole, in the place where it began."""
    talk = Dropping()
    assert talk.offer(batch(0), batch(0), batch(0), batch(0))
    assert talk.waiting() == [EpochsDropped([0])]


def test_what_was_left_out_is_numbered() -> None:
    """Each message says how many broadcasts before it did not go out, so that a loss is still noticed."""
    talk = Dropping()
    talk.offer(batch(0), batch(0), batch(1), batch(2))
    talk.sequence += 2
    talk.offer(moved(0))
    assert [(one.sequence, one.skipped) for one in head(talk.queue, ALL)] == [(1, 0), (3, 1), (4, 0), (7, 2)]
    assert [(one.sequence, one.skipped) for one in head(talk.queue, ALL)] == [(1, 0), (3, 1), (4, 0), (7, 2)]


def test_notes_that_follow_each_other_are_made_one() -> None:
    """For one that never asks, a million moves of the frontier are one, told after the epochs that were dropped."""
    talk = Dropping()
    talk.offer(batch(0, size=900))
    head(talk.queue, ALL)
    for time in range(1, 50):
        assert talk.offer(batch(time), moved(time - 1))
    talk.queue.acknowledge(1)
    assert talk.waiting() == [EpochsDropped(list(range(1, 50))), moved(0, to=49)]
    found = head(talk.queue, ALL)
    assert found[0].sequence < found[1].sequence == talk.sequence


def test_what_was_dropped_takes_no_room_from_what_is_new() -> None:
    """Of a long row of epochs the last ones are there, however many were dropped before them."""
    talk = Dropping()
    for time in range(200):
        assert talk.offer(batch(time), moved(time))
    assert [message.time for message in talk.waiting() if isinstance(message, DataMessage)] == [199]


def test_notes_are_bounded_too() -> None:
    """One that never asks is cut off when the list of what was dropped is longer than may be."""
    talk = Dropping()
    talk.offer(batch(0, size=900))
    head(talk.queue, ALL)
    taken = 0
    while talk.offer(batch(taken + 1), moved(taken)):
        taken += 1
        assert talk.queue.bytes <= 2000 + DROPPED_BYTES
    assert 500 < taken < 1100


def test_without_dropping_a_note_that_does_not_fit_is_not_taken() -> None:
    """Nothing is made one, and nothing kept beyond the capacity."""
    queue = OutgoingQueue(300)
    assert queue.offer(posted(Numbered(1, moved(0)), size_of(moved(0))))
    assert not queue.offer(posted(Numbered(2, moved(1)), size_of(moved(1))))
    assert queue.bytes == size_of(moved(0))


def test_many_small_epochs_are_dropped_in_reasonable_time() -> None:
    """Room is made for more than one batch at a time: the queue is looked through once for many that come."""
    looked_at = 0

    class Counted(DroppingQueue):
        def _forget(self, entry: object) -> None:
            nonlocal looked_at
            looked_at += 1
            super()._forget(entry)  # type: ignore[arg-type]

    queue = Counted(400_000, DROP)
    for time in range(6000):
        message = batch(time, size=200)
        assert queue.offer(posted(Numbered(time + 1, message), 200))
    assert queue.epochs_dropped > 3000
    assert looked_at < 20 * 6000
