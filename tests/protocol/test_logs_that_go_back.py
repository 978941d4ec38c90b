"""A topic with logs whose job begins again, or goes back to a snapshot: subscribers see every epoch whole, and once.

What a job sends again is in other batches, in another order, and at other partitions. Logs and readers die at any
moment, too. A failure says the seed that repeats it.
"""

from collections import deque
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

import pytest

from tidewheel.progress import Antichain, IntegerDomain, ProductDomain, Time, TimeDomain
from tidewheel.pubsub.exactly_once.journal import Journal, LogPlace, next_generation
from tidewheel.pubsub.exactly_once.messages import Begun, KnowledgeMessage, Ranges
from tidewheel.pubsub.exactly_once.sent_events import SavedEvents, SentEvents
from tidewheel.pubsub.exactly_once.subend_stream import SubendStream
from tidewheel.pubsub.exactly_once.tick_set import TickSet
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, encode, encode_batch
from tidewheel.pubsub.messages.events import Batch, Epoch, RolledBack
from tidewheel.pubsub.messages.wire import FIRST, InitialFrontierSnapshot, LowerFrontierUpdate, WentBack
from tidewheel.pubsub.protocol.epochs import EpochAssembler, EpochStates
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.publishers.confirmed import Confirmed, Unconfirmed
from tidewheel.pubsub.publishers.partition_log import Step, new_messages

RUNS = 400
STEPS = 250
RECORDS = 5
AWAY, BACK = 0.3, 0.1
DOMAINS: tuple[TimeDomain, ...] = (IntegerDomain(), ProductDomain(IntegerDomain(), IntegerDomain()))


class Log:
    """One partition: what is logged, the first part of it durable."""

    def __init__(self, domain: TimeDomain, number: int, partitions: int) -> None:
        self._domain, self._number, self._partitions = domain, number, partitions
        self.steps: list[Step] = []
        self.durable = 0
        self.journal = Journal(domain)
        self._unconfirmed = Unconfirmed()

    def tick_of(self, index: int) -> int:
        return (index + 1) * self._partitions + self._number

    def begin(self, worker: SentEvents) -> None:
        """Do what a pubend does as a worker connects."""
        assert worker.position.number <= self.tick_of(len(self.steps) - 1)
        self._unconfirmed = Unconfirmed()
        returned = self.journal.begin(worker.position)
        if returned is not None:
            self._log(Step(encode(returned), None, returned))

    def feed(self, message: EncodedMessage) -> None:
        for step in new_messages(self.journal, message):
            self._log(step)
        confirmed = Confirmed(1, 0, self.journal.reached)
        self._unconfirmed.add(len(self.steps), confirmed, is_sure=self.journal.is_sure)

    def _log(self, step: Step) -> None:
        self.steps.append(step)
        step.note(self.journal, self.tick_of(len(self.steps) - 1))

    def confirm(self, worker: SentEvents) -> None:
        """Tell the worker what is durable."""
        confirmed = self._unconfirmed.take(self.durable)
        if confirmed.messages:
            worker.durable(confirmed.messages, confirmed.number)

    def crash(self, random: Random) -> None:
        """Die, with as much in the log as is durable or more, and start again."""
        del self.steps[random.randint(self.durable, len(self.steps)) :]
        self.durable = len(self.steps)
        before = self.journal
        self.journal = Journal(self._domain)
        for at, step in enumerate(self.steps):
            if step.changes is None:
                assert step.checksum is not None
                self.journal.record(step.time, step.checksum)
            elif isinstance(step.changes, WentBack):
                self.journal.go_back(step.changes)
            else:
                self.journal.advance(list(step.changes))
            step.note(self.journal, self.tick_of(at))
        if random.random() < 0.5:
            self.journal = Journal.restore(self._domain, self.journal.snapshot())
        assert before is not self.journal
        self._unconfirmed = Unconfirmed()

    def place(self) -> LogPlace:
        epochs = self._epochs(self.durable)
        return LogPlace(epochs.has_begun, list(epochs.lower), epochs.generation, epochs.complete)

    def _epochs(self, count: int) -> EpochStates:
        epochs = EpochStates(self._domain)
        for step in self.steps[:count]:
            step.take(epochs)
        return epochs

    @property
    def end(self) -> int:
        return self.tick_of(self.durable - 1) + 1 if self.durable else 0

    def frontiers_at(self, tick: int) -> InitialFrontierSnapshot:
        return self._epochs(sum(self.tick_of(at) < tick for at in range(self.durable))).snapshot()

    def knowledge(self, end: int) -> KnowledgeMessage:
        """All that is known up to a tick."""
        data = tuple((self.tick_of(at), step.message) for at, step in enumerate(self.steps[: self.durable]))
        data = tuple((tick, message) for tick, message in data if tick < end)
        final = TickSet([(0, end)])
        for tick, _ in data:
            final.remove(tick, tick + 1)
        return KnowledgeMessage(self._number, final.ranges(), data)


