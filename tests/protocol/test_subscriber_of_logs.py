"""A subscriber of logs that begins where they are of different generations."""

from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.events import Batch, Frontier, RolledBack
from tidewheel.pubsub.messages.wire import (
    FIRST,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Numbered,
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
