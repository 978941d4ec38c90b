"""The reader of a subscription between its consumer and its parents: when what is acknowledged is told."""

import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.waiting import eventually
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub import DeliveryError, PublisherLost
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.exactly_once.frames import ChildMessage, Join
from tidewheel.pubsub.exactly_once.messages import Ack, Begun, Downstream, KnowledgeMessage, Ranges, Rejected, Stranger
from tidewheel.pubsub.exactly_once.subend import Order
from tidewheel.pubsub.exactly_once.subend_stream import SubendStream
from tidewheel.pubsub.messages.encoded_message import encode
from tidewheel.pubsub.messages.wire import DataMessage, InitialFrontierSnapshot
from tidewheel.pubsub.subscribers.kept_parent import KeptParent
from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls
from tidewheel.pubsub.subscribers.subend_reader import SubendReader
from tidewheel.pubsub.subscribers.subscription_options import SubscriptionOptions
from tidewheel.pubsub.subscribers.topic_reader import Fetched

INFO = TopicInfo("bills", "job", IntegerDomain(), (None,), "life", None, "exactly_once")
FRONTIERS = InitialFrontierSnapshot([0], [])


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
    left: Sequence[Ranges] = ()

    def subscribe_again(self, partition: int, tick: int) -> None:
        """Note that, or refuse it."""
        self.again = (partition, tick)
        if self.refusal is not None:
            raise self.refusal

    def leave(self, acknowledged: Sequence[Ranges], over: object = ()) -> None:
        """Note that."""
        self.left = acknowledged


class Reading:
    """A reader of one partition, which begins at tick 5."""

    def __init__(self, *, tells_at_once: bool = False, order: Order = "publisher") -> None:
        begun = [Begun(((0, 5),), 5, FRONTIERS, FRONTIERS)]
        self.parent = Told()
        self.calls = Calls(INFO, "billing", "reader", SubscriptionOptions("billing"))

        def parents_of(ring: Callable[[], None], _: object) -> dict[KeptParent, list[int]]:
            self.kept = KeptParent("topic 'bills'", lambda _: self.parent, Join("reader", None), ring)
            return {self.kept: [0]}

        stream = SubendStream("reader", begun, order)
        self.reader = SubendReader("reader", self.calls, begun, stream, parents_of, tells_at_once=tells_at_once)
        self.reader.attach()

    def publish(self, tick: int) -> None:
        """Tell of a batch at a tick, and of silence since the one before."""
        data = encode(DataMessage(tick, b"batch", "pickle", 1), 0)
        self.parent.tell(KnowledgeMessage(0, ((tick - 4, tick),), ((tick, data),)))

    def read(self) -> list[int]:
        """Return the numbers of what has come."""
        found: list[Fetched] = self.reader.read([0], 10.0)
        return [numbered.sequence for fetched in found for numbered in fetched.messages]


@pytest.fixture
def reading() -> Iterator[Reading]:
    made = Reading()
    yield made
    made.reader.close()


def test_what_is_acknowledged_by_hand_is_told_at_once() -> None:
    """However soon after something else was told: who dies then has it no more."""
    made = Reading(tells_at_once=True)
    made.publish(9)
    assert [*made.read(), *made.read()] == [4, 9]
    made.reader.acknowledge([(0, 9)])
    assert made.parent.acks[-1] == ((0, 10),)
    made.reader.close()


def test_what_another_thread_acknowledges_by_hand_is_told_at_once() -> None:
    """Also if the one that reads returns with something just then, and does not come back."""
    made = Reading(tells_at_once=True)
    made.publish(9)
    assert [*made.read(), *made.read()] == [4, 9]
    for tick in range(14, 114, 5):
        with ThreadPoolExecutor(1) as other:
            read = other.submit(made.read)
            assert eventually(made.reader._reading.locked)
            made.publish(tick)
            made.reader.acknowledge([(0, tick - 5)])
            assert read.result(10) == [tick]
        assert made.parent.acks[-1] == ((0, tick - 4),)
    made.reader.close()


def test_what_is_acknowledged_is_told_with_the_next_read_or_the_leave(reading: Reading) -> None:
    """Many of them cost no more than one, and the last word is not lost."""
    for tick in (9, 14):
        reading.publish(tick)
    assert [*reading.read(), *reading.read()] == [4, 9, 14]
    reading.reader.acknowledge([(0, 9)])
    reading.publish(19)
    assert reading.read() == [19]
    assert reading.parent.acks[-1] == ((0, 10),)
    reading.reader.acknowledge([(0, 14)])
    reading.reader.leave()
    assert reading.calls.left == [((0, 15),)]
    assert reading.reader.read([0]) == []


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


@pytest.mark.parametrize("order", ["publisher", "total"])
def test_in_total_order_a_partition_that_has_ended_is_still_needed(order: Order) -> None:
    """Its silence is: without it nothing that comes later from another one could be given out."""
    made = Reading(order=order)
    made.reader.detach(0)
    assert made.kept.is_needed == (order == "total")
    made.reader.close()
