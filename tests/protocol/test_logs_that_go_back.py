"""A topic with logs whose job begins again, or goes back to a snapshot: subscribers see every epoch whole, and once.

What a job sends again is in other batches, in another order, and at other partitions. Logs and readers die at any
moment, too. A failure says the seed that repeats it.
"""

from collections import deque
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple, cast

import pytest

from tests.kit.exactly_once.logs import Log
from tidewheel.progress import Antichain, IntegerDomain, ProductDomain, Time, TimeDomain
from tidewheel.pubsub.exactly_once.journal import Journal, VoidSnapshotError, have_all, next_generation
from tidewheel.pubsub.exactly_once.subend_stream import SubendStream
from tidewheel.pubsub.messages.delivery_messages import Begun, Ranges
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.events import Batch, Epoch, RolledBack
from tidewheel.pubsub.messages.tick_set import TickSet
from tidewheel.pubsub.messages.wire import FIRST, InitialFrontierSnapshot, LowerFrontierUpdate
from tidewheel.pubsub.protocol.epochs import EpochAssembler
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.publishers.confirmed import Unconfirmed
from tidewheel.pubsub.publishers.epochs_again import Difference, Sums, differing_epochs, first_difference
from tidewheel.pubsub.publishers.partition_log import ReplayedLog
from tidewheel.pubsub.publishers.sent_events import SavedEvents, SentEvents

RUNS = 400
STEPS = 250
RECORDS = 5
AWAY, BACK = 0.3, 0.1
UNSURE = 0.9
"""The probability that a snapshot and a return come at once, where a log does not know what of it will stand."""

DOMAINS: tuple[TimeDomain, ...] = (IntegerDomain(), ProductDomain(IntegerDomain(), IntegerDomain()))


class Cut(NamedTuple):
    """What a snapshot of the job has."""

    unsent: dict[Time, list[int]]
    lowers: list[list[Time]]
    saved: list[SavedEvents]


