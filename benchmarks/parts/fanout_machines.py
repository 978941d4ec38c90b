"""The cost of the protocol itself, for `topics/fanout.py`: the machines of a tree of relays in one process, no sockets.

The machines are real: a pubend and its subscriptions, relays in two levels, and a subend for each subscriber. Bytes are
those of the frames that connections would carry. The publisher's time is processor time of the pubend, of its
subscriptions, and of encoding; it has no log here. Many subscribers in its process take the processor's caches from it,
which those of few do not. So it finds the caches empty in both cases.
"""

import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.measuring.measurement import Report
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.pubend import Pubend
from tidewheel.pubsub.exactly_once.relay import Relay
from tidewheel.pubsub.exactly_once.subend import Subend
from tidewheel.pubsub.exactly_once.subscriptions import Subscriptions
from tidewheel.pubsub.messages.delivery_messages import RELAY_PREFIX, Ack, ConsolidatedAck, KnowledgeMessage
from tidewheel.pubsub.messages.encoded_message import encode as encoded
from tidewheel.pubsub.messages.encoded_message import size_of
from tidewheel.pubsub.messages.frames import ChildMessage, Told, encode
from tidewheel.pubsub.messages.wire import DataMessage, InitialFrontierSnapshot

UPPER = 2
LOWER_PER_UPPER = 5
MESSAGES = 20
MESSAGE_BYTES = 1000
CACHES_BYTES = 64 << 20
"""More than the processor's caches hold."""
FRONTIERS = InitialFrontierSnapshot([0], [0])


class NoLog:
    """A log that is never read: no subscriber is behind."""

    def read(self, first: int, end: int, max_bytes: int) -> tuple[list[tuple[int, Any]], int]:
        """Refuse."""
        raise AssertionError(f"nobody asks for {first}..{end}")


