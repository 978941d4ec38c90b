"""The publisher core."""

import pytest

from tidewheel.progress import IntegerDomain, ProtocolError
from tidewheel.pubsub import Publisher
from tidewheel.pubsub.epoch_states import EpochState
from tidewheel.pubsub.wire import (
    DataMessage,
    Disconnected,
    End,
    Failed,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Numbered,
)


def data(time: int, size: int = 10) -> DataMessage:
    return DataMessage(time, b"x" * size, "pickle", 1)


def messages(publisher: Publisher, subscriber: str) -> list[Message]:
    return [numbered.message for numbered in publisher.fetch(subscriber, -1)]


@pytest.fixture
def publisher() -> Publisher:
    return Publisher(IntegerDomain(), capacity_bytes=1000)


def test_the_snapshot_comes_first_and_then_everything_in_order(publisher: Publisher) -> None:
    """A late subscriber gets both frontiers of that moment, and from there on all messages, numbered by one."""
    publisher.feed([data(4), data(2), LowerFrontierUpdate([(0, -1), (1, 1)])])
    publisher.subscribe("s")
    publisher.feed([data(5), LowerFrontierUpdate([(1, -1), (3, 1)])])
    assert publisher.fetch("s", -1) == [
        Numbered(3, InitialFrontierSnapshot([1], [4])),
        Numbered(4, data(5)),
        Numbered(5, LowerFrontierUpdate([(1, -1), (3, 1)])),
    ]


def test_a_new_publisher_has_one_least_time_and_no_upper_frontier(publisher: Publisher) -> None:
    """That is the initial capability upstream."""
    publisher.subscribe("s")
    assert publisher.fetch("s", -1) == [Numbered(0, InitialFrontierSnapshot([0], []))]


def test_an_empty_lower_frontier_ends_the_partition(publisher: Publisher) -> None:
    """The publisher derives the end itself, after the update that empties the frontier."""
    publisher.subscribe("s")
    publisher.frontier([(0, -1)])
    assert messages(publisher, "s")[1:] == [LowerFrontierUpdate([(0, -1)]), End()]
    assert publisher.is_finished
    assert not publisher.has_failed


def test_end_empties_whatever_the_frontier_is(publisher: Publisher) -> None:
    """``end`` is the same as emptying the frontier, and does nothing the second time."""
    publisher.frontier([(0, -1), (7, 1)])
    publisher.subscribe("s")
    publisher.end()
    publisher.end()
    assert messages(publisher, "s")[1:] == [LowerFrontierUpdate([(7, -1)]), End()]


def test_who_comes_after_the_end_is_told_that_it_is_over(publisher: Publisher) -> None:
    """Such a subscriber gets an empty lower frontier and the end, without a gap in the numbers."""
    publisher.data(data(0))
    publisher.end()
    publisher.subscribe("s")
    assert publisher.fetch("s", -1) == [Numbered(2, InitialFrontierSnapshot([], [])), Numbered(3, End())]


def test_a_failure_reaches_everybody_and_those_who_come_after_it(publisher: Publisher) -> None:
    """No subscriber is left in silence; what upstream still sends is dropped."""
    publisher.subscribe("early")
    publisher.fail("it broke")
    publisher.fail("again")
    publisher.feed([data(0), LowerFrontierUpdate([(0, -1)])])
    publisher.subscribe("late")
    assert messages(publisher, "early")[1:] == messages(publisher, "late")[1:] == [Failed("it broke")]
    assert publisher.has_failed


def test_failing_after_the_end_changes_nothing(publisher: Publisher) -> None:
    """A topic that has ended has ended."""
    publisher.end()
    publisher.fail("too late")
    assert publisher.is_finished
    assert not publisher.has_failed


def test_removing_a_subscriber_leaves_the_others_alone(publisher: Publisher) -> None:
    """Whichever of three leaves, early or late by name, the two others go on receiving."""
    for leaver in ("a", "b", "c"):
        three = Publisher(IntegerDomain())
        for name in ("a", "b", "c"):
            three.subscribe(name)
        three.unsubscribe(leaver)
        three.unsubscribe(leaver)
        three.data(data(0))
        for name in {"a", "b", "c"} - {leaver}:
            assert messages(three, name)[1:] == [data(0)]
        assert isinstance(messages(three, leaver)[0], Disconnected)
        assert three.subscribers == 2


def test_overflow_disconnects_the_slow_one_with_a_reason(publisher: Publisher) -> None:
    """Its queue is freed and it learns why; who acknowledged in time goes on."""
    publisher.subscribe("slow")
    publisher.subscribe("quick")
    for time in range(20):
        publisher.data(data(time, size=200))
        publisher.fetch("quick", publisher.fetch("quick", -1)[-1].sequence)
    [told] = publisher.fetch("slow", -1)
    assert isinstance(told.message, Disconnected)
    assert "1000 bytes" in told.message.reason
    assert "capacity_bytes" in told.message.reason
    statistics = publisher.statistics()
    assert (statistics.overflows, statistics.subscribers, statistics.records) == (1, 1, 20)
    assert statistics.queued_bytes < 1000


def test_it_is_drained_once_everybody_has_acknowledged_the_end(publisher: Publisher) -> None:
    """Not before the end, and not while anybody has anything to fetch."""
    publisher.subscribe("s")
    publisher.fetch("s", 0)
    assert not publisher.is_drained
    publisher.end()
    last = publisher.fetch("s", 0)[-1].sequence
    assert not publisher.is_drained
    publisher.fetch("s", last)
    assert publisher.is_drained


def test_taking_is_fetching_and_acknowledging(publisher: Publisher) -> None:
    """What was taken is gone, and who is not subscribed is told so."""
    publisher.subscribe("s")
    publisher.data(data(0))
    assert [type(numbered.message) for numbered in publisher.take("s")] == [InitialFrontierSnapshot, DataMessage]
    assert publisher.take("s") == []
    assert [type(numbered.message) for numbered in publisher.take("nobody")] == [Disconnected]


def test_impossible_events_are_refused(publisher: Publisher) -> None:
    """Data behind the frontier, a frontier that moves back, and two subscribers of one name are errors."""
    publisher.frontier([(0, -1), (3, 1)])
    with pytest.raises(ProtocolError, match="time 2"):
        publisher.data(data(2))
    with pytest.raises(ProtocolError, match="moved back"):
        publisher.frontier([(1, 1)])
    publisher.subscribe("s")
    with pytest.raises(ProtocolError, match="connected already"):
        publisher.subscribe("s")


def test_states_of_epochs_can_be_asked_for(publisher: Publisher) -> None:
    """Latent, active and completed, as upstream made them."""
    publisher.feed([data(3), LowerFrontierUpdate([(0, -1), (2, 1)])])
    assert [publisher.state(time) for time in (1, 2, 3)] == [
        EpochState.COMPLETED,
        EpochState.LATENT,
        EpochState.ACTIVE,
    ]
