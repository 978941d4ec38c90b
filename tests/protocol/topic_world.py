"""A topic under one seed: a dataflow's output, its publishers, and subscribers that come, poll and go at any moment.

Upstream, tokens of all partitions hold one global frontier back, and each partition learns of it late. What a partition
does reaches its publisher with a delay of its own, so one publisher may have seen an epoch complete before another one
has seen it begin.
"""

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.kit.pubsub.numbered import fetched
from tidewheel.progress import Antichain, IntegerDomain, ProductDomain, Time, TimeDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.events import Batch, End, Event, Frontier
from tidewheel.pubsub.messages.wire import FeedEvent, LowerFrontierUpdate, Numbered
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.protocol.subscriber import Subscriber

Order = Literal["total", "product"]
Contents = dict[Time, Counter[str]]

DOMAINS: dict[Order, TimeDomain] = {
    "total": IntegerDomain(),
    "product": ProductDomain(IntegerDomain(), IntegerDomain()),
}


def later(order: Order, time: Time, rng: random.Random) -> Time:
    """Return a random time at or after ``time``."""
    if order == "total":
        return time + rng.randrange(3)
    return (time[0] + rng.randrange(2), time[1] + rng.randrange(2))


class Upstream:
    """What the partitions of one topic emit, and how each of them sees the frontier move.

    Args:
        order: the kind of times.
        partitions: how many there are.
        steps: about how many things happen.
        rng: decides what.
    """

    def __init__(self, order: Order, partitions: int, steps: int, rng: random.Random) -> None:
        self.order = order
        self.domain = DOMAINS[order]
        self.feeds: list[list[FeedEvent]] = [[] for _ in range(partitions)]
        self.published: Contents = {}
        self._rng = rng
        self._tokens = [(partition, self.domain.minimum()) for partition in range(partitions)]
        self._views = [Antichain(self.domain, [self.domain.minimum()]) for _ in range(partitions)]
        for _ in range(steps):
            if self._tokens:
                self._step()
        self._tokens = []
        for partition in range(partitions):
            self._see_frontier(partition)

    def _step(self) -> None:
        index = self._rng.randrange(len(self._tokens))
        partition, time = self._tokens[index]
        choice = self._rng.random()
        if choice < 0.45:
            self._emit(partition, later(self.order, time, self._rng))
        elif choice < 0.55:
            self._tokens.append((partition, later(self.order, time, self._rng)))
        elif choice < 0.75:
            self._tokens[index] = (partition, later(self.order, time, self._rng))
        elif choice < 0.80 and len(self._tokens) > 1:
            del self._tokens[index]
        else:
            self._see_frontier(self._rng.randrange(len(self.feeds)))

    def _emit(self, partition: int, time: Time) -> None:
        records = [f"{partition}/{len(self.feeds[partition])}/{number}" for number in range(self._rng.randint(1, 3))]
        self.published.setdefault(time, Counter()).update(records)
        self.feeds[partition].append(encode_batch(time, records))

    def _see_frontier(self, partition: int) -> None:
        old, new = self._views[partition], Antichain(self.domain, [time for _, time in self._tokens])
        updates = [(time, -1) for time in old if time not in new] + [(time, 1) for time in new if time not in old]
        if updates:
            self.feeds[partition].append(LowerFrontierUpdate(updates))
            self._views[partition] = new


