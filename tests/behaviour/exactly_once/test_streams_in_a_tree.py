"""The streams alone, in a tree as the seed's abstract model has it: no run reaches an error, and all is delivered.

A pubend puts one message, or silence, on each tick. Knowledge goes down through filters and acknowledgements come up,
lost, late, in any order and many times; all but the pubend forget whenever they like. Nobody asks for anything here:
what is needed is sent often enough.
"""

from dataclasses import dataclass, field
from random import Random

from hypothesis import given

from tests.kit.exactly_once.lattice import Knowledge, value_of
from tests.kit.messages import raises
from tests.laws.strategies import law_settings, randoms
from tidewheel.pubsub.exactly_once.knowledge import ContradictionError, KnowledgeStream
from tidewheel.pubsub.messages.tick_set import TickRange, TickSet

LENGTH = 16


@dataclass(frozen=True)
class Told:
    """What goes down one edge: what is final, and messages."""

    finals: tuple[TickRange, ...]
    data: tuple[tuple[int, int], ...]


@dataclass
class Node:
    """One stream of the tree; one without children is a subend.

    Args:
        divisors: of which each message that passes its filter is a multiple.
        parent: None at the pubend.
    """

    divisors: tuple[int, ...] = ()
    parent: "Node | None" = None
    children: list["Node"] = field(default_factory=list)
    knowledge: KnowledgeStream[int] = field(default_factory=KnowledgeStream)
    acknowledged: TickSet = field(default_factory=TickSet)
    inbox: list[Told] = field(default_factory=list)
    acks: list[tuple[TickRange, ...]] = field(default_factory=list)
    delivered: list[tuple[int, int]] = field(default_factory=list)
    delivered_end: int = 0

    def add_child(self, divisor: int) -> "Node":
        child = Node((*self.divisors, divisor), self)
        self.children.append(child)
        return child

    def subends(self) -> list["Node"]:
        """Return the leaves at or below this node."""
        return [leaf for child in self.children for leaf in child.subends()] or [self]

    def passes(self, message: int) -> bool:
        return all(message % divisor == 0 for divisor in self.divisors)

    def tell(self, first: int, end: int) -> None:
        """Put what is known of a range on the way to each child: messages that do not pass its filter as final."""
        for child in self.children:
            data = self.knowledge.data.between(first, end)
            filtered = [(tick, tick + 1) for tick, message in data if not child.passes(message)]
            finals = TickSet([*self.knowledge.finals(first, end), *filtered])
            child.inbox.append(Told(finals.ranges(), tuple(pair for pair in data if child.passes(pair[1]))))

    def receive(self, told: Told) -> None:
        for tick, message in told.data:
            self.knowledge.accumulate_data(tick, message)
        for first, end in told.finals:
            self.knowledge.accumulate_final(first, end)
        if not self.children:
            self.deliver()

    def deliver(self) -> None:
        """Deliver up to the doubt horizon; what is delivered is final and acknowledged."""
        horizon = self.knowledge.known.next_missing(self.delivered_end)
        self.delivered += self.knowledge.data.between(self.delivered_end, horizon)
        self.delivered_end = horizon
        self.knowledge.accumulate_final(0, horizon)
        self.acknowledged.add(0, horizon)

    def acknowledge(self) -> None:
        """Put all that nobody below needs any more on the way to the parent."""
        self.acks.append(self.acknowledged.ranges())

    def consolidate(self, heard: dict[int, TickSet]) -> None:
        """Take as acknowledged, and so as final, what all children have acknowledged."""
        common = TickSet([(0, LENGTH)])
        for child in self.children:
            common = common.intersection(heard[id(child)])
        for first, end in common:
            self.acknowledged.add(first, end)
            self.knowledge.accumulate_final(first, end)