class Job:
    """Workers that send the records of each epoch in any batches, each record to any partition."""

    def __init__(self, domain: TimeDomain, workers: int, random: Random, *, changes: bool = False) -> None:
        self._domain, self._random, self._changes = domain, random, changes
        times: list[Time] = [0, *range(1, 7)] if domain is DOMAINS[0] else [(a, b) for a in range(3) for b in range(3)]
        most = random.randint(1, RECORDS)
        self.expected = {time: [100 * at + n for n in range(most)] for at, time in enumerate(times)}
        self.logs = [Log(domain, number, workers) for number in range(workers)]
        self.cuts: list[Cut] = []
        self._left_behind: list[Cut] = []
        self.returns = self.compared = self.concluded = self.unequal = self.refused = 0
        self.changed: tuple[Time, int] | None = None
        self.differing: list[tuple[Time, tuple[int, Difference] | None]] = []
        self._generation = FIRST
        self._begin(None)

    def _begin(self, cut: Cut | None) -> None:
        self._came_from = cut
        self._unsent = deepcopy(self.expected if cut is None else cut.unsent)
        least = [self._domain.minimum()]
        workers = range(len(self.logs))
        self._lowers = [list(least if cut is None else cut.lowers[number]) for number in workers]
        self._sent = [
            SentEvents(self._domain, None if cut is None else cut.saved[number], self._generation, keeps_end=True)
            for number in workers
        ]
        self._pipes = [deque(sent.messages()) for sent in self._sent]
        self._connected = [False for _ in workers]
        self._is_compared = not self._generation.number
        self._came: dict[int, Sums] = {}
        self._away = {number for number in workers if self._random.random() < AWAY}

    def change(self) -> None:
        """Have one record of a complete epoch come again as another one."""
        complete = Antichain(self._domain, self._generation.complete)
        changeable = [time for time, left in self._unsent.items() if left and not complete.less_equal(time)]
        if self._generation.number and changeable and not self.changed:
            time = self._random.choice(changeable)
            self.changed = (time, self._unsent[time][0])
            self._unsent[time][0] = -1

    def compare(self) -> None:
        """Compare what came again once it has."""
        logs, generation = self.logs, self._generation.number
        for number, log in enumerate(logs):
            is_asked = not self._is_compared and number not in self._came
            if is_asked and log.again is None and log.journal.epochs().generation == generation:
                self._came[number] = {}
            elif is_asked and log.again is not None and log.again.have_come_in(generation):
                self._came[number] = log.again.came()
        if self._is_compared or len(self._came) < len(logs):
            return
        self._is_compared = True
        came = [self._came[number] for number in range(len(logs))]
        times = {time for sums in came for time in sums}
        logged: list[Any] = [
            dict.fromkeys(times) if log.again is None else log.again.logged(cast(ReplayedLog, log), times)
            for log in logs
        ]
        self.compared += sum(not any(time in sums and sums[time] is None for sums in logged) for time in times)
        for time in differing_epochs(self._domain, came, logged):
            found = [log.again.differences(cast(ReplayedLog, log), time) for log in logs if log.again is not None]
            self.differing.append((time, first_difference(found)))

    def step(self) -> None:
        self.compare()
        random, number = self._random, self._random.randrange(len(self.logs))
        log, sent, pipe = self.logs[number], self._sent[number], self._pipes[number]
        choice = random.random()
        if self._connected[number] and not log.journal.is_sure and random.random() < UNSURE:
            log.durable = len(log.steps)
            log.confirm(sent)
            self._cut()
            self._go_back()
        elif choice < 0.25:
            self._send(number)
        elif choice < 0.4:
            self._move(number)
        elif choice < 0.7:
            self._receive(number)
        elif choice < 0.8:
            log.durable = random.randint(log.durable, len(log.steps))
        elif choice < 0.9:
            if self._connected[number]:
                log.confirm(sent)
        elif choice < 0.94:
            self._cut()
        elif choice < 0.97:
            log.crash(random)
            pipe.clear()
            pipe.extend(sent.messages())
            self._connected[number] = False
        else:
            self._go_back()

    def _cut(self) -> None:
        self.cuts.append(Cut(deepcopy(self._unsent), deepcopy(self._lowers), [one.saved for one in self._sent]))
        if self._came_from in self._left_behind and not all(self._connected):
            self._left_behind.append(self.cuts[-1])  # its batches are those of the other, which logs have yet to accept

    def _send(self, number: int) -> None:
        """Send some records of any epoch that may still come."""
        open_times = [time for time, left in self._unsent.items() if left]
        if open_times:
            time = self._random.choice(open_times)
            left = self._unsent[time]
            self._random.shuffle(left)
            count = self._random.randint(1, len(left))
            batch, self._unsent[time] = left[:count], left[count:]
            self._add(number, encode_batch(time, batch))

    def _move(self, number: int) -> None:
        """Have a worker learn the frontier of all."""
        before = self._lowers[number]
        now = list(Antichain(self._domain, [time for time, left in self._unsent.items() if left]))
        updates = [(time, -1) for time in before if time not in now] + [(time, 1) for time in now if time not in before]
        if updates:
            self._lowers[number] = now
            self._add(number, LowerFrontierUpdate(updates))

    def _add(self, number: int, event: Any) -> None:
        self._pipes[number].append(self._sent[number].add(event))

    def _receive(self, number: int) -> None:
        if number in self._away:
            if self._random.random() < BACK:
                self._away.remove(number)
        elif not self._connected[number]:
            try:
                self.logs[number].begin(self._sent[number])
            except VoidSnapshotError:
                assert self._came_from in self._left_behind, "no job has begun without this snapshot"
                self.refused += 1
                self._go_back(without=True)
            else:
                self._connected[number] = True
        elif self._pipes[number]:
            self.logs[number].feed(self._pipes[number].popleft())

    def _go_back(self, *, without: bool = False) -> None:
        """Begin again, or go on from one of the last snapshots, or from one that an earlier job has gone behind."""
        random = self._random
        if random.random() < 0.3:
            self._cut()
        is_another = random.random() < 0.5
        for log in self.logs:
            if is_another:
                log.crash(random)
            log.durable = len(log.steps)
        all_of = [log.place().has_all for log in self.logs]
        self.unequal += any(all_of) and not all(all_of)
        self._conclude(dies=True)
        self._generation = next_generation(self._domain, [log.place() for log in self.logs])
        stays = random.choice((len(self.cuts), len(self.cuts) - 1, 0))  # the newest is damaged at times, or all are
        old = self.cuts[: 0 if without else max(0, stays)]
        if self._left_behind and not without and random.random() < 0.2:
            old = [random.choice(self._left_behind)]
        self._left_behind += [cut for cut in self.cuts if cut not in old]
        self.cuts = old
        self._begin(self.cuts[-1] if self.cuts else None)
        self.returns += 1
        if self._changes and random.random() < 0.4:
            self.change()

    def _conclude(self, *, dies: bool = False) -> None:
        """End the topic if all logs have everything, perhaps in two goes, as the job dies after the first."""
        if have_all([log.place() for log in self.logs]):
            self.concluded += 1
            if dies:
                self.logs[-1].conclude()
                self.logs[0].crash(self._random)
            for log in self.logs:
                log.conclude()

    def finish(self) -> None:
        while not all(self._connected):
            self._away.clear()
            self._receive(self._connected.index(False))
        while any(self._unsent.values()):
            self._send(self._random.randrange(len(self.logs)))
        self._away.clear()
        for number, log in enumerate(self.logs):
            self._move(number)
            while not self._connected[number] or self._pipes[number]:
                self._receive(number)
            log.durable = len(log.steps)
        self._conclude()
        assert all(log.journal.has_ended for log in self.logs)


