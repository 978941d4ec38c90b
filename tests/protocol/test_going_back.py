"""A topic whose job goes back to a snapshot, again and again: subscribers see every epoch whole, and once.

What a worker sends again differs from what it sent before, and goes to any partition. So an epoch that is made of parts
of two lives, or misses one, is noticed. Publishers die, too, and their subscribers come back. Queues are full at times,
as subscribers are slow, and have conditions. A failure says the seed that repeats it.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.kit.former_topics.publisher import FormerPublisher
from tests.kit.pubsub.numbered import fetched
from tests.simulation.topics.conditions import WHERES, Condition, wanted
from tests.simulation.topics.partition import DOMAINS, LESS_EQUAL, Partition
from tests.simulation.topics.topic_options import PLENTY, Order
from tidewheel.progress import Time
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions, Slow
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.events import Dropped, Epoch, Event, RolledBack
from tidewheel.pubsub.messages.wire import (
    EpochsDropped,
    FeedEvent,
    Generation,
    InitialFrontierSnapshot,
    Numbered,
    WentBack,
    WorkerPosition,
)
from tidewheel.pubsub.protocol.dropping_queue import DroppingQueue
from tidewheel.pubsub.protocol.epochs import EpochAssembler
from tidewheel.pubsub.protocol.generations import Generations
from tidewheel.pubsub.protocol.partition_stream import PartitionStream
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.publishers.sent_events import SavedEvents, SentEvents

RUNS = 800
STEPS = 150
TRIES = 800
SAME = 150
NUMBERS = 1_000_000
CAPACITIES = (PLENTY, PLENTY, 500, 600, 800, 1500)
CONDITIONS: tuple[Condition, ...] = ("all", "all", "even", "few")
SLOW: tuple[Slow, ...] = ("drop_epochs", "drop_epochs", "disconnect", "block")


class Cut(NamedTuple):
    """What a snapshot has of one worker."""

    tokens: list[Time]
    lower: list[Time]
    batches: int
    saved: SavedEvents


class Worker:
    """One worker, its publisher, and what is under way between them."""

    def __init__(
        self,
        order: Order,
        random: Random,
        numbers: "count[int]",
        capacity_bytes: int = PLENTY,
        publisher: Callable[..., Any] = Publisher,
    ) -> None:
        self._domain = DOMAINS[order]
        self._make = publisher
        self._capacity_bytes = capacity_bytes
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

    def receive(self) -> bool:
        """Have the publisher receive what was sent first, unless a subscriber holds it back; tell whether it has."""
        if not self._pipe or self.publisher.is_held:
            return False
        self.publisher.feed([self._pipe.popleft()])
        self._received.append(self.publisher.number)
        return True

    def receive_all(self) -> None:
        """Have the publisher receive what was sent, up to where a subscriber holds it back."""
        while self.receive():
            pass

    def replace_publisher(self) -> None:
        """Start a publisher, also where one has died."""
        self.publisher = self._make(self._domain, self._capacity_bytes, has_begun=False)

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
        """Connect, and send the end."""
        if not self.is_connected:
            self.connect()
        event = self.upstream.end()
        if event is not None:
            self._send(event)


class Reader:
    """One subscriber, which connects to the partitions at any moments."""

    def __init__(
        self,
        name: str,
        order: Order,
        publishers: list[Publisher],
        random: Random,
        condition: Condition = "all",
        slow: Slow = "disconnect",
    ) -> None:
        self._name, self._publishers, self._random = name, publishers, random
        self._capacity_bytes = publishers[0].capacity_bytes
        self.condition = condition
        self._options = DeliveryOptions(WHERES.get(condition), slow)
        self._core = Subscriber(DOMAINS[order], len(publishers), may_drop=slow == "drop_epochs")
        self._assembler = EpochAssembler(DOMAINS[order])
        self._acknowledged: dict[int, int] = {}
        self._joined: dict[int, Publisher] = {}
        self._received: dict[int, int] = {}
        self._is_late = random.random() < 0.5
        self.is_lost = False
        self.is_first = random.random() < 0.5
        self.epochs: list[Epoch] = []
        self.dropped: list[Time] = []
        if self.is_first:
            for number in range(len(publishers)):
                self._join(number)

    def _join(self, number: int, *, again: bool = False) -> None:
        publisher = self._joined[number] = self._publishers[number]
        self._acknowledged[number] = -1
        try:
            publisher.subscribe(self._name, self._options, again=again)
        except DeliveryError:
            assert self._capacity_bytes < PLENTY, "what it has missed is kept"
            self._lose_all()

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
        found = fetched(self._joined[number], self._name, self._acknowledged[number], most_bytes)
        for numbered in found:
            self._acknowledged[number] = numbered.sequence
            try:
                events = self._core.receive(number, numbered)
            except PublisherLost:
                standing = getattr(numbered.message, "standing", None)
                assert standing is not None, "it came in time"
                assert standing > self._received[number], "it had all that stands"
                self._lose_all()
                return False
            except DeliveryError:
                assert self._capacity_bytes < PLENTY, "its queue was not full"
                self._lose_all()
                return False
            self._received[number] = numbered.sequence
            for event in events:
                self.epochs += self._assembler.receive(event)
                self.dropped += event.times if isinstance(event, Dropped) else ()
        return bool(found)

    def _lose_all(self) -> None:
        """Read no more."""
        self.is_lost = True
        for publisher in self._joined.values():
            publisher.unsubscribe(self._name)

    def lose(self, number: int) -> None:
        """Receive what the socket of a publisher has that dies, of some publishers not all that it has sent."""
        if number in self._joined and not self.is_lost:
            if self._random.random() < 0.8:
                self._read(number, NUMBERS)
            if number not in self._received:
                self.is_first = False


def run(seed: int) -> int:
    """Run what a seed says; return how often the job went back."""
    return play(seed)[0]


def play(seed: int, publisher: Callable[..., Any] = Publisher) -> tuple[int, list[Reader]]:
    """Run what a seed says with publishers of a kind; return how often the job went back, and who has read."""
    random = Random(seed)
    order: Order = random.choice(("total", "product"))
    numbers = count()
    capacity_bytes = random.choice(CAPACITIES)
    workers = [Worker(order, random, numbers, capacity_bytes, publisher) for _ in range(random.randint(1, 3))]
    publishers = [worker.publisher for worker in workers]
    readers = [
        Reader(f"reader {n}", order, publishers, random, random.choice(CONDITIONS), random.choice(SLOW))
        for n in range(random.randint(1, 3))
    ]
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
    quiet = 0
    while quiet < 100:
        moves = [worker.receive() for worker in workers] + [reader.step(10**6) for reader in readers]
        quiet = 0 if any(moves) else quiet + 1
    assert all(publisher.is_finished for publisher in publishers), f"seed {seed}: some partition never ends"
    for reader in readers:
        check(reader, versions, order, f"seed {seed}")
    return generation, readers


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
    """Check that a reader has seen every epoch once, whole, and in order, but for those that were dropped."""

    def right(time: Time) -> list[list[int]]:
        return [wanted(reader.condition, records) for records in complete(time, versions, order)]

    seen = {epoch.time: sorted(epoch.records) for epoch in reader.epochs}
    assert len(seen) == len(reader.epochs), f"{say}: an epoch comes twice: {reader.epochs}"
    for time, records in seen.items():
        assert records in right(time), f"{say}: epoch {time} has {records}, of {right(time)}"
    dropped = set(reader.dropped)
    assert len(dropped) == len(reader.dropped), f"{say}: an epoch is dropped twice: {reader.dropped}"
    assert not dropped & seen.keys(), f"{say}: epochs {dropped & seen.keys()} are dropped, and come"
    known = seen.keys() | dropped
    missed = [time for time in versions[-1].found if time not in known and all(right(time))]
    if reader.is_first and not reader.is_lost:
        assert not missed, f"{say}: epochs {missed} were never shown"
    assert reader.is_lost or not len(reader._assembler), f"{say}: some epochs were never complete"


class FullQueues:
    """Two partitions with little room, and a subscriber for which they drop epochs; it connects to the first one."""

    def __init__(self) -> None:
        domain = DOMAINS["total"]
        self._publishers = [Publisher(domain, 600, has_begun=False) for _ in range(2)]
        self._core = Subscriber(domain, 2, may_drop=True)
        self._assembler = EpochAssembler(domain)
        self._read = [-1, -1]
        self.epochs: list[tuple[Time, list[Any]]] = []
        self.dropped: list[Time] = []
        self.go_back([(0, -1), (0, -1)], 0)
        self.connect(0)

    def go_back(self, places: list[tuple[Time, int]], generation: int) -> None:
        """Have both workers begin at a frontier, behind the message with a number."""
        for publisher, (lower, number) in zip(self._publishers, places, strict=True):
            publisher.begin(WorkerPosition([lower], {}, 0, Generation(generation), number))

    def connect(self, partition: int) -> None:
        """Have the subscriber connect to a partition."""
        self._publishers[partition].subscribe("reader", DeliveryOptions(slow="drop_epochs"))

    def publish(self, partition: int, *times: Time, passed: tuple[Time, Time] | None = None) -> None:
        """Publish a batch at each time, of which there is no room for two, and then a move of the frontier."""
        publisher = self._publishers[partition]
        for time in times:
            publisher.data(encode_batch(time, [f"{partition}{'.' * 300}"]))
        if passed is not None:
            publisher.frontier([(passed[0], -1), (passed[1], 1)])

    def read(self, partition: int) -> None:
        """Have the subscriber read all that waits for it."""
        for numbered in fetched(self._publishers[partition], "reader", self._read[partition]):
            self._read[partition] = numbered.sequence
            for event in self._core.receive(partition, numbered):
                self.epochs += [(one.time, one.records) for one in self._assembler.receive(event)]
                self.dropped += event.times if isinstance(event, Dropped) else ()

    @property
    def frontier(self) -> list[Time]:
        """What the subscriber may still see."""
        return list(self._core.frontier)


def test_an_epoch_stays_dropped_over_a_return() -> None:
    """A partition has dropped an epoch, and its note waits: the other partition's part does not come alone."""
    topic = FullQueues()
    topic.publish(0, 1, 2)
    topic.read(0)
    topic.go_back([(0, -1), (0, -1)], 1)
    topic.read(0)
    topic.connect(1)
    topic.read(1)
    for partition in range(2):
        topic.publish(partition, 1, passed=(0, 2))
        topic.read(partition)
    assert (topic.epochs, topic.dropped, topic.frontier) == ([], [1, 2], [2])


