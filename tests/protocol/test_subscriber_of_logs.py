"""A subscriber of logs that begins where they are of different generations."""

from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.events import Batch, End, Frontier, RolledBack
from tidewheel.pubsub.messages.wire import (
    FIRST,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Numbered,
    PartitionEnded,
    WentBack,
)
from tidewheel.pubsub.protocol.subscriber import Subscriber


def test_nothing_is_complete_before_all_have_gone_back() -> None:
    """The log that is ahead has the epoch complete in its generation; of the other one it is void."""
    began = [InitialFrontierSnapshot([0], [], FIRST.number) for _ in range(2)]
    subscriber = Subscriber(IntegerDomain(), 2, began=began)
    move, back = LowerFrontierUpdate([(0, -1), (1, 1)]), WentBack(1, 10, [0], {}, (0,))
    subscriber.receive(0, Numbered(10, began[0]))
    subscriber.receive(1, Numbered(20, InitialFrontierSnapshot([1], [], 1)))
    messages: list[Message] = [encode_batch(0, ["void"]), move, back, encode_batch(0, ["anew"]), move]
    events = [
        event
        for number, message in enumerate(messages, 11)
        for event in subscriber.receive(0, Numbered(number, message))
    ]
    assert [type(event) for event in events] == [Batch, RolledBack, Frontier, Batch, Frontier]
    assert list(subscriber.frontier) == [1]


def test_the_topic_ends_once_all_have_ended_in_the_same_generation() -> None:
    """One partition has ended and goes back like the others; what comes again behind that is told, and the end once."""
    subscriber = Subscriber(IntegerDomain(), 2, began=[InitialFrontierSnapshot([0], [])] * 2)
    end: tuple[Message, ...] = (LowerFrontierUpdate([(0, -1)]), PartitionEnded())
    back = WentBack(1, 0, [0], {}, (0,))
    for partition in range(2):
        subscriber.receive(partition, Numbered(0, InitialFrontierSnapshot([0], [])))
    sent: list[tuple[int, Message]] = [(0, encode_batch(0, ["void"])), *((0, message) for message in end)]
    sent += [(1, back), (1, encode_batch(0, ["anew"])), *((1, message) for message in end)]
    sequences, events = [0, 0], []
    for partition, message in sent:
        sequences[partition] += 1
        events += subscriber.receive(partition, Numbered(sequences[partition], message))
        assert not subscriber.is_ended
    for message in (back, *end):
        sequences[0] += 1
        events += subscriber.receive(0, Numbered(sequences[0], message))
    kinds = [type(event) for event in events if not isinstance(event, Frontier)]
    assert kinds == [Batch, RolledBack, RolledBack, Batch, End]
    assert subscriber.is_ended