class Cut(NamedTuple):
    """What a snapshot of the job has."""

    unsent: dict[Time, list[int]]
    lowers: list[list[Time]]
    saved: list[SavedEvents]


class Job:
    """Workers that send the records of each epoch in any batches, each record to any partition."""

    def __init__(self, domain: TimeDomain, workers: int, random: Random) -> None:
        self._domain, self._random = domain, random
        times: list[Time] = [0, *range(1, 7)] if domain is DOMAINS[0] else [(a, b) for a in range(3) for b in range(3)]
        most = random.randint(1, RECORDS)
        self.expected = {time: [100 * at + n for n in range(most)] for at, time in enumerate(times)}
        self.logs = [Log(domain, number, workers) for number in range(workers)]
        self.cuts: list[Cut] = []
        self.returns = 0
        self._generation = FIRST
        self._begin(None)

    def _begin(self, cut: Cut | None) -> None:
        self._unsent = deepcopy(self.expected if cut is None else cut.unsent)
        least = [self._domain.minimum()]
        workers = range(len(self.logs))
        self._lowers = [list(least if cut is None else cut.lowers[number]) for number in workers]
        self._sent = [
            SentEvents(self._domain, None if cut is None else cut.saved[number], self._generation) for number in workers
        ]
        self._pipes = [deque(sent.messages()) for sent in self._sent]
        self._connected = [False for _ in workers]
        self._away = {number for number in workers if self._random.random() < AWAY}

    def step(self) -> None:
        random, number = self._random, self._random.randrange(len(self.logs))
        log, sent, pipe = self.logs[number], self._sent[number], self._pipes[number]
        choice = random.random()
        if choice < 0.25:
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
            self.logs[number].begin(self._sent[number])
            self._connected[number] = True
        elif self._pipes[number]:
            self.logs[number].feed(self._pipes[number].popleft())

    def _go_back(self) -> None:
        """Begin again, or go on from one of the last snapshots."""
        random = self._random
        if any(not log.place().lower or log.journal.has_ended for log in self.logs):
            return
        if random.random() < 0.3:
            self._cut()
        is_another = random.random() < 0.5
        for log in self.logs:
            if is_another:
                log.crash(random)
            log.durable = len(log.steps)
        self._generation = next_generation(self._domain, [log.place() for log in self.logs])
        stays = random.choice((len(self.cuts), len(self.cuts) - 1, 0))  # the newest is damaged at times, or all are
        del self.cuts[max(0, stays) :]
        self._begin(self.cuts[-1] if self.cuts else None)
        self.returns += 1

    def finish(self) -> None:
        while any(self._unsent.values()):
            self._send(self._random.randrange(len(self.logs)))
        self._away.clear()
        for number, log in enumerate(self.logs):
            self._move(number)
            while not self._connected[number] or self._pipes[number]:
                self._receive(number)
            log.durable = len(log.steps)
            assert log.journal.has_ended


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


def run(seed: int) -> int:
    """Run what a seed says; return how often the job went back."""
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
    return job.returns


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


@pytest.mark.parametrize("block", range(4))
def test_epochs_are_seen_once_and_whole(block: int) -> None:
    """Whatever dies, and wherever the job goes on."""
    returns = 0
    for seed in range(block * RUNS // 4, (block + 1) * RUNS // 4):
        try:
            returns += run(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert returns > RUNS // 4