@dataclass
class Reader:
    """One subscriber, with what it has been told. Its replies may get lost; it then asks again."""

    name: str
    core: Subscriber
    acknowledged: dict[int, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    error: DeliveryError | None = None
    has_left: bool = False

    def take(self, partition: int, messages: Sequence[Numbered]) -> None:
        for numbered in messages:
            try:
                self.events += self.core.receive(partition, numbered)
            except DeliveryError as error:
                self.error = error
                return
            self.acknowledged[partition] = numbered.sequence

    @property
    def is_over(self) -> bool:
        return self.has_left or self.error is not None or self.core.is_ended

    @property
    def seen(self) -> Contents:
        contents: Contents = {}
        for event in self.events:
            if isinstance(event, Batch):
                contents.setdefault(event.time, Counter()).update(event.records)
        return contents


class TopicWorld:
    """Runs the publishers and subscribers of one topic to the end.

    Args:
        seed: decides everything.
        order: the kind of times.
        partitions: how many there are.
        readers: how many subscribers join, each at a random moment at each partition.
        capacity_bytes: of each publisher's queues.
        atomic: whether the subscribers filter.
        eager: the first so many readers join all partitions at once, and read everything as soon as it is there.
    """

    def __init__(
        self,
        seed: int,
        order: Order,
        partitions: int,
        readers: int = 1,
        capacity_bytes: int = 1 << 30,
        *,
        atomic: bool = True,
        eager: int = 0,
    ) -> None:
        self.label = f"seed {seed}, {order} order, {partitions} partitions"
        self.rng = random.Random(seed)
        self.upstream = Upstream(order, partitions, steps=self.rng.randint(5, 60), rng=self.rng)
        self.domain = self.upstream.domain
        self.publishers = [Publisher(self.domain, capacity_bytes) for _ in range(partitions)]
        self.readers = [
            Reader(f"s{number}", Subscriber(self.domain, partitions, atomic=atomic, topic="t"))
            for number in range(readers)
        ]
        self._feeds = [deque(feed) for feed in self.upstream.feeds]
        events = sum(len(feed) for feed in self._feeds)
        self._eager = self.readers[:eager]
        self._joins = [
            (0 if reader in self._eager else self.rng.randrange(events + 1), reader, partition)
            for reader in self.readers
            for partition in range(partitions)
        ]
        self._delivered = 0

    def run(self, polls: Callable[[Reader], bool] = lambda reader: True) -> "TopicWorld":
        """Run to the end; a reader polls only while ``polls(reader)``."""
        while any(self._feeds):
            self._join_who_is_due()
            if self.rng.random() < 0.5:
                self._deliver_one()
            else:
                self._poll_one(polls)
        self._join_who_is_due()
        for reader in self.readers:
            for _ in range(10_000):
                if reader.is_over or not polls(reader):
                    break
                for partition in reader.core.wanted:
                    self._poll(reader, partition)
            else:
                raise AssertionError(f"{reader.name} does not come to an end ({self.label})")
        return self

    def _deliver_one(self) -> None:
        partition = self.rng.choice([number for number, feed in enumerate(self._feeds) if feed])
        self.publishers[partition].feed([self._feeds[partition].popleft()])
        self._delivered += 1
        for reader in self._eager:
            for number in reader.core.wanted:
                self._poll(reader, number, max_bytes=1 << 20, loss=0.0)

    def _join_who_is_due(self) -> None:
        due = [join for join in self._joins if join[0] <= self._delivered]
        self._joins = [join for join in self._joins if join[0] > self._delivered]
        for _, reader, partition in due:
            if not reader.has_left:
                self.publishers[partition].subscribe(reader.name)
                reader.acknowledged[partition] = -1

    def _poll_one(self, polls: Callable[[Reader], bool]) -> None:
        reader = self.rng.choice(self.readers)
        joined = [partition for partition in reader.core.wanted if partition in reader.acknowledged]
        if joined and polls(reader) and not reader.is_over:
            self._poll(reader, self.rng.choice(joined))

    def _poll(self, reader: Reader, partition: int, max_bytes: int | None = None, loss: float = 0.2) -> None:
        publisher = self.publishers[partition]
        limit = max_bytes or self.rng.choice([1, 300, 1 << 20])
        messages = fetched(publisher, reader.name, reader.acknowledged[partition], limit)
        if self.rng.random() >= loss:
            reader.take(partition, messages)
        if self.rng.random() < 0.1:
            reader.take(partition, messages)  # a reply that was thought lost arrives after all

    def leave(self, reader: Reader) -> None:
        """Let a reader go, wherever it is."""
        reader.has_left = True
        for publisher in self.publishers:
            publisher.unsubscribe(reader.name)


def check_atomic(world: TopicWorld, reader: Reader) -> None:
    """Assert that a reader saw all of an epoch, from all partitions, or nothing of it."""
    for time, records in reader.seen.items():
        assert records == world.upstream.published[time], f"epoch {time!r} was seen in part ({world.label})"


def check_no_holes(world: TopicWorld, reader: Reader) -> None:
    """Assert that a reader that saw an epoch saw every later one that has data."""
    seen = reader.seen
    for time in seen:
        for other in world.upstream.published:
            missed = other not in seen and world.domain.less_equal(time, other)
            assert not missed, f"{time!r} was seen, {other!r} was not ({world.label})"


def check_frontier(world: TopicWorld, reader: Reader) -> None:
    """Assert that no batch came at a time that the frontier had passed, and that the topic ended last."""
    frontier: Antichain | None = None
    for event in reader.events:
        if isinstance(event, Frontier):
            assert frontier is None or frontier.dominates(event.frontier), f"the frontier moved back ({world.label})"
            frontier = event.frontier
        elif isinstance(event, Batch):
            assert frontier is not None, f"a batch came before the first frontier ({world.label})"
            assert frontier.less_equal(event.time), f"{event.time!r} came too late ({world.label})"
    assert [event for event in reader.events if isinstance(event, End)] == [reader.events[-1]], world.label
    assert frontier is not None
    assert len(frontier) == 0, world.label
