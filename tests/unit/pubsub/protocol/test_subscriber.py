"""The subscriber core, and its filter over the messages of all partitions."""

import pytest

from tests.kit.messages import raises
from tidewheel.progress import Antichain, IntegerDomain, ProductDomain, ProtocolError
from tidewheel.pubsub.errors import DeliveryError, PublisherLost, TopicStopped
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.events import Batch, Dropped, End, Event, Frontier
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    EpochsDropped,
    Failed,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Numbered,
    PartitionEnded,
    Rejected,
)
from tidewheel.pubsub.protocol.epochs import EpochFilter
from tidewheel.pubsub.protocol.subscriber import Subscriber

INTEGERS = IntegerDomain()
PAIRS = ProductDomain(INTEGERS, INTEGERS)


class Conversation:
    """Sends messages to a subscriber with the right numbers, so that tests read as what was said."""

    def __init__(self, partitions: int, *, atomic: bool = True, may_drop: bool = False) -> None:
        self.subscriber = Subscriber(INTEGERS, partitions, atomic=atomic, may_drop=may_drop, topic="ranks")
        self._sequences = [-1] * partitions

    def say(self, partition: int, message: Message) -> list[Event]:
        self._sequences[partition] += 1
        return self.subscriber.receive(partition, Numbered(self._sequences[partition], message))

    def snapshot(self, partition: int, lower: list[int], upper: list[int]) -> list[Event]:
        return self.say(partition, InitialFrontierSnapshot(lower, upper))

    def data(self, partition: int, time: int) -> list[Event]:
        return self.say(partition, encode_batch(time, [f"{partition}@{time}"]))


def frontier(*times: int) -> Frontier:
    return Frontier(Antichain(INTEGERS, times))


def times(events: list[Event]) -> list[int]:
    return [event.time for event in events if isinstance(event, Batch)]


def test_a_subscriber_from_the_start_sees_everything() -> None:
    """With nothing missed, nothing is filtered, and the first event is the frontier."""
    talk = Conversation(1)
    assert talk.snapshot(0, [0], []) == [frontier(0)]
    assert times(talk.data(0, 0)) == [0]
    assert talk.say(0, LowerFrontierUpdate([(0, -1), (1, 1)])) == [frontier(1)]
    assert talk.say(0, LowerFrontierUpdate([(1, -1)])) == [frontier()]
    assert talk.say(0, PartitionEnded()) == [End()]
    assert talk.subscriber.is_ended


def test_messages_wait_until_all_snapshots_are_there() -> None:
    """Until then there is no event, and the partitions to read are those whose snapshot is missing."""
    talk = Conversation(2)
    assert talk.snapshot(0, [0], []) == []
    assert talk.data(0, 0) == talk.data(0, 3) == []
    assert talk.subscriber.wanted == [1]
    assert list(talk.subscriber.frontier) == [0]
    events = talk.snapshot(1, [0], [1])
    assert events[0] == frontier(0)
    assert times(events) == [3]
    assert talk.subscriber.wanted == [0, 1]


def test_what_does_not_pass_is_counted_and_not_decoded() -> None:
    """The payload of a filtered message is never looked at: here it is no payload at all."""
    talk = Conversation(1)
    talk.snapshot(0, [0], [5])
    assert talk.say(0, DataMessage(4, b"not a payload", "pickle", 1)) == []
    [event] = talk.data(0, 6)
    assert isinstance(event, Batch)
    assert event.records == ["0@6"]
    statistics = talk.subscriber.statistics()
    assert (statistics.filtered, statistics.delivered, statistics.decoded) == (1, 1, 1)


def test_without_the_filter_everything_comes() -> None:
    """``atomic=False`` delivers what is left of epochs whose beginning was missed."""
    talk = Conversation(1, atomic=False)
    talk.snapshot(0, [0], [5])
    assert times(talk.data(0, 4)) == [4]


def test_the_frontier_is_that_of_the_slowest_partition() -> None:
    """It moves when the last partition has moved."""
    talk = Conversation(2)
    talk.snapshot(0, [0], [])
    talk.snapshot(1, [2], [])
    assert list(talk.subscriber.frontier) == [0]
    assert talk.say(0, LowerFrontierUpdate([(0, -1), (4, 1)])) == [frontier(2)]
    assert talk.say(1, LowerFrontierUpdate([(2, -1), (9, 1)])) == [frontier(4)]


