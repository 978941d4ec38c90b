"""Total order where clocks are wrong: each message is delivered soon, and the order is the same for everybody."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kit.exactly_once.partitions import DEADLINE_S
from tests.waiting import eventually
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.subend import Subend
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage, Nack
from tidewheel.pubsub.messages.encoded_message import decode, encode, size_of
from tidewheel.pubsub.messages.tick_set import FOREVER
from tidewheel.pubsub.messages.wire import DataMessage
from tidewheel.pubsub.publishers.durable_pubend import DurablePubend

LOOK_S = 0.1
SOON_S = 0.6
HOUR_S = 3600.0


class Publisher:
    """A pubend of two with a real log, on a node with a clock of its own."""

    def __init__(self, directory: Path, number: int, now_s: Callable[[], float], told: list[Outgoing]) -> None:
        self.clock_s = 0.0
        self._calls: deque[Callable[[], None]] = deque()
        self._open = partial(
            DurablePubend,
            directory / str(number),
            LogIdentity("topic", number, 2, "integers"),
            IntegerDomain(),
            tell=told.extend,
            later=self._calls.append,
            clock=lambda: now_s() + self.clock_s,
        )
        self._sent = 0
        self._begin()

    def _begin(self) -> None:
        self.core = self._open()
        self.core.begin()
        for child in ("one", "other"):
            self.core.join(child)
            self.core.subscribe(child, child, 0, durable=True)

    def restart(self) -> None:
        """Die, and go on from the log."""
        self.core.close()
        self._calls.clear()
        self._begin()

    def settle(self) -> None:
        """Wait until all that was written is durable."""

        def is_done() -> bool:
            while self._calls:
                self._calls.popleft()()
            return self.core.writer.is_durable

        assert eventually(is_done, DEADLINE_S)

    def publish(self, payload: bytes) -> None:
        """Publish a batch of a time of its own."""
        self.core.feed([encode(DataMessage(self._sent, payload, "pickle", 1), 0)])
        self._sent += 1
        self.settle()


class Topic:
    """Two publishers, and two subscribers in total order, of which the other one loses every second message.

    Attributes:
        had: what each subscriber has had.
        nacks: the questions of the first one.
    """

    def __init__(self, directory: Path) -> None:
        self.now_s = 1_000_000.0
        self._told: list[Outgoing] = []
        self.publishers = [Publisher(directory, number, lambda: self.now_s, self._told) for number in (0, 1)]
        begun = [publisher.core.subscribe("one", "one", 0, durable=True) for publisher in self.publishers]
        self._subends = {
            name: Subend(name, dict(enumerate(begun)), size_of, order="total") for name in ("one", "other")
        }
        self.had: dict[str, list[bytes]] = {name: [] for name in self._subends}
        self._received = self.nacks = 0
        for _ in range(5):
            self.turn()

    def turn(self) -> None:
        """Let a tenth of a second pass."""
        self.now_s += LOOK_S
        for publisher in self.publishers:
            publisher.core.look()
            publisher.settle()
        for name, subend in self._subends.items():
            for nack in subend.ask(self.now_s):
                assert isinstance(nack, Nack)
                self.nacks += name == "one" and any(end < FOREVER for _, end in nack.ranges)
                self.publishers[nack.pubend].core.nack(name, nack)
                self.publishers[nack.pubend].settle()
        for child, message in self._told:
            self._received += 1
            if isinstance(message, KnowledgeMessage) and (child == "one" or self._received % 2):
                self._subends[child].receive(message, self.now_s)
        self._told.clear()
        for name, subend in self._subends.items():
            events: list[Any] = [decode(delivered.message) for delivered in subend.take()]
            self.had[name] += [bytes(event.payload) for event in events]

    def seconds_until_had(self, name: str, payload: bytes) -> float:
        """Return how long it takes until a subscriber has a message, which it has to in the end."""
        began_s = self.now_s
        while payload not in self.had[name]:
            assert self.now_s < began_s + 60.0, f"{name} has {self.had[name]}, and waits for {payload!r}"
            self.turn()
        return self.now_s - began_s

    def close(self) -> None:
        for publisher in self.publishers:
            publisher.core.close()


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[Topic]:
    with closing(Topic(tmp_path)) as made:
        yield made


@pytest.mark.parametrize("step_s", [-HOUR_S, -60.0, 1.0, HOUR_S])
@pytest.mark.parametrize("publishes", [0, 1])
def test_a_clock_that_steps_delays_no_message(topic: Topic, step_s: float, publishes: int) -> None:
    """Whether its own publisher publishes or the other one, and without many questions."""
    topic.publishers[0].clock_s += step_s
    for number in range(20):
        payload = b"%d" % number
        topic.publishers[publishes].publish(payload)
        assert topic.seconds_until_had("one", payload) <= SOON_S
        topic.turn()
    assert topic.nacks < 10
    topic.seconds_until_had("other", b"19")
    assert topic.had["one"] == topic.had["other"] == [b"%d" % number for number in range(20)]


def test_a_publisher_that_is_started_again_goes_on_at_once(topic: Topic) -> None:
    """Though its log has reserved ten seconds that have not come; and the other one follows it."""
    for number in range(10):
        topic.publishers[number % 2].restart()
        payload = b"%d" % number
        topic.publishers[number % 2].publish(payload)
        assert topic.seconds_until_had("one", payload) <= SOON_S
    topic.seconds_until_had("other", b"9")
    assert topic.had["one"] == topic.had["other"] == [b"%d" % number for number in range(10)]


def test_an_idle_publisher_holds_nobody_up(topic: Topic) -> None:
    """It has promised silence ahead, so a message is delivered with the first look, and nothing is asked for."""
    for _ in range(20):
        topic.turn()
    for number in range(20):
        payload = b"%d" % number
        topic.publishers[0].publish(payload)
        assert topic.seconds_until_had("one", payload) <= LOOK_S + 1e-6
    assert topic.nacks == 0
