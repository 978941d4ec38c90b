"""The end of a partition whose publisher may not end alone: known, final, and told by the next publisher."""

import pytest

from tests.kit.messages import raises
from tests.kit.pubsub.numbered import fetched, taken
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.errors import PublisherLost
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.wire import Generation, LowerFrontierUpdate, Message, PartitionEnded, WorkerPosition
from tidewheel.pubsub.protocol.partition_stream import PartitionState, PartitionStream
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.protocol.topic_end import PartitionEnd


def messages(publisher: Publisher, subscriber: str) -> list[Message]:
    return [numbered.message for numbered in fetched(publisher, subscriber, -1)]


def ended_at(position: WorkerPosition) -> Publisher:
    """Return a publisher that may not end alone, with everything, and a subscriber."""
    publisher = Publisher(IntegerDomain(), has_begun=False, ends_alone=False)
    publisher.subscribe("s")
    publisher.begin(position)
    publisher.feed([encode_batch(5, [1]), LowerFrontierUpdate([(5, -1)])])
    return publisher


def test_a_partition_ends_with_all_others() -> None:
    """Subscribers have everything, and learn the end when it is final; then it is no matter how often that is said."""
    publisher = ended_at(WorkerPosition([5], {}))
    assert publisher.has_everything
    assert not publisher.is_finished
    assert not any(isinstance(message, PartitionEnded) for message in messages(publisher, "s"))
    known = publisher.known_end
    assert known == PartitionEnd(number=2, generation=0, readers=("s",))
    for _ in range(2):
        publisher.end(known)
    assert sum(isinstance(message, PartitionEnded) for message in messages(publisher, "s")) == 1


def test_a_job_goes_back_from_an_end_that_is_not_final() -> None:
    """The partition is sent again from the snapshot on, which may have the end."""
    publisher = ended_at(WorkerPosition([5], {}))
    found: list[bool] = []
    for position in ([5], []):
        publisher.begin(WorkerPosition(position, {}, generation=Generation(1 + len(found)), number=3))
        found.append(publisher.has_everything)
    assert found == [False, True]
    assert publisher.known_end.generation == 2


@pytest.mark.parametrize("generation", [0, 3])
def test_a_publisher_that_dies_after_the_end_is_replaced(generation: int) -> None:
    """The next one tells the end to subscribers with all messages, early or late, and others that they lack some."""
    dead = ended_at(WorkerPosition([5], {}, 3, Generation(generation), 7))
    streams = [PartitionStream("topic", 0) for _ in range(3)]
    for stream, count in zip(streams, [3, 3, 2], strict=True):
        for numbered in fetched(dead, "s", -1)[:count]:
            stream.accept(numbered)
    publisher = Publisher(IntegerDomain(), has_begun=False, ends_alone=False)
    publisher.subscribe("early", again=True)
    for _ in range(2):
        publisher.end(dead.known_end)
    publisher.subscribe("late", again=True)
    first = fetched(publisher, "late", -1)[0]
    for stream, name in zip(streams, ["early", "late"], strict=False):
        for numbered in taken(publisher, name):
            stream.accept(numbered)
        assert stream.state is PartitionState.ENDED
    with raises(PublisherLost):
        streams[2].accept(first)


def test_a_publisher_that_repeats_an_ended_topic_fails() -> None:
    """It was started again after the end, and has taken what its worker repeats: its subscribers wait for nothing."""
    dead = ended_at(WorkerPosition([5], {}))
    publisher = ended_at(WorkerPosition([5], {}, generation=Generation(1)))
    publisher.end(dead.known_end)
    assert publisher.has_failed
