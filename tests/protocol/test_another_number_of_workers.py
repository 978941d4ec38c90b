"""A topic with logs whose job goes on with any number of workers, each time another: its partitions stay.

Connections, shares of snapshots and the logs are the real ones. Records are dealt out anew each time. A failure says
the seed that repeats it.
"""

import pickle
from copy import deepcopy
from functools import reduce
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.kit.exactly_once.fed import PipedConnection, handles
from tests.kit.exactly_once.logs import Log
from tests.protocol.test_logs_that_go_back import DOMAINS, Reader, check
from tidewheel.operators.sinks.published import Published
from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.pubsub.exactly_once.journal import have_all, next_generation
from tidewheel.pubsub.messages.wire import FIRST
from tidewheel.pubsub.publishers.epochs_again import differing_epochs
from tidewheel.pubsub.publishers.feeding import moved

RUNS = 300
STEPS = 200
MOST_WORKERS = 5


class Cut(NamedTuple):
    """What a snapshot of the job has: of each worker its share in the topic."""

    unsent: dict[Time, list[int]]
    shares: list[bytes]


class RescaledJob:
    """Workers that publish as the operator does, and logs that are as many as the first of them were."""

    def __init__(self, domain: TimeDomain, random: Random) -> None:
        self._domain, self._random = domain, random
        times: list[Time] = [0, *range(1, 7)] if domain is DOMAINS[0] else [(a, b) for a in range(3) for b in range(3)]
        self.expected = {time: [100 * at + n for n in range(random.randint(1, 5))] for at, time in enumerate(times)}
        partitions = random.randint(1, 4)
        self.logs = [Log(domain, number, partitions) for number in range(partitions)]
        self.cuts: list[Cut] = []
        self.rescaled = self.compared = 0
        self.differing: list[Time] = []
        self._generation = FIRST
        self._begin(None, partitions)

    def _begin(self, cut: Cut | None, workers: int) -> None:
        self._unsent = deepcopy(self.expected if cut is None else cut.unsent)
        self._lanes = [PipedConnection(self._domain, log._number, self._generation) for log in self.logs]
        self._handles = handles(self._domain, workers, self._lanes)
        saved: list[Published] = [] if cut is None else [pickle.loads(share) for share in cut.shares]
        self._published = [self._share(saved, worker, workers) for worker in range(workers)]
        for published, handle in zip(self._published, self._handles, strict=True):
            published.connect(handle)
        self._learnt = [Antichain(self._domain, [self._domain.minimum()]) for _ in range(workers)]
        self._connected = [False for _ in self.logs]
        self._is_compared = not self._generation.number

    def _share(self, saved: list[Published], worker: int, workers: int) -> Published:
        """Do what `OperatorState` does."""
        if len(saved) == workers:
            return saved[worker]
        parts = [part for one in saved if (part := one.split(workers)[worker]) is not None]
        return reduce(Published.merge, parts) if parts else Published(self._domain)

    def step(self) -> None:
        random, number = self._random, self._random.randrange(len(self.logs))
        log, choice = self.logs[number], random.random()
        self._compare()
        if choice < 0.3:
            self._send(random.randrange(len(self._handles)))
        elif choice < 0.45:
            self._move(random.randrange(len(self._handles)))
        elif choice < 0.7:
            self._receive(number)
        elif choice < 0.8:
            log.durable = random.randint(log.durable, len(log.steps))
        elif choice < 0.9:
            if self._connected[number]:
                log.confirm(self._lanes[number].feed.sent)
        elif choice < 0.94:
            self._cut()
        elif choice < 0.97:
            log.crash(random)
            feed = self._lanes[number].feed
            feed.pipe.clear()
            feed.pipe.extend(feed.sent.messages())
            self._connected[number] = False
        else:
            self._go_back()

    def _cut(self) -> None:
        self.cuts.append(Cut(deepcopy(self._unsent), [pickle.dumps(one) for one in self._published]))

    def _send(self, worker: int) -> None:
        """Have a worker publish some records of any epoch that may still come."""
        open_times = [time for time, left in self._unsent.items() if left]
        if open_times:
            time = self._random.choice(open_times)
            left = self._unsent[time]
            self._random.shuffle(left)
            count = self._random.randint(1, len(left))
            batch, self._unsent[time] = left[:count], left[count:]
            handle = self._handles[self._handles[worker].partition]  # the pact of the edge
            handle.data(time, batch)
            handle.flush()

    def _move(self, worker: int) -> None:
        """Have a worker learn the frontier of all, or an earlier one, as it begins with the least time."""
        published, handle = self._published[worker], self._handles[worker]
        true = [time for time, left in self._unsent.items() if left]
        late = self._random.sample(list(self.expected), self._random.randint(0, 1)) if true else []
        now = Antichain(self._domain, [*true, *late])
        if not self._learnt[worker].dominates(now):
            return
        self._learnt[worker] = now
        if published.is_behind and not published.announced.dominates(now):
            return
        published.is_behind = False
        if changes := moved(published.announced, now):
            handle.frontier(changes)
        published.announced = now
        handle.flush()

    def _receive(self, number: int) -> None:
        log, feed = self.logs[number], self._lanes[number].feed
        if not self._connected[number]:
            log.begin(feed.sent)
            self._connected[number] = True
        elif feed.pipe:
            log.feed(feed.pipe.popleft())

    def _compare(self) -> None:
        """Compare what came again, over all partitions, once it has."""
        if self._is_compared or not all(
            log.journal.epochs().generation == self._generation.number if log.again is None else log.again.have_come
            for log in self.logs
        ):
            return
        self._is_compared = True
        came = [{} if log.again is None else log.again.came() for log in self.logs]
        times = {time for sums in came for time in sums}
        logged: list[Any] = [
            dict.fromkeys(times) if log.again is None else log.again.logged(log, times)  # type: ignore[arg-type]
            for log in self.logs
        ]
        self.compared += sum(not any(sums.get(time, 0) is None for sums in logged) for time in times)
        self.differing += differing_epochs(self._domain, came, logged)

    def _go_back(self) -> None:
        """Go on from one of the last snapshots, or begin again, with any number of workers."""
        random = self._random
        if random.random() < 0.3:
            self._cut()
        for log in self.logs:
            if random.random() < 0.5:
                log.crash(random)
            log.durable = len(log.steps)
        self._conclude()
        self._generation = next_generation(self._domain, [log.place() for log in self.logs])
        stays = random.choice((len(self.cuts), len(self.cuts) - 1, 0))
        del self.cuts[max(0, stays) :]
        before, workers = len(self._handles), random.randint(1, MOST_WORKERS)
        self.rescaled += bool(self.cuts) and workers != before
        self._begin(self.cuts[-1] if self.cuts else None, workers)

    def _conclude(self) -> None:
        if have_all([log.place() for log in self.logs]):
            for log in self.logs:
                log.conclude()

    def finish(self) -> None:
        while any(self._unsent.values()):
            self._send(self._random.randrange(len(self._handles)))
        for worker in range(len(self._handles)):
            self._move(worker)
        for number, log in enumerate(self.logs):
            while not self._connected[number] or self._lanes[number].feed.pipe:
                self._receive(number)
            log.durable = len(log.steps)
        self._compare()
        self._conclude()
        assert all(log.journal.has_ended for log in self.logs), "a partition has not come to its end"


def run(seed: int) -> RescaledJob:
    """Run what a seed says."""
    random = Random(seed)
    job = RescaledJob(DOMAINS[seed % 2], random)
    readers: list[Any] = [Reader(job, random, by_epoch=by_epoch) for by_epoch in (True, False)]  # type: ignore[arg-type]
    for _ in range(STEPS):
        job.step()
        if random.random() < 0.2:
            random.choice(readers).read()
        if random.random() < 0.03:
            readers[0].crash()
    job.finish()
    for reader in readers:
        reader.read(whole=True)
        reader.read(whole=True)
        check(job, reader)  # type: ignore[arg-type]
    assert not job.differing, "what came again is the same, whatever its partitions"
    return job


@pytest.mark.parametrize("block", range(3))
def test_epochs_are_seen_once_and_whole(block: int) -> None:
    """Whatever dies, and with however many workers the job goes on."""
    jobs: list[RescaledJob] = []
    for seed in range(block * RUNS // 3, (block + 1) * RUNS // 3):
        try:
            jobs.append(run(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert sum(job.rescaled for job in jobs) > RUNS // 3
    assert any(job.compared for job in jobs)