def test_a_partition_that_ends_holds_nobody_back() -> None:
    """The frontier goes on with the others, and the topic ends with the last one."""
    talk = Conversation(2)
    for partition in (0, 1):
        talk.snapshot(partition, [0], [])
    talk.say(0, LowerFrontierUpdate([(0, -1)]))
    assert talk.say(0, PartitionEnded()) == []
    assert talk.subscriber.wanted == [1]
    assert talk.say(1, LowerFrontierUpdate([(0, -1), (7, 1)])) == [frontier(7)]
    assert talk.say(1, LowerFrontierUpdate([(7, -1)])) == [frontier()]
    assert talk.say(1, PartitionEnded()) == [End()]


def test_a_topic_that_is_over_ends_at_once() -> None:
    """Snapshots with empty frontiers, and the ends, are all there is."""
    talk = Conversation(2)
    talk.snapshot(0, [], [])
    talk.say(0, PartitionEnded())
    assert talk.snapshot(1, [], []) == [frontier()]
    assert talk.say(1, PartitionEnded()) == [End()]


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_failure_of_one_partition_is_an_error_that_names_it(is_ready: bool) -> None:
    """Whether or not the subscriber has begun: a failed publisher is never silence."""
    talk = Conversation(2)
    talk.snapshot(1, [0], [])
    if is_ready:
        talk.snapshot(0, [0], [])
    with raises(PublisherLost) as caught:
        talk.say(1, Failed("it broke"))
    assert (caught.value.topic, caught.value.partition) == ("ranks", 1)


def test_a_partition_that_is_stopped_does_not_cut_off_the_others() -> None:
    """What they have published is received first, so no whole epoch is missing; then an error says it, not an End."""
    talk = Conversation(3)
    for partition in range(3):
        talk.snapshot(partition, [0], [])
    assert talk.say(0, LowerFrontierUpdate([(0, -1), (2, 1)])) == []
    assert talk.say(0, Failed("job 'j' was stopped", on_purpose=True)) == []
    talk.say(1, LowerFrontierUpdate([(0, -1)]))
    assert talk.say(1, PartitionEnded()) == []
    assert times(talk.data(2, 0)) == [0]
    assert talk.say(2, LowerFrontierUpdate([(0, -1), (1, 1)])) == [frontier(1)]
    with raises(TopicStopped):
        talk.say(2, Failed("job 'j' was stopped", on_purpose=True))
    assert list(talk.subscriber.frontier) == [1]


def test_a_stop_before_the_last_end_is_told_with_that() -> None:
    """Whichever partition has the last word."""
    talk = Conversation(2)
    talk.snapshot(0, [0], [])
    talk.snapshot(1, [], [])
    talk.say(0, Failed("job 'j' was stopped", on_purpose=True))
    with pytest.raises(TopicStopped):
        talk.say(1, PartitionEnded())


def test_being_cut_off_is_an_error_but_no_loss_of_the_publisher() -> None:
    """The error says why; the topic itself goes on."""
    talk = Conversation(1)
    talk.snapshot(0, [0], [])
    with raises(DeliveryError) as caught:
        talk.say(0, Rejected(0, "too slow"))
    assert not isinstance(caught.value, PublisherLost)


def test_a_gap_is_a_protocol_error() -> None:
    """A message that went missing is noticed with the next one."""
    subscriber = Subscriber(INTEGERS, 1)
    subscriber.receive(0, Numbered(4, InitialFrontierSnapshot([0], [])))
    with raises(ProtocolError):
        subscriber.receive(0, Numbered(6, PartitionEnded()))


def test_duplicates_change_nothing() -> None:
    """A message that comes twice is delivered once, and counted."""
    subscriber = Subscriber(INTEGERS, 1)
    subscriber.receive(0, Numbered(0, InitialFrontierSnapshot([0], [])))
    message = Numbered(1, encode_batch(0, [1]))
    assert len(subscriber.receive(0, message)) == 1
    assert subscriber.receive(0, message) == []
    statistics = subscriber.statistics()
    assert (statistics.received, statistics.duplicates, statistics.delivered) == (2, 1, 1)


def begun(partitions: int, *, atomic: bool = True) -> Conversation:
    """A conversation of one that may lose epochs, from the start of the topic on."""
    talk = Conversation(partitions, atomic=atomic, may_drop=True)
    for partition in range(partitions):
        talk.snapshot(partition, [0], [])
    return talk


def test_where_epochs_may_be_dropped_batches_come_once_their_epoch_is_complete() -> None:
    """Before that no one knows that all partitions have sent their part; they come in the order of the times."""
    talk = begun(2)
    assert talk.data(0, 1) == talk.data(0, 0) == talk.data(1, 0) == []
    assert talk.say(0, LowerFrontierUpdate([(0, -1), (2, 1)])) == []
    events = talk.say(1, LowerFrontierUpdate([(0, -1), (3, 1)]))
    assert times(events) == [0, 0, 1]
    assert events[-1] == frontier(2)
    assert talk.subscriber.statistics().delivered == 3