class Tree:
    """A pubend, relays in two levels, and subscribers under the lower relays.

    Args:
        subscribers: how many there are.
        are_durable: whether they have positions of their own.

    Attributes:
        bytes: what has gone over each hop.
        publisher_s: the processor time of the publisher for the present message, in seconds.
    """

    def __init__(self, subscribers: int, *, are_durable: bool) -> None:
        self.bytes: Counter[str] = Counter()
        self.publisher_s = 0.0
        self._others = bytearray(CACHES_BYTES)
        self._now = 0
        self.pubend = Pubend(0, 1, NoLog(), size_of)
        self.subscriptions = Subscriptions(self.pubend, {}, "topic 'fanout', partition 0")
        self._upper = {f"{RELAY_PREFIX}{number}": Relay(1, size_of) for number in range(UPPER)}
        self._lower: dict[str, tuple[str, Relay]] = {}
        for name, upper in self._upper.items():
            self.pubend.fanout.join(name)
            for number in range(LOWER_PER_UPPER):
                below = f"{name}/{number}"
                self._lower[below] = (name, Relay(1, size_of))
                upper.join(below)
        self._subends: dict[str, tuple[str, Subend]] = {}
        parents = list(self._lower)
        for number in range(subscribers):
            reader, parent = f"process/subscriber-{number:06}/life", parents[number % len(parents)]
            begun = self.subscriptions.subscribe(
                f"subscriber-{number:06}", reader, None, lambda _: FRONTIERS, durable=are_durable, again=False
            )
            subend = Subend(reader, {0: begun}, size_of, may_consolidate=not are_durable)
            self._subends[reader] = (parent, subend)
            self._lower[parent][1].join(reader)

    def publish(self) -> None:
        """Publish a message, have every subscriber receive and acknowledge it, and every relay flush."""
        self._now += 1000
        message = encoded(DataMessage(self._now, b"x" * MESSAGE_BYTES, "pickle", 1))
        with self._publisher():
            [(tick, _)] = self.pubend.assign([message], self._now)
            outgoing = self.pubend.logged(tick)
            self._carry("publisher to upper relays", (one.message for one in outgoing))
        for reader in self._told_subends(self._told_lower(outgoing)):
            parent, subend = self._subends[reader]
            for delivered in subend.take():
                subend.acknowledge(0, delivered.tick)
            for ack in subend.acks():
                assert isinstance(ack, Ack)
                self._carry("subscribers to lower relays", [ack])
                self._lower[parent][1].ack(reader, ack)
        self._flush()

    def _told_lower(self, outgoing: Iterable[Outgoing]) -> list[Outgoing]:
        told = [one for name, message in outgoing for one in self._upper[name].receive(message, 0.0)]
        self._carry("upper to lower relays", (one.message for one in told))
        return told

    def _told_subends(self, outgoing: Iterable[Outgoing]) -> list[str]:
        told = [one for name, message in outgoing for one in self._lower[name][1].receive(message, 0.0)]
        frames: dict[int, int] = {}
        for name, message in told:
            assert isinstance(message, KnowledgeMessage)
            if id(message) not in frames:  # a relay encodes once what it tells many
                frames[id(message)] = sum(map(len, encode(message)))
            self.bytes["lower relays to subscribers"] += frames[id(message)]
            self._subends[name][1].receive(message, 0.0)
        return [name for name, _ in told]

    def _flush(self) -> None:
        for name, (parent, lower) in self._lower.items():
            for message in lower.flush()[1]:
                assert isinstance(message, Ack | ConsolidatedAck)
                self._carry("lower to upper relays", [message])
                assert self._upper[parent].ack(name, message) == []
        for name, upper in self._upper.items():
            for message in upper.flush()[1]:
                assert isinstance(message, Ack | ConsolidatedAck)
                self._carry("upper relays to publisher", [message])
                with self._publisher():
                    assert self.subscriptions.ack(message, name) == []
        with self._publisher():
            self.pubend.forget(self.subscriptions.needed_from)

    @contextmanager
    def _publisher(self) -> Iterator[None]:
        """Have the publisher do something with empty caches, and add its time."""
        self._others.count(1)
        begin_s = time.process_time()
        yield
        self.publisher_s += time.process_time() - begin_s

    def _carry(self, hop: str, messages: Iterable[Told | ChildMessage]) -> None:
        self.bytes[hop] += sum(len(part) for message in messages for part in encode(message))


def measure(subscribers: int, *, are_durable: bool) -> tuple[dict[str, float], float, int]:
    """Return bytes on each hop and the publisher's microseconds, for each message, and the positions that it keeps."""
    tree = Tree(subscribers, are_durable=are_durable)
    for _ in range(3):
        tree.publish()  # the relays name their readers
    tree.bytes.clear()
    times_s: list[float] = []
    for _ in range(MESSAGES):
        tree.publisher_s = 0.0
        tree.publish()
        times_s.append(tree.publisher_s)
    hops = {hop: count / MESSAGES for hop, count in tree.bytes.items()}
    return hops, 1e6 * statistics.median(times_s), len(tree.subscriptions.known)


def measure_machines(report: Report, few: int, many: int) -> None:
    """Report the bytes on each hop, and the publisher's time, for few subscribers and for many."""
    for are_durable in (False, True):
        kind = "durable subscribers" if are_durable else "subscribers"
        figures = {count: measure(count, are_durable=are_durable) for count in (few, many)}
        for count, (hops, publisher_us, positions) in figures.items():
            what = f"machines alone, {count} {kind}"
            units = {hop: (value, "bytes") for hop, value in sorted(hops.items())}
            report.add_several(f"{what}, each message", units)
            report.add_several(f"{what}, publisher", {"each message": (publisher_us, "us")})
            report.add_several(f"{what}, kept", {"by the publisher": (positions, "positions")})
        if not are_durable:
            what = f"machines alone, {many} {kind} by {few}"
            up = "upper relays to publisher"
            report.expect(f"{what}: bytes up to the publisher", figures[many][0][up] / figures[few][0][up], 1.1)
            report.expect(f"{what}: time of the publisher", figures[many][1] / figures[few][1], 2.0)