def test_moves_that_a_full_queue_has_made_one_stand_in_part() -> None:
    """A return between two moves that wait as one leaves the frontier where the return says, and epochs go on."""
    topic = FullQueues()
    topic.connect(1)
    topic.read(1)
    topic.go_back([(0, -1), (0, -1)], 1)
    topic.read(0)
    topic.publish(0, passed=(0, 2))
    stands = topic._publishers[0].number
    topic.publish(0, 2, 3, passed=(2, 4))
    topic.read(0)
    topic.go_back([(2, stands), (0, -1)], 2)
    topic.read(0)
    topic.read(1)
    for partition in range(2):
        topic.publish(partition, 5, passed=(2 * (not partition), 6))
        topic.read(partition)
    assert topic.frontier == [6]
    assert [time for time, _ in topic.epochs] == [5]


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


def _notes_of_dropped_epochs_become_void(patch: pytest.MonkeyPatch) -> None:
    """A note that waits is forgotten at a return like a batch, though the queue goes on to leave its epochs out."""

    def stands(method: Any, self: Subscriber, numbered: Numbered, returned: WentBack) -> bool:
        is_void = isinstance(numbered.message, EpochsDropped) and numbered.sequence > returned.number
        return not is_void and method(self, numbered, returned)

    alter(patch, Subscriber, "_stands", stands)


