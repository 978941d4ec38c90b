"""A topic whose job goes back to a snapshot, again and again: subscribers see every epoch whole, and once.

What a worker sends again differs from what it sent before, and goes to any partition. So an epoch that is made of parts
of two lives, or misses one, is noticed. Publishers die, too, and their subscribers come back. A failure says the seed
that repeats it.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.simulation_pubsub.partition import DOMAINS, LESS_EQUAL, Partition
from tests.simulation_pubsub.scenario import Order
from tidewheel.progress import Time
from tidewheel.pubsub import EpochAssembler, Publisher, PublisherLost, RolledBack, Subscriber
from tidewheel.pubsub.messages.events import Epoch, Event
from tidewheel.pubsub.messages.wire import (
    FeedEvent,
    Generation,
    InitialFrontierSnapshot,
    Numbered,
    WentBack,
    WorkerPosition,
)
from tidewheel.pubsub.protocol.generations import Generations
from tidewheel.pubsub.protocol.partition_stream import PartitionStream
from tidewheel.pubsub.publishers.sent_events import SavedEvents, SentEvents

RUNS = 400
STEPS = 150
TRIES = 400
NUMBERS = 1_000_000


class Cut(NamedTuple):
    """What a snapshot has of one worker."""

    tokens: list[Time]
    lower: list[Time]
    batches: int
    saved: SavedEvents


class Worker:
    """One worker, its publisher, and what is under way between them."""

    def __init__(self, order: Order, random: Random, numbers: "count[int]") -> None:
        self._domain = DOMAINS[order]
        self._random = random
        self.upstream = Partition(order, random, numbers)
        self.replace_publisher()
        self.restart(self.cut_of(SavedEvents(WorkerPosition([self._domain.minimum()], {}), [])), 0)

    def step(self) -> None:
        """Publish something, or have the publisher receive or confirm something."""
        choice = self._random.random()
        if not self.is_connected:
            if choice < 0.3:
                self.connect()
        elif choice < 0.5:
            event = self.upstream.step()
            if event is not None:
                self._send(event)
        elif choice < 0.9:
            self.receive()
        else:
            confirmed = self._random.randint(0, len(self._received))
            if confirmed:
                self._sent.durable(confirmed, self._received[confirmed - 1])
                del self._received[:confirmed]

    def _send(self, event: FeedEvent) -> None:
        self._sent.add(event)
        self._pipe.append(event)

    def receive(self) -> None:
        """Have the publisher receive what was sent first."""
        if self._pipe:
            self.publisher.feed([self._pipe.popleft()])
            self._received.append(self.publisher.number)

    def replace_publisher(self) -> None:
        """Start a publisher, also where one has died."""
        self.publisher = Publisher(self._domain, has_begun=False)

    def cut(self) -> Cut:
        """Return what a snapshot has."""
        return self.cut_of(self._sent.saved)

    def cut_of(self, saved: SavedEvents) -> Cut:
        """Return what a snapshot has, with some events."""
        upstream = self.upstream
        return Cut(list(upstream._tokens), list(upstream.lower), len(upstream.batches), saved)

    def restart(self, cut: Cut, generation: int) -> None:
        """Go back; what was under way is lost."""
        upstream = self.upstream
        upstream._tokens, upstream.lower = list(cut.tokens), list(cut.lower)
        del upstream.batches[cut.batches :]
        upstream.active = {time for time, _ in upstream.batches if upstream.may_come(time)}
        self._sent = SentEvents(self._domain, cut.saved, Generation(generation))
        self._pipe = deque(cut.saved.kept)
        self._received: list[int] = []
        self.is_connected = False

    def connect(self) -> None:
        """Tell the publisher where this begins."""
        self.publisher.begin(self._sent.position)
        self.is_connected = True

    def end(self) -> None:
        """Publish the end, and have the publisher receive everything."""
        if not self.is_connected:
            self.connect()
        event = self.upstream.end()
        if event is not None:
            self._send(event)
        while self._pipe:
            self.receive()


class Reader:
    """One subscriber, which connects to the partitions at any moments."""

    def __init__(self, name: str, order: Order, publishers: list[Publisher], random: Random) -> None:
        self._name, self._publishers, self._random = name, publishers, random
        self._core = Subscriber(DOMAINS[order], len(publishers), may_drop=random.random() < 0.3)
        self._assembler = EpochAssembler(DOMAINS[order])
        self._acknowledged: dict[int, int] = {}
        self._joined: dict[int, Publisher] = {}
        self._received: dict[int, int] = {}
        self._is_late = random.random() < 0.5
        self.is_lost = False
        self.is_first = random.random() < 0.5
        self.epochs: list[Epoch] = []
        self.batches: dict[Time, list[Any]] = {}
        if self.is_first:
            for number in range(len(publishers)):
                self._join(number)

    def _join(self, number: int, *, again: bool = False) -> None:
        publisher = self._joined[number] = self._publishers[number]
        publisher.subscribe(self._name, again=again)
        self._acknowledged[number] = -1

    def step(self, most_bytes: int) -> bool:
        """Connect to a partition, or read from one; tell whether anything was there."""
        number = self._random.randrange(len(self._publishers))
        if self.is_lost:
            return False
        if number not in self._acknowledged:
            self._join(number)
            return True
        if self._joined[number] is not self._publishers[number]:
            if self._is_late and self._random.random() < 0.9:
                return True
            self._join(number, again=True)
        return self._read(number, most_bytes)

    def _read(self, number: int, most_bytes: int) -> bool:
        found = self._joined[number].fetch(self._name, self._acknowledged[number], most_bytes)
        for numbered in found:
            self._acknowledged[number] = numbered.sequence
            try:
                events = self._core.receive(number, numbered)
            except PublisherLost:
                standing = getattr(numbered.message, "standing", None)
                assert standing is not None, "it came in time"
                assert standing > self._received[number], "it had all that stands"
                self.is_lost = True
                return False
            self._received[number] = numbered.sequence
            for event in events:
                self.epochs += self._assembler.receive(event)
        return bool(found)

    def lose(self, number: int) -> None:
        """Receive what the socket of a publisher has that dies, of some publishers not all that it has sent."""
        if number in self._joined and not self.is_lost:
            if self._random.random() < 0.8:
                self._read(number, NUMBERS)
            if number not in self._received:
                self.is_first = False


def run(seed: int) -> int:
    """Run what a seed says; return how often the job went back."""
    random = Random(seed)
    order: Order = random.choice(("total", "product"))
    numbers = count()
    workers = [Worker(order, random, numbers) for _ in range(random.randint(1, 3))]
    publishers = [worker.publisher for worker in workers]
    readers = [Reader(f"reader {n}", order, publishers, random) for n in range(random.randint(1, 3))]
    versions: list[Version] = []
    cuts = [worker.cut() for worker in workers]
    generation = 0
    for _ in range(random.randint(STEPS // 3, STEPS) * len(workers)):
        choice = random.random()
        if choice < 0.02 and all(worker.is_connected for worker in workers):
            cuts = [worker.cut() for worker in workers]
        elif choice < 0.04 and len({publisher.is_finished for publisher in publishers}) == 1:
            versions.append(version_of(workers))
            generation += 1
            for worker, cut in zip(workers, cuts, strict=True):
                worker.restart(cut, generation)
            replace_some(workers, publishers, readers, random)
        elif choice < 0.7:
            random.choice(workers).step()
        else:
            random.choice(readers).step(random.choice((1, 300, 10**6)))
    for worker in workers:
        worker.end()
    versions.append(version_of(workers))
    for reader in readers:
        quiet = 0
        while quiet < 100:
            quiet = 0 if reader.step(10**6) else quiet + 1
    for reader in readers:
        check(reader, versions, order, f"seed {seed}")
    return generation


def replace_some(workers: list[Worker], publishers: list[Publisher], readers: list[Reader], random: Random) -> None:
    """Let some publishers die, if they have not ended, and start others."""
    for number, worker in enumerate(workers):
        if random.random() < 0.3 and not worker.publisher.is_finished:
            for reader in readers:
                reader.lose(number)
            worker.replace_publisher()
            publishers[number] = worker.publisher


class Version(NamedTuple):
    """What a life of the workers has come to.

    Attributes:
        found: what each epoch is made of.
        lowers: what may still come.
    """

    found: dict[Time, list[int]]
    lowers: list[Time]


def version_of(workers: list[Worker]) -> Version:
    """Return what this life has come to."""
    found: dict[Time, list[int]] = {}
    for worker in workers:
        for time, records in worker.upstream.batches:
            found.setdefault(time, []).extend(records)
    lowers = [time for worker in workers for time in worker.upstream.lower]
    return Version({time: sorted(records) for time, records in found.items()}, lowers)


def complete(time: Time, versions: list[Version], order: Order) -> list[list[int]]:
    """Return what an epoch is made of in each life in which it was complete."""
    less_equal = LESS_EQUAL[order]
    return [
        version.found.get(time, [])
        for version in versions
        if not any(less_equal(lower, time) for lower in version.lowers)
    ]


def check(reader: Reader, versions: list[Version], order: Order, say: str) -> None:
    """Check that a reader has seen every epoch once, whole, and in order."""
    seen = {epoch.time: sorted(epoch.records) for epoch in reader.epochs}
    assert len(seen) == len(reader.epochs), f"{say}: an epoch comes twice: {reader.epochs}"
    for time, records in seen.items():
        right = complete(time, versions, order)
        assert records in right, f"{say}: epoch {time} has {records}, of {right}"
    missed = [time for time in versions[-1].found if time not in seen and all(complete(time, versions, order))]
    if reader.is_first and not reader.is_lost:
        assert not missed, f"{say}: epochs {missed} were never shown"
    assert reader.is_lost or not len(reader._assembler), f"{say}: some epochs were never complete"


def test_every_epoch_is_shown_once() -> None:
    """However often the job goes back, in the middle of epochs, and before all workers have connected again."""
    assert sum(run(seed) for seed in range(RUNS)) > RUNS


def alter(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, change: Callable[..., Any]) -> None:
    """Replace a method by one that calls ``change`` with the method and its arguments."""
    method = getattr(kind, name)
    monkeypatch.setattr(kind, name, lambda *args, **named: change(method, *args, **named))


def _partitions_go_back_alone(patch: pytest.MonkeyPatch) -> None:
    alter(patch, Generations, "is_ahead", lambda *_: False)


def _one_message_too_many_stands(patch: pytest.MonkeyPatch) -> None:
    alter(patch, SentEvents, "durable", lambda method, self, count, number: method(self, count, number + 1))


def _one_message_too_few_stands(patch: pytest.MonkeyPatch) -> None:
    alter(patch, SentEvents, "durable", lambda method, self, count, number: method(self, count, number - 1))


def _standing_messages_may_be_missing(patch: pytest.MonkeyPatch) -> None:
    """A subscriber that comes back goes on, though it had not received all that stands."""

    def accept(method: Any, self: PartitionStream, numbered: Numbered) -> Any:
        begun = numbered.message
        if not isinstance(begun, InitialFrontierSnapshot) or self._received is None or begun.standing is None:
            return method(self, numbered)
        self._received = numbered.sequence
        return WentBack(begun.generation, begun.standing, begun.lower)

    alter(patch, PartitionStream, "accept", accept)


def _nothing_is_kept_for_those_who_come_back(patch: pytest.MonkeyPatch) -> None:
    def begin(method: Any, self: Publisher, position: WorkerPosition) -> None:
        method(self, position)
        self.kept, self.has_begun = None, True

    alter(patch, Publisher, "begin", begin)
    alter(patch, Publisher, "subscribe", lambda method, self, name, **_: method(self, name))


def _void_batches_stay(patch: pytest.MonkeyPatch) -> None:
    alter(patch, RolledBack, "voids", lambda *_: False)


def _epochs_are_shown_again(patch: pytest.MonkeyPatch) -> None:
    def receive(method: Any, self: Subscriber, *args: Any) -> list[Event]:
        self._shown = None
        return list(method(self, *args))

    alter(patch, Subscriber, "receive", receive)


def _what_is_not_confirmed_is_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SentEvents, "saved", property(lambda self: SavedEvents(self.position, [])))


def _snapshots_have_no_generation(patch: pytest.MonkeyPatch) -> None:
    alter(patch, Generations, "snapshot", lambda method, self, partition, number, _: method(self, partition, number, 0))


def _void_messages_wait(patch: pytest.MonkeyPatch) -> None:
    """What has waited of a life that is over is not forgotten."""

    def receive(method: Any, self: Subscriber, *args: Any) -> list[Event]:
        waiting = self._waiting
        events = list(method(self, *args))
        if len(self._waiting) < len(waiting) and not events:
            self._waiting = waiting
        return events

    alter(patch, Subscriber, "receive", receive)


def _open_epochs_are_latent(patch: pytest.MonkeyPatch) -> None:
    """One who comes after the return takes an epoch for whole of which a part was sent before it."""

    def introduce(method: Any, self: Publisher, queue: Any) -> None:
        if self._generation:
            self._epochs.active.clear()
        method(self, queue)

    alter(patch, Publisher, "_introduce", introduce)


FAULTS: Iterable[Callable[[pytest.MonkeyPatch], None]] = (
    _partitions_go_back_alone,
    _one_message_too_many_stands,
    _one_message_too_few_stands,
    _void_batches_stay,
    _epochs_are_shown_again,
    _what_is_not_confirmed_is_lost,
    _snapshots_have_no_generation,
    _void_messages_wait,
    _standing_messages_may_be_missing,
    _nothing_is_kept_for_those_who_come_back,
    _open_epochs_are_latent,
)


def check_noticed(run: Callable[[int], object], tries: int) -> None:
    """Assert that one of so many runs, which take a seed, raises an error."""
    for seed in range(tries):
        try:
            run(seed)
        except Exception:  # noqa: BLE001 - a machine that contradicts itself has noticed, too
            return
    pytest.fail(f"{tries} runs went well")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__.strip("_"))
def test_faults_are_noticed(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """With one thing wrong, one of few runs says so."""
    fault(monkeypatch)
    check_noticed(run, TRIES)
