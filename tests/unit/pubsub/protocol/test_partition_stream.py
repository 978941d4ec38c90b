"""The messages of one partition, checked by the table of its states."""

from itertools import product

import pytest

from tests.kit.messages import raises
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import PublisherLost
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
    WentBack,
)
from tidewheel.pubsub.protocol.partition_stream import TRANSITIONS, PartitionState, PartitionStream

SNAPSHOT = InitialFrontierSnapshot([0], [])
MESSAGES: list[Message] = [
    SNAPSHOT,
    DataMessage(0, b"", "pickle", 1),
    LowerFrontierUpdate([(0, -1)]),
    EpochsDropped([0]),
    PartitionEnded(),
    Failed("why"),
    Rejected(0, "why"),
]


def stream_in(state: PartitionState) -> PartitionStream:
    stream = PartitionStream()
    if state is not PartitionState.AWAITING_SNAPSHOT:
        stream.accept(Numbered(0, SNAPSHOT))
    if state is PartitionState.ENDED:
        stream.accept(Numbered(1, PartitionEnded()))
    return stream


PAIRS = [pair for pair in product(PartitionState, MESSAGES) if pair != (PartitionState.LIVE, SNAPSHOT)]


@pytest.mark.parametrize(("state", "message"), PAIRS)
def test_each_message_is_accepted_where_the_table_says_and_nowhere_else(
    state: PartitionState, message: Message
) -> None:
    """Every pair of state and message either moves on as the table says, or is an error."""
    stream = stream_in(state)
    following = TRANSITIONS.get((state, type(message)))
    if following is None:
        with pytest.raises(ProtocolError, match=f"{type(message).__name__} came while"):
            stream.accept(Numbered(2 if state is PartitionState.ENDED else 1, message))
    else:
        assert stream.accept(Numbered(1, message)) is message
        assert stream.state is following


def test_a_gap_is_an_error() -> None:
    """Nothing can get lost unnoticed."""
    stream = stream_in(PartitionState.LIVE)
    with raises(ProtocolError):
        stream.accept(Numbered(2, MESSAGES[1]))


@pytest.mark.parametrize("message", MESSAGES[5:])
def test_being_cut_off_may_follow_a_gap(message: Message) -> None:
    """What is missing then was dropped on purpose."""
    assert stream_in(PartitionState.LIVE).accept(Numbered(9, message)) is message


def test_duplicates_are_dropped() -> None:
    """A reply that is sent again does no harm, not even after the end."""
    stream = stream_in(PartitionState.ENDED)
    assert stream.accept(Numbered(0, SNAPSHOT)) is None
    assert stream.accept(Numbered(1, PartitionEnded())) is None


@pytest.mark.parametrize("skipped", [1, 4])
def test_what_was_left_out_on_purpose_is_no_gap(skipped: int) -> None:
    """A message says how many before it were not for this subscriber, and the numbers go on from there."""
    stream = stream_in(PartitionState.LIVE)
    message = MESSAGES[1]
    assert stream.accept(Numbered(1 + skipped, message, skipped)) is message
    assert stream.accept(Numbered(2 + skipped, message)) is message


@pytest.mark.parametrize("skipped", [0, 1, 3])
def test_a_loss_beside_what_was_left_out_is_still_an_error(skipped: int) -> None:
    """Three messages are not there; whoever says that any other number was left out has lost some."""
    with raises(ProtocolError):
        stream_in(PartitionState.LIVE).accept(Numbered(3, MESSAGES[1], skipped))


@pytest.mark.parametrize("message", MESSAGES[5:], ids=lambda message: type(message).__name__)
def test_being_cut_off_is_never_a_duplicate(message: Message) -> None:
    """A publisher that is new, and knows nothing of this subscriber, says so under a number that was there before."""
    stream = stream_in(PartitionState.LIVE)
    stream.accept(Numbered(1, MESSAGES[1]))
    assert stream.accept(Numbered(1, message)) is message
    assert stream.accept(Numbered(1, message)) is None


def test_another_publisher_says_what_stands() -> None:
    """It is in the place of one that has died, and its numbers are greater; a message of its own goes on from there."""
    stream = stream_in(PartitionState.LIVE)
    begun = InitialFrontierSnapshot([3], [4], generation=2, standing=0)
    assert stream.accept(Numbered(100, begun)) == WentBack(2, 0, [3])
    assert stream.accept(Numbered(101, MESSAGES[1])) is MESSAGES[1]


@pytest.mark.parametrize("standing", [None, 1], ids=["it comes too late", "messages are missing"])
def test_what_does_not_come_again_is_an_error(standing: int | None) -> None:
    """A message that stands was not received, or what the new publisher has sent before is not known."""
    stream = PartitionStream("ranks", 5)
    stream.accept(Numbered(0, SNAPSHOT))
    with raises(PublisherLost):
        stream.accept(Numbered(100, InitialFrontierSnapshot([3], [], generation=1, standing=standing)))
