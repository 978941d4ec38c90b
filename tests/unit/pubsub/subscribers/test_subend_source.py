"""The reader of a subscription between its consumer and its parents: who they are, and what they are told."""

import socket
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.waiting import eventually
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.exactly_once.subend import Order
from tidewheel.pubsub.messages.delivery_messages import Ack, Begun, Downstream, KnowledgeMessage, Ranges, Stranger
from tidewheel.pubsub.messages.encoded_message import encode
from tidewheel.pubsub.messages.frames import ChildMessage, Join
from tidewheel.pubsub.messages.wire import DataMessage, InitialFrontierSnapshot, Rejected
from tidewheel.pubsub.protocol.fetched import Fetched
from tidewheel.pubsub.subscribers import subend_source
from tidewheel.pubsub.subscribers.parents import FOUND_WITHIN_S, HANGS_S, ParentGone
from tidewheel.pubsub.subscribers.polled_parents import PolledParents
from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls
from tidewheel.pubsub.subscribers.subend_source import SubendSource
from tidewheel.pubsub.subscribers.subscription_options import Acknowledging, SubscriptionOptions

INFO = TopicInfo("bills", "job", IntegerDomain(), (None,), "life", None, "exactly_once")
FRONTIERS = InitialFrontierSnapshot([0], [])
BEGUN = Begun(((0, 5),), 5, FRONTIERS, FRONTIERS)


class Told:
    """A parent that tells what a test has it tell."""

    is_waiting = is_lost = False
    why_lost = ""

    def __init__(self) -> None:
        self._bell, self._rope = socket.socketpair()
        self._told: list[Downstream] = []
        self.said: list[ChildMessage] = []

    def tell(self, message: Downstream) -> None:
        self._told.append(message)
        self._rope.send(b".")

    def fileno(self) -> int:
        return self._bell.fileno()

    def read(self) -> list[Downstream]:
        told, self._told = self._told, []
        if told:
            self._bell.recv(100)
        return told

    def say(self, messages: Iterable[ChildMessage]) -> None:
        self.said += messages

    def close(self) -> None:
        self._bell.close()
        self._rope.close()

    @property
    def acks(self) -> list[Ranges]:
        return [message.acks["reader"] for message in self.said if isinstance(message, Ack)]


class Calls(PubendCalls):
    """Calls that a test can have refused."""

    refusal: DeliveryError | None = None
    again: tuple[int, int] | None = None
    left: Sequence[Ranges] | None = None
    is_there = True

    def subscribe_again(self, partition: int, tick: int) -> None:
        self.again = (partition, tick)
        if self.refusal is not None:
            raise self.refusal

    def leave(self, acknowledged: Sequence[Ranges], over: Collection[int] = ()) -> bool:
        """Note that, if the pubend is there; it has gone otherwise."""
        self.left = acknowledged
        return self.is_there or 0 in over


class Parents(SubendSource):
    """Reads from one parent that a test has made."""

    parent: Told

    def _find_relay(self, why_lost: str) -> Any:
        return self.parent


class Reading:
    """A reader of one partition, which begins at tick 5."""

    def __init__(self, *, ack: Acknowledging = "auto", order: Order = "publisher") -> None:
        self.parent = Told()
        self.calls = Calls(INFO, "billing", "reader", SubscriptionOptions("billing", ack, order=order))
        self.reader = Parents(Join("reader", None), "here", self.calls, [BEGUN])
        self.reader.parent = self.parent
        self.reader.attach()

    def publish(self, tick: int) -> None:
        """Tell of a batch at a tick, and of silence since the one before."""
        data = encode(DataMessage(tick, b"batch", "pickle", 1), 0)
        self.parent.tell(KnowledgeMessage(0, ((tick - 4, tick),), ((tick, data),)))

    def read(self) -> list[int]:
        """Return the numbers of what has come."""
        return numbers(self.reader.fetch(10.0))


def numbers(found: list[Fetched]) -> list[int]:
    return [numbered.sequence for fetched in found for numbered in fetched.messages]


