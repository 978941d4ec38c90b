"""The queue of one subscriber."""

from tidewheel.pubsub.outgoing_queue import OutgoingQueue, size_of
from tidewheel.pubsub.wire import DataMessage, Disconnected, End, InitialFrontierSnapshot, LowerFrontierUpdate, Numbered


def data(sequence: int) -> Numbered:
    return Numbered(sequence, DataMessage(0, b"", "pickle", 1))


def test_messages_stay_until_they_are_acknowledged() -> None:
    """Reading removes nothing, so a lost reply loses nothing; acknowledging frees the room."""
    queue = OutgoingQueue(100)
    assert all(queue.offer(data(number), 30) for number in (1, 2, 3))
    assert queue.head(1000) == queue.head(1000) == [data(1), data(2), data(3)]
    queue.acknowledge(2)
    assert queue.head(1000) == [data(3)]
    assert (queue.bytes, len(queue)) == (30, 1)
    queue.acknowledge(1)
    assert len(queue) == 1


def test_a_message_that_does_not_fit_is_not_taken() -> None:
    """The bound is in bytes, to the byte; what was there stays."""
    queue = OutgoingQueue(100)
    assert queue.offer(data(1), 60)
    assert not queue.offer(data(2), 41)
    assert queue.offer(data(2), 40)
    assert queue.bytes == 100


def test_there_is_room_for_one_message_of_any_size_and_for_the_last_one() -> None:
    """A batch larger than the capacity can be delivered, and a full queue still takes the end."""
    queue = OutgoingQueue(100)
    assert queue.offer(data(1), 1000)
    assert not queue.offer(data(2), 1)
    assert queue.offer(Numbered(2, End()), size_of(End()))


def test_head_stops_at_the_limit_but_not_before_the_first() -> None:
    """A reply is bounded, and never empty while something waits."""
    queue = OutgoingQueue(1000)
    for number in (1, 2, 3):
        queue.offer(data(number), 50)
    assert [numbered.sequence for numbered in queue.head(100)] == [1, 2]
    assert [numbered.sequence for numbered in queue.head(1)] == [1]
    assert OutgoingQueue(10).head(1) == []


def test_closing_frees_everything_but_the_reason() -> None:
    """One that is cut off keeps no memory, and learns why."""
    queue = OutgoingQueue(100)
    queue.offer(data(1), 90)
    queue.close(Numbered(2, Disconnected("why")))
    assert queue.is_closed
    assert queue.bytes == 0
    assert queue.head(1000) == [Numbered(2, Disconnected("why"))]


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