class Reader:
    """A durable subscription, whose readers die, and acknowledge whole epochs or single batches."""

    def __init__(self, job: Job, random: Random, *, by_epoch: bool) -> None:
        self._job, self._random, self._by_epoch = job, random, by_epoch
        self._acknowledged: list[Ranges] = [() for _ in job.logs]
        self._first: list[InitialFrontierSnapshot] | None = None
        self.is_from_start = random.random() < 0.6
        self.done: list[Epoch] = []
        self.stands: list[Batch] = []
        if not self.is_from_start:
            self._acknowledged = [((0, log.end),) if log.end else () for log in job.logs]
        self.lives = 0
        self._attach()

    def _attach(self) -> None:
        begun = []
        for number, log in enumerate(self._job.logs):
            frontiers = log.frontiers_at(TickSet(self._acknowledged[number]).prefix_end)
            first = frontiers if self._first is None else self._first[number]
            begun.append(Begun(self._acknowledged[number], log.end, frontiers, first, 0, ()))
        self._first = [one.first_frontiers for one in begun]
        domain = self._job._domain
        self._stream = SubendStream("reader", domain, begun)
        self._subscriber = Subscriber(domain, len(begun), began=self._first)
        self._assembler = EpochAssembler(domain)
        self._waiting: list[Epoch] = []
        self.lives += 1

    def crash(self) -> None:
        """Have another reader go on, with what was acknowledged."""
        if self._by_epoch:
            self._attach()

    def read(self, *, whole: bool = False) -> None:
        for log in self._job.logs:
            end = log.end if whole else self._random.randint(0, log.end)
            self._stream.receive(log.knowledge(end), 0.0)
        for fetched in self._stream.fetch():
            for numbered in fetched.messages:
                for event in self._subscriber.receive(fetched.partition, numbered):
                    self._waiting += self._assembler.receive(event)
                    if isinstance(event, Batch):
                        self.stands.append(event)
                    elif isinstance(event, RolledBack):
                        self._stream.acknowledge(event.partition, event.at)
                        self.stands = [batch for batch in self.stands if not event.voids(batch)]
                for partition, tick in self._subscriber.unseen:
                    self._stream.acknowledge(partition, tick)
                self._subscriber.unseen.clear()
        count = len(self._waiting) if whole else self._random.randint(0, len(self._waiting))
        for epoch in self._waiting[:count]:
            self.done.append(epoch)
            for batch in epoch.batches:
                self._stream.acknowledge(batch.partition, batch.number)
        del self._waiting[:count]
        self._acknowledged = [self._stream.acknowledged(number).ranges() for number in range(len(self._job.logs))]

    @property
    def has_everything(self) -> bool:
        """Whether everything that was published is acknowledged."""
        return all(
            TickSet(ranges).next_missing(0) >= log.end
            for ranges, log in zip(self._acknowledged, self._job.logs, strict=True)
        )


