"""One life of a topic: its partitions, their publishers, and the truth about what was published."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

from tests.kit.former_topics.blocking_queue import BlockingQueue as FormerBlockingQueue
from tests.kit.simulation.violation import ViolationError
from tests.simulation.topics.conditions import Condition, wanted
from tests.simulation.topics.partition import DOMAINS, LESS_EQUAL, Partition
from tests.simulation.topics.topic_options import HOLD_STEPS, TopicOptions
from tidewheel.progress import Time
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent
from tidewheel.pubsub.protocol.blocking_queue import BlockingQueue
from tidewheel.pubsub.protocol.dropping_queue import DROPPED_BYTES
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.protocol.posted import size_of

_BLOCKING = BlockingQueue, FormerBlockingQueue


@dataclass(frozen=True, slots=True)
class JoinPoint:
    """What was so at a partition when a subscriber connected to it.

    Attributes:
        lower: its lower frontier.
        active: the epochs of which it had sent something, and might send more.
        batches: how many batches it had sent.
    """

    lower: tuple[Time, ...]
    active: frozenset[Time]
    batches: int


class Life:
    """A topic from its beginning to its end.

    Args:
        options: the parameters.
        randoms: decide what happens upstream, one for each partition.
        publisher: makes the publishers.
    """

    def __init__(self, options: TopicOptions, randoms: list[Random], publisher: Callable[..., Any]) -> None:
        numbers = count()
        self.order = options.order
        self.domain = DOMAINS[options.order]
        self.less_equal = LESS_EQUAL[options.order]
        self.capacity_bytes = options.capacity_bytes
        self.partitions = [Partition(options.order, random, numbers) for random in randoms]
        self.publishers = [publisher(self.domain, options.capacity_bytes) for _ in randoms]
        self.handles = list(self.publishers)
        self.has_failed = False
        self._taken_at: dict[tuple[int, str], int] = {}
        self._clock = 0
        self.held = 0
        """How often nothing happened because a subscriber held back a partition."""
        self.sent: dict[Time, list[tuple[int, int, list[int]]]] = {}
        self.seen: dict[tuple[Condition, Time], list[int]] = {}
        self._largest = self._largest_of_all = 0
        self._fed = 0

    def step(self, number: int) -> None:
        """Let something happen at a partition, unless a subscriber holds it back."""
        if self._is_held(number):
            self.held += 1
        else:
            self._tell(number, self.partitions[number].step())

    def end(self) -> None:
        """Bring every partition to its end; one that is held back only if this is called when it is not any more."""
        for number, partition in enumerate(self.partitions):
            if not self._is_held(number):
                self._tell(number, partition.end())

    def took(self, number: int, name: str) -> None:
        """Take note that a subscriber has taken something of a partition."""
        self._taken_at[number, name] = self._clock

    def tick(self) -> None:
        """Let time pass: one step of anybody."""
        self._clock += 1

    def _is_held(self, number: int) -> bool:
        """Do what a shell does: cut off who holds back a publisher for too long, and tell whether one still does."""
        publisher = self.publishers[number]
        holders = publisher.holders()
        for name in holders:
            self._check_holder(name, publisher.queues[name])
        publisher.cut_off_late(self._clock, lambda name: publisher.queues[name].taken)
        for name in holders:
            idle = self._clock - self._taken_at.get((number, name), 0)
            if publisher.queues[name].is_closed and idle < HOLD_STEPS:
                raise ViolationError("held", f"{name} is cut off {idle} steps after it has taken something")
        return bool(publisher.holders())

    def _check_holder(self, name: str, queue: OutgoingQueue) -> None:
        if not isinstance(queue, _BLOCKING) or 2 * queue.bytes <= self.capacity_bytes:
            raise ViolationError("held", f"{name} holds back a publisher, and has {queue.bytes} bytes there")

    def fail(self, first: int) -> None:
        """Let a partition fail, and with it the job and all others."""
        self.has_failed = True
        for number in (first, *range(len(self.publishers))):
            self.publishers[number].fail(f"partition {first} broke")

    def replace(self, successor: "Life") -> None:
        """Let the publishers of another life be where those of this one were."""
        self.has_failed = True
        self.handles[:] = successor.publishers

    def join_point(self, number: int) -> JoinPoint:
        """Return what is so at a partition now."""
        partition = self.partitions[number]
        return JoinPoint(tuple(partition.lower), frozenset(partition.active), len(partition.batches))

    def wanted(self, condition: Condition, time: Time, since: Sequence[int] | None = None) -> list[int]:
        """Return the records of an epoch that a condition leaves; ``since`` is the first batch of each partition."""
        sent = self.sent.get(time, ())
        return sorted(
            record
            for number, index, records in sent
            if since is None or index >= since[number]
            for record in wanted(condition, records)
        )

    def _tell(self, number: int, message: FeedEvent | None) -> None:
        if message is None:
            return
        publisher, partition = self.publishers[number], self.partitions[number]
        self._largest_of_all = max(self._largest_of_all, size_of(message))
        if isinstance(message, DataMessage):
            self._largest = max(self._largest, size_of(message))
            time, records = partition.batches[-1]
            self.sent.setdefault(time, []).append((number, len(partition.batches) - 1, records))
        publisher.feed([message])
        self._fed += 1
        for name, queue in publisher.queues.items():
            self._check_memory(name, queue)

    def _check_memory(self, name: str, queue: OutgoingQueue) -> None:
        """Check that a queue keeps to the capacity, but for one message and for what is no data."""
        if isinstance(queue, _BLOCKING) and queue.bytes > self.capacity_bytes + self._largest_of_all:
            text = f"{queue.bytes} bytes wait for {name}, which holds the publisher from {self.capacity_bytes} on"
            raise ViolationError("memory", text)
        limit = max(self.capacity_bytes, self._largest) + self._largest_of_all * isinstance(queue, _BLOCKING)
        if queue.bytes > 3 * limit + DROPPED_BYTES:
            raise ViolationError("memory", f"{queue.bytes} bytes wait for {name}, where {limit} may")
        if self._fed % 4 == 0:
            entries = [*queue._sent, *queue._pending]
            sizes = [(size_of(entry.message), entry.message) for entry in entries]
            data = sum(size for size, message in sizes if isinstance(message, DataMessage))
            total = sum(size for size, _ in sizes)
            if data > limit or total != queue.bytes:
                text = f"{total} bytes, {data} of them data, wait for {name}, where {limit} may; it says {queue.bytes}"
                raise ViolationError("memory", text)