@pytest.fixture
def reading() -> Iterator[Reading]:
    made = Reading()
    yield made
    made.reader.release()


def test_what_is_acknowledged_by_hand_is_told_at_once() -> None:
    """However soon after something else was told: who dies then has it no more."""
    made = Reading(ack="manual")
    made.publish(9)
    assert [*made.read(), *made.read()] == [4, 9]
    made.reader.acknowledge([(0, 9)])
    assert made.parent.acks[-1] == ((0, 10),)
    made.reader.release()


def test_what_another_thread_acknowledges_by_hand_is_told_at_once() -> None:
    """Also if the one that reads returns with something just then, and does not come back."""
    made = Reading(ack="manual")
    made.publish(9)
    assert [*made.read(), *made.read()] == [4, 9]
    for tick in range(14, 114, 5):
        with ThreadPoolExecutor(1) as other:
            read = other.submit(made.read)
            assert eventually(made.reader._parents.turn.locked)
            made.publish(tick)
            made.reader.acknowledge([(0, tick - 5)])
            assert read.result(10) == [tick]
        assert made.parent.acks[-1] == ((0, tick - 4),)
    made.reader.release()


def test_what_is_acknowledged_is_told_as_the_reader_waits_or_finds_nothing_or_leaves(reading: Reading) -> None:
    """Many of them cost no more than one, and the last word is not lost."""
    for tick in (9, 14):
        reading.publish(tick)
    assert [*reading.read(), *reading.read()] == [4, 9, 14]
    reading.reader.acknowledge([(0, 9)])
    with ThreadPoolExecutor(1) as other:
        read = other.submit(reading.read)
        assert eventually(lambda: reading.parent.acks == [((0, 10),)])
        reading.publish(19)
        assert read.result(10) == [19]
    reading.reader.acknowledge([(0, 14)])
    assert (reading.reader.fetch(0.0), reading.parent.acks[-1]) == ([], ((0, 15),))
    reading.reader.acknowledge([(0, 19)])
    reading.reader.leave()
    assert (reading.calls.left, reading.reader.fetch(0.0)) == ([((0, 20),)], [])


def test_a_stranger_subscribes_again_and_raises_what_that_raises(reading: Reading) -> None:
    """Others who are told so do nothing."""
    assert reading.read() == [4]
    reading.parent.tell(Stranger(0, "somebody else"))
    reading.publish(9)
    assert reading.read() == [9]
    assert reading.calls.again is None
    reading.calls.refusal = DeliveryError("another reader has taken subscription 'billing' over")
    reading.parent.tell(Stranger(0, "reader"))
    with pytest.raises(DeliveryError, match="another reader"):
        reading.read()
    assert reading.calls.again == (0, 5)


def test_a_rejection_comes_after_all_that_came_before(reading: Reading) -> None:
    """And again, whenever one reads on."""
    reading.publish(9)
    reading.parent.tell(Rejected(0, "the job failed"))
    assert [*reading.read(), *reading.read()] == [4, 9]
    for _ in range(2):
        with pytest.raises(PublisherLost, match=r"partition 0: .* the job failed"):
            reading.read()


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("is_acknowledged", [True, False])
@pytest.mark.parametrize("is_rejected", [True, False])
def test_the_end_is_one_only_if_what_is_acknowledged_is_noted(
    is_rejected: bool, is_acknowledged: bool, is_there: bool
) -> None:
    """A pubend that has gone without a rejection knew it all; one that rejects a reader has to answer."""
    made = Reading(ack="manual")
    made.publish(9)
    assert [*made.read(), *made.read()] == [4, 9]
    made.calls.is_there = is_there
    made.reader.detach(0)
    if is_rejected:
        made.parent.tell(Rejected(0, "another job goes on with its log"))
    if is_acknowledged:
        made.reader.acknowledge([(0, 9)])
    if is_rejected and not (is_acknowledged and is_there):
        for _ in range(2):
            with pytest.raises(PublisherLost, match="another job goes on with its log"):
                made.reader.check_end()
    else:
        made.reader.check_end()
    made.reader.leave()
    made.reader.release()
    assert made.calls.left == [((0, 10 if is_acknowledged else 5),)]
    assert made.reader._is_noted == (is_there or (is_acknowledged and not is_rejected))


