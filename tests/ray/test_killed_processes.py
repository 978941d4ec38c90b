"""Any process of a job on Ray may die at any moment: every result is that of a run without a crash."""

import pickle
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
import ray

import tidewheel as tw
from tests.ray.driver_process import DriverProcess
from tests.ray.killed_program import INPUTS, TOPICS, Feeder
from tests.ray.leftovers import hosts, nothing_left
from tests.ray.recovered_flow import EPOCHS, describe, results, send_all
from tests.ray.worker_killer import WorkerKiller
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

SEEDS = 50
DEADLINE_S = 300.0
LOOKS_EVERY_S = 20.0
KINDS = ("worker", "publisher", "driver", "feeder")
PAIRS = [*product(KINDS, KINDS)]
LAST_KILL = EPOCHS - 20
"""Epochs that are complete before all inputs have sent everything, as these are at most ten epochs ahead."""


@dataclass(frozen=True, slots=True)
class Kill:
    """The kind of process that dies, the complete epoch at which it does, and how many seconds later."""

    kind: str
    epoch: int
    after_s: float = 0.0


def kills(seed: int) -> list[Kill]:
    """Choose two kills by chance; of sixteen seeds in a row, each has another pair of kinds.

    In every third run the second kill comes up to a second after the first: most often while the job goes back.
    """
    first, second = Random(f"turn {seed // len(PAIRS)}").sample(PAIRS, len(PAIRS))[seed % len(PAIRS)]
    random = Random(seed)
    epoch, later = sorted(random.sample(range(10, LAST_KILL), 2))
    at_once = seed % 3 == 1
    return [Kill(first, epoch), Kill(second, 0 if at_once else later, random.random() if at_once else 0.0)]


def test_each_kind_of_process_dies_often() -> None:
    """Also soon after another one."""
    chosen = [kills(seed) for seed in range(SEEDS)]
    assert min(Counter(kill.kind for both in chosen for kill in both).values()) >= 20
    assert min(Counter((first.kind, second.kind) for first, second in chosen).values()) >= SEEDS // len(PAIRS)
    at_once = [(first.kind, second.kind) for first, second in chosen if second.after_s]
    assert {first for first, _ in at_once} == {second for _, second in at_once} == set(KINDS)


class Reader:
    """Reads a topic by a durable subscription to its end, also where the job is started again meanwhile.

    Attributes:
        found: the records by epoch.
        last: the last epoch, -1 before the first.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.found: dict[Any, Counter[Any]] = {}
        self.last = -1

    def read(self, program: "Program") -> None:
        """Read until the topic ends, or the program has failed."""
        while True:
            try:
                self._read_on()
            except (tw.errors.PublisherLost, tw.errors.UnknownTopic, TimeoutError):
                if program.has_failed:
                    raise
            else:
                return

    def _read_on(self) -> None:
        """Read on until the topic ends; an epoch comes again only if it was acknowledged to a publisher that died."""
        is_new = False
        with tw.subscribe(
            self._topic, timeout_s=DEADLINE_S, durable=tw.Durable("reader", ack="manual"), start="earliest"
        ) as subscription:
            for epoch in subscription.epochs(DEADLINE_S):
                records = Counter(epoch.records)
                if epoch.time <= self.last:
                    assert not is_new, f"epoch {epoch.time} after epoch {self.last}"
                    assert records == self.found.get(epoch.time), f"epoch {epoch.time} has other records"
                else:
                    is_new, self.last = True, epoch.time
                    self.found[epoch.time] = records
                subscription.acknowledge(epoch)


class Program:
    """The driver, started again by the same command each time that it is killed.

    It is started again as well if a process of its job is killed before `tidewheel.run` returns, which raises then.

    Attributes:
        lives: how often it was started.
        rewound: how often it was told that its job has gone back.
        has_failed: whether it has ended in another way.
    """

    def __init__(self, *command: str) -> None:
        self._command = command
        self._driver: DriverProcess | None = None
        self.lives = self.rewound = 0
        self.has_failed = False

    def run(self) -> None:
        code: int | None = None
        while code != 0:
            with DriverProcess(*self._command) as driver:
                self._driver = driver
                self.lives += 1
                out, errors = driver.ended(DEADLINE_S)
            code = driver.code
            self.rewound += out.splitlines().count("rewound")
            self.has_failed = code not in (0, -signal.SIGKILL)
            assert not self.has_failed, errors

    def kill(self) -> None:
        """Kill the driver; wait for one where it is just being started."""

        def kill_one() -> bool:
            if self._driver is None or self._driver.code is not None:
                return False
            self._driver.kill(signal.SIGKILL)
            return True

        assert eventually(kill_one, DEADLINE_S)


@contextmanager
def feeder(name: str) -> Iterator[None]:
    """Run a feeder that Ray starts again when it dies, and to which Ray sends calls again."""
    actor: Any = ray.remote(Feeder)
    made = actor.options(name=name, num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=8).remote()
    ray.get(made.__ray_ready__.remote(), timeout=DEADLINE_S)
    try:
        yield
    finally:
        ray.kill(made)


@cache
def undisturbed() -> dict[str, dict[Any, Counter[Any]]]:
    with tw.run(describe(*INPUTS), engine="local") as job:
        for name in INPUTS:
            send_all(job.input(name))
        job.wait()
        return results(job)


def published(topic: str) -> dict[Any, Counter[Any]]:
    """Return what a topic has without a crash, by epoch."""
    found: dict[Any, Counter[Any]] = {}
    for name in TOPICS[topic]:
        for time, records in undisturbed()[name].items():
            found.setdefault(time, Counter()).update({(name, record): n for record, n in records.items()})
    return found


def strike_all(seed: int, program: Program, slowest: Reader, running: list["Future[None]"]) -> None:
    """Kill what is to be killed, each when it is time to."""
    killer = WorkerKiller(Random(seed))
    for kill in kills(seed):
        assert eventually(lambda: slowest.last >= kill.epoch or any(one.done() for one in running), DEADLINE_S)  # noqa: B023
        for one in running:
            assert not one.done(), one.result()
        eventually(lambda: False, kill.after_s)
        if kill.kind == "driver":
            program.kill()
            killer.killed += [process for kind in KINDS[:2] for process in hosts(kind)]  # they die with it
        else:
            killer.strike(kill.kind)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
def test_results_are_those_without_a_crash(tmp_path: Path, ray_cluster: str, seed: int) -> None:
    """Two processes are killed: workers, publishers, the driver, or the process that feeds beside it.

    Nothing is lost or comes twice: in loops, in state across epochs, in sessions, and in ranks of pages.
    """
    name = f"feeder {seed}"
    readers = {topic: Reader(f"{topic} by {name}") for topic in TOPICS}
    program = Program(ray_cluster, "tests.ray.killed_program", str(tmp_path), name)
    with feeder(name), nothing_left(sockets=1), ThreadPoolExecutor() as threads:
        running = [threads.submit(program.run), *(threads.submit(one.read, program) for one in readers.values())]
        try:
            strike_all(seed, program, readers["ranked"], running)
        finally:
            (tmp_path / "enough").touch()
        for one in running:
            one.result(DEADLINE_S)
        say = f"seed {seed}: {kills(seed)}"
        assert program.rewound or program.lives > 1 or kills(seed)[0].kind == "publisher", say
        for topic, reader in readers.items():
            assert reader.found == published(topic), say
        assert pickle.loads((tmp_path / "captured").read_bytes()) == undisturbed(), say