def run(seed: int) -> Job:
    """Run what a seed says."""
    random = Random(seed)
    domain = DOMAINS[seed % 2]
    job = Job(domain, random.randint(1, 3), random)
    readers = [Reader(job, random, by_epoch=by_epoch) for by_epoch in (True, False)]
    for _ in range(STEPS):
        job.step()
        if random.random() < 0.2:
            random.choice(readers).read()
        if random.random() < 0.03:
            readers[0].crash()
        if random.random() < 0.02:
            readers.append(Reader(job, random, by_epoch=True))
    job.finish()
    for reader in readers:
        reader.read(whole=True)
        reader.read(whole=True)
        check(job, reader)
    assert not job.differing, "what came again is the same, whatever its batches"
    return job


def check(job: Job, reader: Reader) -> None:
    """Compare what a subscription has had with what the epochs have."""
    found = {epoch.time: sorted(epoch.records) for epoch in reader.done}
    assert len(found) == len(reader.done), "an epoch came twice"
    wrong = {time: records for time, records in found.items() if records != job.expected[time]}
    assert not wrong, "epochs have parts of two lives, or lack one"
    for at, epoch in enumerate(reader.done):
        late = [other.time for other in reader.done[at + 1 :] if job._domain.less_equal(other.time, epoch.time)]
        assert not late, f"{late} came after {epoch.time}"
    if reader.is_from_start:
        assert found == job.expected, "epochs are missing"
    assert reader.has_everything, "something void was never acknowledged"
    if not reader._by_epoch and reader.is_from_start:
        records: dict[Time, list[int]] = {time: [] for time in job.expected}
        for batch in reader.stands:
            records[batch.time] += batch.records
        assert {time: sorted(found) for time, found in records.items()} == job.expected, "void batches were not told"


@pytest.mark.parametrize("block", [0, 1, *(pytest.param(block, marks=pytest.mark.long) for block in (2, 3))])
def test_epochs_are_seen_once_and_whole(block: int) -> None:
    """Whatever dies, and wherever the job goes on; also while one partition has everything and another has not."""
    jobs: list[Job] = []
    for seed in range(block * RUNS // 4, (block + 1) * RUNS // 4):
        try:
            jobs.append(run(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert sum(job.returns for job in jobs) > RUNS // 4
    assert sum(job.unequal for job in jobs) > RUNS // 40
    assert sum(job.refused for job in jobs) > RUNS // 100


def test_a_worker_that_forgets_what_may_be_void_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks check: a run fails if messages without a sure number are confirmed, and passes if they wait."""
    add = Unconfirmed.add
    with monkeypatch.context() as patch:
        patch.setattr(Unconfirmed, "add", lambda one, tick, what, **_: add(one, tick, what))
        found = next((seed for seed in range(RUNS) if fails(seed)), None)
    assert found is not None, f"not found in {RUNS} runs"
    run(found)


def test_a_log_that_takes_a_void_snapshot_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks check: a run fails if a job goes on from a snapshot that a later job has made void."""
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_check_stands", lambda *_: None)
        found = next((seed for seed in range(RUNS) if fails(seed)), None)
    assert found is not None, f"not found in {RUNS} runs"
    run(found)


def fails(seed: int) -> bool:
    try:
        run(seed)
    except AssertionError:
        return True
    return False


def test_another_record_of_a_complete_epoch_is_found() -> None:
    """Unless part of the epoch is older than the snapshot, or removed: then nothing is said. The record is named."""
    changed = found = 0
    for seed in range(RUNS // 2):
        random = Random(seed)
        job = Job(DOMAINS[seed % 2], random.randint(1, 3), random, changes=True)
        for _ in range(STEPS):
            job.step()
            if job.changed:
                job.finish()
                job.compare()
                break
        changed += job.changed is not None
        found += bool(job.differing)
        for time, difference in job.differing:
            assert job.changed is not None, f"seed {seed}: {time} is said to differ, and does not"
            assert time == job.changed[0], f"seed {seed}"
            assert difference is not None, f"seed {seed}"
            assert difference[1] == Difference(1, str(job.changed[1])), f"seed {seed}"
    assert found > changed // 2 > RUNS // 40, f"{found} of {changed} were found"