class Tree:
    """A pubend, a relay with two subends, one more relay below it with two, and a subend at the pubend."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.messages = {tick: rng.randrange(1, 100) for tick in range(LENGTH) if rng.random() < 0.6}
        self.pubend = Node()
        relay = self.pubend.add_child(1)
        lower = relay.add_child(rng.choice([1, 2]))
        self.subends = [lower.add_child(3), lower.add_child(1), relay.add_child(2), self.pubend.add_child(1)]
        self.nodes = [self.pubend, relay, lower, *self.subends]
        self.heard = {id(node): TickSet() for node in self.nodes}
        self.published = 0

    def publish(self) -> None:
        """Put on the next tick what belongs there."""
        tick = self.published
        if tick < LENGTH:
            if tick in self.messages:
                self.pubend.knowledge.accumulate_data(tick, self.messages[tick])
            else:
                self.pubend.knowledge.accumulate_final(tick, tick + 1)
            self.published += 1

    def step(self) -> None:
        """Do one thing somewhere, or lose something."""
        node = self.rng.choice(self.nodes)
        first, end = sorted((self.rng.randrange(LENGTH), self.rng.randrange(LENGTH + 1)))
        match self.rng.randrange(7):
            case 0:
                self.publish()
            case 1 | 2:
                node.tell(first, end)
            case 3 | 4 if node.inbox:
                told = self.rng.choice(node.inbox)
                node.receive(told)
                if self.rng.random() < 0.5:
                    node.inbox.remove(told)
            case 5:
                self.acknowledge(node)
            case 6 if node is not self.pubend and self.rng.random() < 0.5:
                node.knowledge.forget(first, end)
                if node.children:  # what a subend has delivered it does not forget
                    node.acknowledged.remove(first, end)

    def acknowledge(self, node: Node) -> None:
        """Let some acknowledgement of a node, a late one perhaps, reach its parent."""
        node.acknowledge()
        if node.parent is not None:
            self.heard[id(node)].update(self.rng.choice(node.acks))
            node.parent.consolidate(self.heard)

    def finish(self) -> None:
        """Let everything through, once from the top and once from the bottom."""
        while self.published < LENGTH:
            self.publish()
        for node in self.nodes:
            for told in node.inbox:
                node.receive(told)
            node.tell(0, LENGTH)
        for node in reversed(self.nodes):
            node.acks.clear()
            self.acknowledge(node)

    def check(self) -> None:
        """At no node is there anything but the truth, and subends have delivered just what they should."""
        for node in self.nodes:
            for tick, message in node.knowledge.data.between(0, LENGTH):
                assert message == self.messages[tick]
                assert node.passes(message)
            for tick in (tick for first, end in node.knowledge.finals() for tick in range(first, end)):
                message = self.messages.get(tick, 0)
                assert tick < self.published
                assert not message or all(
                    tick < below.delivered_end for below in node.subends() if below.passes(message)
                )
        for subend in self.subends:
            wanted = [(tick, message) for tick, message in self.messages.items() if subend.passes(message)]
            assert subend.delivered == [(tick, message) for tick, message in wanted if tick < subend.delivered_end]


@law_settings(200)
@given(rng=randoms())
def test_no_run_reaches_an_error_and_every_run_delivers(rng: Random) -> None:
    """Where pubends put one message on a tick, whatever is lost, repeated, reordered, filtered and forgotten."""
    tree = Tree(rng)
    for _ in range(rng.randrange(200)):
        tree.step()
        tree.check()
    tree.finish()
    tree.check()
    assert [subend.delivered_end for subend in tree.subends] == [LENGTH] * len(tree.subends)
    assert tree.pubend.knowledge.finals() == ((0, LENGTH),)
    assert not tree.pubend.knowledge.data


def test_a_pubend_that_uses_a_tick_again_is_found_out() -> None:
    """One that has lost its log, say: wherever both messages arrive the tick is named."""
    pubend, again = Node(), Node()
    relay = pubend.add_child(1)
    again.children.append(relay)
    for source, message in ((pubend, 1), (again, 2)):
        source.knowledge.accumulate_data(5, message)
        source.tell(0, LENGTH)
    relay.receive(relay.inbox[0])
    with raises(ContradictionError):
        relay.receive(relay.inbox[1])
    assert value_of(relay.knowledge, 5) is Knowledge.D