def test_an_epoch_that_one_partition_dropped_is_dropped() -> None:
    """What others had sent of it, and what they still send, is not delivered; it is told at once, and once."""
    talk = begun(3)
    assert talk.data(0, 0) == []
    assert talk.say(1, EpochsDropped([0, 1])) == [Dropped((0, 1))]
    assert talk.say(2, EpochsDropped([1])) == []
    assert talk.data(2, 0) == talk.data(0, 2) == []
    for partition in (0, 1):
        assert talk.say(partition, LowerFrontierUpdate([(0, -1), (3, 1)])) == []
    events = talk.say(2, LowerFrontierUpdate([(0, -1), (3, 1)]))
    assert times(events) == [2]
    statistics = talk.subscriber.statistics()
    assert (statistics.epochs_dropped, statistics.delivered, statistics.filtered) == (2, 1, 2)
    assert statistics.decoded == 0


def test_an_epoch_that_would_not_have_passed_is_not_told_as_dropped() -> None:
    """Who came too late for it has lost nothing."""
    talk = Conversation(1, may_drop=True)
    talk.snapshot(0, [0], [5])
    assert talk.say(0, EpochsDropped([4, 6])) == [Dropped((6,))]


def test_what_was_dropped_is_forgotten_once_it_is_over() -> None:
    """Memory does not grow with the epochs that were ever dropped."""
    talk = begun(1)
    for time in range(100):
        assert talk.say(0, EpochsDropped([time])) == [Dropped((time,))]
        assert talk.say(0, LowerFrontierUpdate([(time, -1), (time + 1, 1)])) == [frontier(time + 1)]
    assert len(talk.subscriber._dropped) == 0
    assert talk.subscriber.statistics().epochs_dropped == 100


def test_without_atomicity_batches_come_at_once() -> None:
    """Parts were asked for: only what comes after the news of a drop is left out."""
    talk = begun(2, atomic=False)
    assert times(talk.data(0, 0)) == [0]
    assert talk.say(1, EpochsDropped([0])) == [Dropped((0,))]
    assert talk.data(0, 0) == []


def test_a_failure_delivers_no_half_epochs() -> None:
    """What was held of epochs that are not complete never comes."""
    talk = begun(2)
    talk.data(0, 0)
    with pytest.raises(PublisherLost):
        talk.say(1, Failed("it broke"))
    assert talk.subscriber.statistics().delivered == 0


def passing(epochs: EpochFilter, times: range) -> list[int]:
    return [time for time in times if epochs.passes(time)]


def test_the_seeds_example_leaves_no_hole() -> None:
    """Completed 0 to 2, active 3 and 5: 4 does not pass although it is latent, so that 5 is no hole."""
    assert passing(EpochFilter(INTEGERS, [InitialFrontierSnapshot([3], [5])]), range(9)) == [6, 7, 8]


def test_an_epoch_that_one_partition_completed_and_another_has_not_begun_does_not_pass() -> None:
    """The first partition's part of it is gone, though it is below no upper frontier."""
    epochs = EpochFilter(INTEGERS, [InitialFrontierSnapshot([4], []), InitialFrontierSnapshot([0], [])])
    assert passing(epochs, range(6)) == [4, 5]


def test_incomparable_times_pass() -> None:
    """What is neither before nor after an active epoch was latent: nothing of it can have been missed."""
    epochs = EpochFilter(PAIRS, [InitialFrontierSnapshot([(0, 0)], [(2, 1)])])
    assert epochs.passes((0, 2))
    assert epochs.passes((3, 0))
    assert not epochs.passes((2, 1))
    assert not epochs.passes((1, 0))


def test_nothing_passes_once_a_partition_has_ended() -> None:
    """A partition whose lower frontier is empty has sent its part of every epoch."""
    epochs = EpochFilter(INTEGERS, [InitialFrontierSnapshot([], []), InitialFrontierSnapshot([0], [])])
    assert passing(epochs, range(5)) == []


def test_it_is_done_when_all_that_can_come_passes() -> None:
    """The filter can be dropped when every element of the frontier passes, and always at the end."""
    epochs = EpochFilter(PAIRS, [InitialFrontierSnapshot([(0, 0)], [(1, 1)])])
    assert not epochs.is_done(Antichain(PAIRS, [(1, 0), (0, 2)]))
    assert epochs.is_done(Antichain(PAIRS, [(2, 0), (0, 2)]))
    assert epochs.is_done(Antichain(PAIRS))