def _moves_that_wait_are_lost(patch: pytest.MonkeyPatch) -> None:
    """A return after what waits of a partition says nothing of its frontier."""
    alter(patch, Generations, "go_back", lambda method, *args: method(*args) or True)


def _queues_forget_what_they_have_dropped(patch: pytest.MonkeyPatch) -> None:
    """A queue forgets at a return what it has left out, and sends the rest."""

    def begin(method: Any, self: Publisher, position: WorkerPosition) -> None:
        for queue in self.queues.values():
            if isinstance(queue, DroppingQueue):
                queue._dropped.clear()
        method(self, position)

    def drop(method: Any, self: Subscriber, times: list[Time]) -> list[Event]:
        events = list(method(self, times))
        self._dropped.clear()
        return events

    alter(patch, Publisher, "begin", begin)
    alter(patch, Subscriber, "_drop", drop)


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
    _notes_of_dropped_epochs_become_void,
    _moves_that_wait_are_lost,
    _queues_forget_what_they_have_dropped,
)


def test_the_former_publisher_shows_the_same() -> None:
    """However often the job goes back: the same epochs, in the same order, and the same ones dropped."""

    def shown(reader: Reader) -> object:
        return [(epoch.time, epoch.records) for epoch in reader.epochs], reader.dropped, reader.is_lost

    for seed in range(SAME):
        now, formerly = (list(map(shown, play(seed, kind)[1])) for kind in (Publisher, FormerPublisher))
        assert now == formerly, f"seed {seed}"


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
