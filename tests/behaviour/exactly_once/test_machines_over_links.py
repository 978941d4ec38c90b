"""A pubend and its subends over connections: what is dropped on the way is asked for, and all of it arrives once."""

from collections.abc import Iterator
from contextlib import closing
from operator import attrgetter
from typing import Any

import pytest

from tests.kit.exactly_once.linked import Child, TurnedLoop
from tests.kit.exactly_once.subends import FRONTIERS
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.pubend import Pubend
from tidewheel.pubsub.exactly_once.subend import Subend
from tidewheel.pubsub.exactly_once.subscriptions import Subscriptions
from tidewheel.pubsub.messages.delivery_messages import Ack, KnowledgeMessage, Nack
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, decode, encode
from tidewheel.pubsub.messages.frames import CODEC, ChildMessage, Join
from tidewheel.pubsub.messages.wire import DataMessage
from tidewheel.transport.stream_link import ParentLink

SIZE = attrgetter("size_bytes")
STEP_S = 0.02
ROOM_BYTES = 60_000


class Logged:
    """A log of what was published."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, EncodedMessage]] = []

    def read(self, first: int, end: int, max_bytes: int) -> tuple[list[tuple[int, Any]], int]:
        found: list[tuple[int, Any]] = []
        for tick, message in self.messages:
            if first <= tick < end:
                found.append((tick, EncodedMessage.of(b"".join(message.parts))))
                max_bytes -= message.size_bytes
                if max_bytes <= 0:
                    return found, tick + 1
        return found, end


class Node:
    """A pubend with little memory, and its children by name."""

    def __init__(self, loop: TurnedLoop) -> None:
        self.loop = loop
        self.log = Logged()
        self.core = Pubend(0, 1, self.log, SIZE, cache_bytes=30_000)
        self.subscriptions = Subscriptions(self.core, {}, "topic 't', partition 0")
        self.children: dict[str, Child] = {}
        self.now = 0

    def tell(self, outgoing: list[Outgoing]) -> None:
        for child, message in outgoing:
            self.children[child].tell(message)

    def publish(self, size: int) -> None:
        """Publish one message, which is durable at once."""
        self.now += 10
        message = encode(DataMessage(self.now, bytes([size % 251]) * size, "pickle", 1))
        assigned = self.core.assign([message], self.now)
        self.log.messages += assigned
        self.tell(self.core.logged(assigned[-1][0]))

    def forget(self) -> int:
        """Forget what all have acknowledged; return the first tick that is kept."""
        return self.core.forget(self.subscriptions.needed_from)

    def hear(self) -> None:
        """Take what the children have said."""
        for name, child in self.children.items():
            said, child.said[:] = list(child.said), []
            for message in said:
                match message:
                    case Join():
                        self.core.fanout.join(message.name, message.where)
                    case Nack():
                        self.tell(self.core.nack(name, message))
                    case Ack():
                        self.subscriptions.ack(message)


class Reader:
    """A subend at the other end of a child's connection."""

    def __init__(self, node: Node, name: str, *, every: int) -> None:
        node.children[name] = child = node.loop.child(ROOM_BYTES, 16_384)
        self.every = every
        self.link = ParentLink(CODEC, child.end)
        begun = node.subscriptions.subscribe(name, name, None, lambda _: FRONTIERS, durable=False, again=False)
        self.core = Subend(name, {0: begun}, SIZE, room_bytes=ROOM_BYTES)
        self.link.say([Join(name, None)])
        self.sizes: list[int] = []

    def read(self, now_s: float) -> None:
        """Do all that there is to do."""
        for message in self.link.read():
            assert isinstance(message, KnowledgeMessage)
            self.core.receive(message, now_s)
        for delivered in self.core.take():
            event = decode(delivered.message)
            assert isinstance(event, DataMessage)
            assert event.time == delivered.tick
            self.sizes.append(len(event.payload))
            self.core.acknowledge(0, delivered.tick)
        say: list[ChildMessage] = [*self.core.ask(now_s), *self.core.acks()]
        self.link.say(say)


@pytest.fixture
def node() -> Iterator[Node]:
    with TurnedLoop() as loop:
        yield Node(loop)


@pytest.mark.parametrize("every", [1, 7, 20])
def test_all_of_it_arrives_once(node: Node, every: int) -> None:
    """At one that always reads, and at one that does so only every few steps, so that much of it is dropped."""
    quick, slow = Reader(node, "quick", every=1), Reader(node, "slow", every=every)
    sizes = [[100, 5000, 20_000][n % 3] + n for n in range(300)]
    with closing(quick.link), closing(slow.link):
        step = 0
        while min(len(quick.sizes), len(slow.sizes)) < len(sizes) or node.forget() < node.core.told_end:
            assert step < 20_000, "it does not come to that"
            if step < len(sizes):
                node.publish(sizes[step])
            for reader in (quick, slow):
                if step % reader.every == 0:
                    reader.read(step * STEP_S)
            node.loop.turn()
            node.hear()
            step += 1
    assert quick.sizes == slow.sizes == sizes
    assert (node.children["slow"].link.dropped > 0) == (every > 1)
    assert node.children["quick"].link.dropped == 0
