"""Topics with history: a subscriber that comes at any moment receives the state, and then every epoch.

The first epoch is the sum of all changes up to it, as plain Python adds them up; each later one comes once, and whole.
The job goes back to snapshots, workers deal their changes out anew, and publishers die, as in `test_going_back`. A
failure says the seed that repeats it.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from random import Random
from typing import Any

import pytest

from tests.kit.pubsub.numbered import fetched
from tests.protocol.test_going_back import (
    Cut,
    Reader,
    Version,
    Worker,
    alter,
    check_noticed,
    complete,
    replace_some,
    version_of,
)
from tidewheel.progress import IntegerDomain, Time
from tidewheel.pubsub.errors import PublisherLost
from tidewheel.pubsub.messages.encoded_message import decode_batch, encode_batch
from tidewheel.pubsub.messages.events import Epoch
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    FeedEvent,
    Generation,
    History,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Numbered,
)
from tidewheel.pubsub.protocol import history
from tidewheel.pubsub.protocol.epochs import EpochAssembler
from tidewheel.pubsub.protocol.history import PartitionHistory
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.publishers.sent_events import SentEvents

RUNS = 300
TRIES = 300
STEPS = 150
DOMAIN = IntegerDomain()


def change(number: int) -> tuple[int, int]:
    """Return the change that a number stands for: few records, and as many are added as removed."""
    return number % 5, 1 if number % 2 else -1


def total(numbers: Iterable[int]) -> dict[int, int]:
    """Return the sum of changes in plain Python."""
    counts: Counter[int] = Counter()
    for record, diff in map(change, numbers):
        counts[record] += diff
    return {record: diff for record, diff in counts.items() if diff}


class HistoricWorker(Worker):
    """A worker that publishes changes, with history."""

    def replace_publisher(self) -> None:
        """Start a publisher, also where one has died."""
        self.publisher = Publisher(DOMAIN, has_begun=False, has_history=True)

    def restart(self, cut: Cut, generation: int) -> None:
        """Go back; what was under way is lost."""
        super().restart(cut, generation)
        self._sent = SentEvents(DOMAIN, cut.saved, Generation(generation), has_history=True)

    def _send(self, event: FeedEvent) -> None:
        if isinstance(event, DataMessage):
            event = encode_batch(event.time, [change(number) for number in decode_batch(event)])
        super()._send(event)


class HistoricReader(Reader):
    """A subscriber that begins again when it is told so, as it may be until it has the state."""

    def __init__(self, name: str, publishers: list[Publisher], random: Random) -> None:
        super().__init__(name, "total", publishers, random)
        self._core = Subscriber(DOMAIN, len(publishers))
        self.lives = 1
        self.complete_until = -1

    def _read(self, number: int, most_bytes: int) -> bool:
        found = fetched(self._joined[number], self._name, self._acknowledged[number], most_bytes)
        for numbered in found:
            self._acknowledged[number] = numbered.sequence
            try:
                self._receive(number, numbered)
            except PublisherLost as error:
                if "Subscribe again" in str(error):
                    assert not self.epochs, "it has the state"
                    self._begin_again()
                else:
                    self.is_lost = True
                return False
        return bool(found)

    def _receive(self, number: int, numbered: Numbered) -> None:
        snapshot = numbered.message
        if isinstance(snapshot, InitialFrontierSnapshot) and number not in self._received:
            assert snapshot.history is not None
            passed = (time - 1 for time in snapshot.lower)
            self.complete_until = max([self.complete_until, *passed, *snapshot.history.as_of])
        events = self._core.receive(number, numbered)
        self._received[number] = numbered.sequence
        for event in events:
            self.epochs += self._assembler.receive(event)

    def _begin_again(self) -> None:
        for publisher in self._publishers:
            publisher.unsubscribe(self._name)
        self._name = f"{self._name}+"
        self._core, self._assembler = Subscriber(DOMAIN, len(self._publishers)), EpochAssembler(DOMAIN)
        self._acknowledged.clear()
        self._joined.clear()
        self._received.clear()
        self.lives += 1
        self.complete_until = -1


def run(seed: int) -> Counter[str]:
    """Run what a seed says; return how often the job went back, and what its readers have seen."""
    random = Random(seed)
    numbers = count()
    workers: list[Worker] = [HistoricWorker("total", random, numbers) for _ in range(random.randint(1, 3))]
    publishers = [worker.publisher for worker in workers]
    readers: list[Reader] = []
    versions: list[Version] = []
    cuts = [worker.cut() for worker in workers]
    counts: Counter[str] = Counter()
    goes_back = random.random() < 0.7
    for _ in range(random.randint(STEPS // 3, STEPS) * len(workers)):
        choice = random.random()
        if choice < 0.02 and all(worker.is_connected for worker in workers):
            cuts = [worker.cut() for worker in workers]
        elif choice < 0.04 and goes_back and len({publisher.is_finished for publisher in publishers}) == 1:
            versions.append(version_of(workers))
            counts["returns"] += 1
            for worker, cut in zip(workers, cuts, strict=True):
                worker.restart(cut, counts["returns"])
            replace_some(workers, publishers, readers, random)
        elif choice < 0.06:
            readers.append(HistoricReader(f"reader {len(readers)}", publishers, random))
        elif choice < 0.7 or not readers:
            random.choice(workers).step()
        else:
            random.choice(readers).step(random.choice((1, 300, 10**6)))
    for worker in workers:
        worker.end()
        worker.receive_all()
    versions.append(version_of(workers))
    readers.append(HistoricReader("last", publishers, random))
    for reader in readers:
        quiet = 0
        while quiet < 100:
            quiet = 0 if reader.step(10**6) else quiet + 1
        counts += check(reader, versions, f"seed {seed}")
    return counts


def check(reader: Reader, versions: list[Version], say: str) -> Counter[str]:
    """Check that a reader has seen the state and then every epoch once, whole, and in order."""
    assert isinstance(reader, HistoricReader)
    assert reader.is_lost or not len(reader._assembler), f"{say}: some epochs were never complete"
    counts = Counter({"lost": int(reader.is_lost), "lives": reader.lives})
    if not reader.epochs:
        return counts
    first, *later = reader.epochs
    has_state = first.time <= reader.complete_until
    if has_state:
        check_state(first, versions, say)
        apart = [epoch.time for epoch in later if epoch.time <= reader.complete_until]
        assert not apart, f"{say}: some partition had {apart} complete, which the state at {first.time} lacks"
    else:
        later = reader.epochs
    times = [epoch.time for epoch in reader.epochs]
    assert times == sorted(set(times)), f"{say}: epochs come twice, or not in order: {times}"
    for epoch in later:
        right = [sorted(map(change, numbers)) for numbers in complete(epoch.time, versions, "total")]
        assert sorted(epoch.records) in right, f"{say}: epoch {epoch.time} has {epoch.records}, of {right}"
    last = [time for time in versions[-1].found if time > first.time and all(complete(time, versions, "total"))]
    assert reader.is_lost or set(last) <= set(times), f"{say}: epochs {set(last) - set(times)} were never shown"
    is_late = has_state and first.time > 2
    return counts + Counter({"states": int(has_state), "late states": is_late, "later epochs": len(later)})


def check_state(first: Epoch, versions: list[Version], say: str) -> None:
    """Check that the first epoch is the sum of all changes until then, in one life of the job."""
    counts: Counter[int] = Counter()
    for record, diff in first.records:
        counts[record] += diff
    found = {record: diff for record, diff in counts.items() if diff}
    right = [
        total(number for time, numbers in version.found.items() if time <= first.time for number in numbers)
        for version in versions
        if all(lower > first.time for lower in version.lowers)
    ]
    assert found in right, f"{say}: the state at {first.time} is {found}, and not of {right}"


def test_a_subscriber_gets_the_state_and_then_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """However late it comes at each partition, and however often the job goes back and publishers die meanwhile."""
    monkeypatch.setattr(history, "_LEAST_BYTES", 500)
    counts: Counter[str] = Counter()
    for seed in range(RUNS):
        counts += run(seed)
    assert counts["returns"] > RUNS / 2, counts
    assert counts["late states"] > RUNS, counts
    assert counts["later epochs"] > 5 * RUNS, counts
    assert counts["lost"] < counts["states"] / 10, counts


def test_no_epoch_counts_as_complete_before_the_state() -> None:
    """Else a reader that waits for an early epoch takes an empty table for the state, also of one that never comes."""
    state = encode_batch(5, [("a", 1)])
    ahead = InitialFrontierSnapshot([6], [], history=History((5,), ((-1, state),)))
    late = Subscriber(DOMAIN, 2)
    late.receive(0, Numbered(9, ahead))
    late.receive(1, Numbered(7, InitialFrontierSnapshot([4], [], history=History((), ()))))
    assert list(late.frontier) == [0]
    late.receive(1, Numbered(8, LowerFrontierUpdate([(4, -1), (7, 1)])))
    assert list(late.frontier) == [6]
    torn = Subscriber(DOMAIN, 2)
    torn.receive(0, Numbered(9, ahead))
    with pytest.raises(PublisherLost, match="Subscribe again"):
        torn.receive(1, Numbered(7, InitialFrontierSnapshot([4], [], generation=1, history=History((), ()))))
    assert list(torn.frontier) == [0]


def _open_batches_are_left_out(patch: pytest.MonkeyPatch) -> None:
    def told(method: Any, self: PartitionHistory, *args: Any) -> Any:
        self._open.clear()
        return method(self, *args)

    alter(patch, PartitionHistory, "told", told)


def _a_batch_counts_twice(patch: pytest.MonkeyPatch) -> None:
    def advance(method: Any, self: PartitionHistory, is_completed: Callable[[Time], bool]) -> None:
        kept = list(self._complete[-1:])
        method(self, is_completed)
        self._complete += kept

    alter(patch, PartitionHistory, "advance", advance)


def _each_partition_has_a_state_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """Epochs before that of the state are shown by themselves, without the parts that others have added up."""

    def state(method: Any, self: Subscriber) -> Any:
        found = method(self)
        self._as_of = None
        return found

    alter(patch, Subscriber, "_state", state)


def _a_return_leaves_the_history(patch: pytest.MonkeyPatch) -> None:
    def begin(method: Any, self: Publisher, *args: Any) -> None:
        before = self._history
        method(self, *args)
        self._history = before

    alter(patch, Publisher, "begin", begin)


def _snapshots_have_no_history(patch: pytest.MonkeyPatch) -> None:
    def init(method: Any, self: SentEvents, *args: Any, **named: Any) -> None:
        method(self, *args, **named)
        self._history = PartitionHistory(DOMAIN)

    alter(patch, SentEvents, "__init__", init)


def _void_batches_have_no_number(patch: pytest.MonkeyPatch) -> None:
    """Of epochs that were open as it came, a subscriber takes what comes again for more."""
    alter(patch, PartitionHistory, "receive", lambda method, self, _, message: method(self, -1, message))


def _a_state_of_two_lives_is_shown(patch: pytest.MonkeyPatch) -> None:
    """A subscriber goes on though the job goes back before it has the state."""

    def receive(method: Any, self: Subscriber, *args: Any) -> Any:
        if self._as_of is not None:
            self._began = ()
        return method(self, *args)

    alter(patch, Subscriber, "receive", receive)


FAULTS: Iterable[Callable[[pytest.MonkeyPatch], None]] = (
    _open_batches_are_left_out,
    _a_batch_counts_twice,
    _each_partition_has_a_state_of_its_own,
    _a_return_leaves_the_history,
    _snapshots_have_no_history,
    _void_batches_have_no_number,
    _a_state_of_two_lives_is_shown,
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__.strip("_"))
def test_faults_are_noticed(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """With one thing wrong, one of few runs says so."""
    fault(monkeypatch)
    check_noticed(run, TRIES)