@pytest.mark.parametrize("order", ["publisher", "total"])
def test_in_total_order_a_partition_that_has_ended_is_still_needed(order: Order) -> None:
    """Its silence is: without it nothing that comes later from another one could be given out."""
    made = Reading(order=order)
    made.reader.detach(0)
    assert [kept.is_needed for kept in made.reader._parents.kept] == [order == "total"]
    made.reader.release()


# ---------------------------------------------------------------------- relays and pubends

TWO = TopicInfo("bills", "job", IntegerDomain(), ("pubend 0", "pubend 1"), "life", None, "exactly_once")


class World:
    """A catalog with relays, some of which are dead, and pubends."""

    def __init__(self, *relays: str) -> None:
        self.relays = list(relays)
        self.dead: dict[str, Exception] = {}
        self.has_catalog = True
        self.asked: list[Any] = []
        self.found: dict[str, Told] = {}
        self.waited_s: dict[str, float] = {}

    def ask(self, method: str, *arguments: Any) -> Any:
        assert (method, *arguments[:-1]) == ("parent", "bills", "life", "here")
        if not self.has_catalog:
            raise DeliveryError("there is no catalog")
        avoid = arguments[-1]
        self.asked.append(avoid)
        self.relays = [relay for relay in self.relays if relay != avoid]
        return self.relays[0] if self.relays else None

    def find(self, actor: str, child: str, node: str, within_s: float = FOUND_WITHIN_S) -> Any:
        assert (child, node) == ("reader", "here")
        self.waited_s[actor] = within_s
        if actor in self.dead:
            raise self.dead[actor]
        self.found[actor] = Told()
        return self.found[actor]

    def lose(self, *actors: str) -> None:
        """End the connections to some actors."""
        for actor in actors:
            told = self.found.pop(actor)
            told.is_lost, told.why_lost = True, "it has gone"
            told._rope.send(b".")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def reader_in(world: World, monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> SubendSource:
    monkeypatch.setattr(subend_source, "ask_catalog", world.ask)
    monkeypatch.setattr(subend_source, "find_parent", world.find)
    calls = Calls(TWO, "billing", "reader", SubscriptionOptions("billing"))
    reader = SubendSource(Join("reader", None), "here", calls, [BEGUN, BEGUN])
    stack.callback(reader.release)
    reader.attach()
    return reader


def tell(told: Told, pubend: int, tick: int) -> None:
    """Have a parent tell of a batch of a pubend, and of silence before it."""
    data = encode(DataMessage(tick, b"batch", "pickle", 1), 0)
    told.tell(KnowledgeMessage(pubend, ((5, tick),), ((tick, data),)))


def test_it_uses_the_relay_that_the_catalog_names(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    """And asks for another when that is lost; what the other tells is read."""
    reader = reader_in(world := World("a", "b"), monkeypatch, stack)
    assert list(world.found) == ["a"]
    assert numbers(reader.fetch(10.0)) == [4, 4]
    world.lose("a")
    assert reader.fetch(0.2) == []
    assert eventually(lambda: not reader.fetch(0.0) and list(world.found) == ["b"])
    tell(world.found["b"], 1, 9)
    assert numbers(reader.fetch(10.0)) == [9]
    assert world.asked == [None, "a"]


def test_it_sleeps_until_its_parent_is_found(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    """However long the search takes: it looks only when the search rings."""
    waits: list[float] = []
    wait, find, is_found = PolledParents._wait, World.find, threading.Event()

    def counted(parents: PolledParents, until_s: float) -> Any:
        waits.append(until_s)
        if len(waits) > 50:
            is_found.set()
        return wait(parents, until_s)

    def found_late(world: World, actor: str, child: str, node: str, within_s: float) -> Any:
        is_found.wait(0.2)
        return find(world, actor, child, node, within_s)

    monkeypatch.setattr(PolledParents, "_wait", counted)
    monkeypatch.setattr(World, "find", found_late)
    reader_in(World("a"), monkeypatch, stack)
    assert len(waits) < 10


@pytest.mark.parametrize("error", [ParentGone("dead", is_for_good=True), ParentGone("away"), DeliveryError("what?")])
def test_a_relay_that_does_not_answer_is_avoided(
    error: Exception, monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    """Whatever its reason is; without any other relay each pubend is connected to, and told what is acknowledged."""
    world = World("a", "b", "c")
    world.dead = {"a": error, "b": error}
    reader = reader_in(world, monkeypatch, stack)
    assert list(world.found) == ["c"]
    assert numbers(reader.fetch(10.0)) == [4, 4]
    world.lose("c")
    assert eventually(lambda: not reader.fetch(0.0) and set(world.found) == {"pubend 0", "pubend 1"})
    assert world.asked == [None, "a", "b", "c"]
    assert world.waited_s == {"pubend 0": FOUND_WITHIN_S, "pubend 1": FOUND_WITHIN_S, **dict.fromkeys("abc", HANGS_S)}
    tell(world.found["pubend 1"], 1, 9)
    assert numbers(reader.fetch(10.0)) == [9]
    reader.acknowledge([(1, 9)])
    reader.fetch(0.0)
    assert [world.found[f"pubend {number}"].acks[-1] for number in (0, 1)] == [((0, 5),), ((0, 10),)]


def test_pubends_that_have_ended_are_not_connected_to(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    """There is nothing more to come from them."""
    reader = reader_in(world := World("a"), monkeypatch, stack)
    assert numbers(reader.fetch(10.0)) == [4, 4]
    reader.detach(0)
    world.lose("a")
    assert eventually(lambda: not reader.fetch(0.0) and bool(world.found))
    assert list(world.found) == ["pubend 1"]


def test_a_pubend_that_is_lost_holds_up_no_other(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    """It takes the reader on again, and is looked for while others are read."""
    reader = reader_in(world := World(), monkeypatch, stack)
    assert numbers(reader.fetch(10.0)) == [4, 4]
    world.dead["pubend 0"] = ParentGone("it starts")
    world.lose("pubend 0")
    assert reader.fetch(0.1) == []
    tell(world.found["pubend 1"], 1, 9)
    assert numbers(reader.fetch(10.0)) == [9]
    del world.dead["pubend 0"]
    assert eventually(lambda: not reader.fetch(0.0) and "pubend 0" in world.found)
    calls: Any = reader._calls
    assert calls.again == (0, 5)
    tell(world.found["pubend 0"], 0, 7)
    assert numbers(reader.fetch(10.0)) == [7]


def test_relays_that_all_die_are_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    """As if the catalog knew nothing but dead ones."""
    world = World(*"abcdefgh")
    world.dead = dict.fromkeys("abcdefgh", ParentGone("dead"))
    reader_in(world, monkeypatch, stack)
    assert set(world.found) == {"pubend 0", "pubend 1"}
    assert len(world.relays) > 1


def test_it_does_without_relays_where_there_is_no_catalog(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    """Which is missed by nobody who has subscribed."""
    world = World("a")
    world.has_catalog = False
    reader_in(world, monkeypatch, stack)
    assert set(world.found) == {"pubend 0", "pubend 1"}


def test_all_parents_are_found_or_none(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    """If a pubend is dead the reader leaves, and lets go of the other."""
    world = World()
    world.dead["pubend 1"] = ParentGone("it was killed", is_for_good=True)
    with pytest.raises(PublisherLost, match="topic 'bills', partition 1: the publisher is dead: it was killed"):
        reader_in(world, monkeypatch, stack)
    assert all(told._bell.fileno() < 0 for told in world.found.values())
