"""Other processes that feed a job take part in its snapshots: nothing they send is lost or comes twice."""

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import ray

import tidewheel as tw
from tests.ray.leftovers import nothing_left
from tests.ray.recovered_flow import DEADLINE_S, by_time
from tidewheel.runtime.engines.ray_job import RayJob
from tidewheel.transport.link import LinkName

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

EPOCHS = 100
SHARDS = ("left", "right")
LINKS = pytest.mark.parametrize("link", ["socket", pytest.param("ray", marks=pytest.mark.long)])


@ray.remote(num_cpus=0)
class Feeder:
    """Sends the epochs of one input from where its handle is, from an actor."""

    def __init__(self) -> None:
        self.is_held = False

    def process(self) -> int:
        """Return the number of its process."""
        return os.getpid()

    def feed(self, handles: list[tw.types.InputHandle], until: int) -> None:
        """Send what comes after the position, up to an epoch; close the handle after the last one, else keep it."""
        [self.handle] = handles
        self.go_on(until)

    def go_on(self, until: int) -> None:
        """Send more by the handle that was kept."""
        handle = self.handle
        for epoch in range(handle.position.batches, until):
            handle.advance_to(epoch)
            handle.send(batch_of(handle.name, epoch))
        if until == EPOCHS:
            handle.close()

    def feed_and_stay(self, handles: list[tw.types.InputHandle], until: int) -> None:
        """Send up to an epoch, and use the handle until the job has gone back."""
        self.feed(handles, until)
        self.use_until_rewound()

    def use_until_rewound(self) -> None:
        """Use the handle that was kept until the job has gone back."""
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            self.handle.clone().close()
            threading.Event().wait(0.01)


def batch_of(name: str, epoch: int) -> list[int]:
    return [(epoch * step + len(name)) % 23 for step in (3, 5, 11)]


def describe() -> tw.Dataflow:
    """Count by key across epochs, and send each number round a loop as often as it says."""
    flow = tw.Dataflow("fed")
    left, right = map(flow.input, SHARDS)
    both = left.concat(right)
    both.stateful_map(lambda n: n % 7, start=int, step=added, name="sums").map(lambda one: one[0]).capture("sums")
    walked = both.exchange(lambda n: n).iterate(lambda left: (left.map(less).filter(is_left).exchange(abs), left))
    walked.count(name="visits").capture("visits").probe("done")
    return flow


def added(total: int, number: int) -> tuple[int, tuple[int, int]]:
    return total + number, (number % 7, total + number)


def is_left(number: int) -> bool:
    return number > 0


def less(number: int) -> int:
    return number - 1


def run(folder: Path, link: LinkName = "socket", **settings: Any) -> RayJob:
    job = tw.run(
        describe(),
        workers=2,
        config=tw.RuntimeConfig(link=link),
        snapshots=tw.Snapshots(folder, **{"every_s": 0.3, **settings}),
    )
    assert isinstance(job, RayJob)
    return job


def results(job: tw.types.Job) -> list[dict[Any, Counter[Any]]]:
    return [by_time(job.captured(name)) for name in ("sums", "visits")]


def undisturbed() -> list[dict[Any, Counter[Any]]]:
    with tw.run(describe(), engine="local") as job:
        for epoch in range(EPOCHS):
            for name in SHARDS:
                job.input(name).advance_to(epoch)
                job.input(name).send(batch_of(name, epoch))
        for name in SHARDS:
            job.input(name).close()
        job.wait()
        return results(job)


def feed(job: tw.types.Job, feeders: dict[str, Any], until: int = EPOCHS) -> None:
    """Have each feeder go on from the position of its input, up to an epoch."""
    calls = [feeders[name].feed.remote([job.input(name)], until) for name in feeders]
    ray.get(calls, timeout=DEADLINE_S)


def feed_to_the_end(job: tw.types.Job, feeders: dict[str, Any]) -> int:
    """Feed again where the job goes back; return how often it has."""
    rewound = 0
    while True:
        try:
            if not all(job.input(name).is_closed for name in feeders):
                feed(job, feeders)
            job.wait(DEADLINE_S)
        except tw.JobRolledBack:
            rewound += 1
        else:
            return rewound


def made(count: int = 2) -> list[Any]:
    feeder: Any = Feeder
    feeders = [feeder.remote() for _ in range(count)]
    ray.get([one.process.remote() for one in feeders])  # Ray keeps a socket to each from here on
    return feeders


@pytest.mark.long
@LINKS
def test_a_later_job_has_the_handles_of_feeders(tmp_path: Path, link: LinkName) -> None:
    """The snapshot says exactly how far each feeder has sent; the next job's program hands the handles over again."""
    feeders = dict(zip(SHARDS, made(), strict=True))
    with nothing_left():
        with run(tmp_path, link, every_s=0.05) as job:
            feed(job, feeders, 30)
            calls = [feeder.go_on.remote(60) for feeder in feeders.values()]
            for _ in range(3):
                job.snapshot()
            ray.get(calls)
            job.snapshot()
            calls = [feeder.go_on.remote(65) for feeder in feeders.values()]
            ray.get(calls)
            job.stop()
        with run(tmp_path, link) as job:
            for name in SHARDS:
                assert 60 <= job.input(name).position.batches <= 65
                assert job.input(name).position.is_first
            feed_to_the_end(job, feeders)
            assert results(job) == undisturbed()
            job.snapshot()
        with run(tmp_path, link) as job:
            assert [job.input(name).position.batches for name in SHARDS] == [EPOCHS, EPOCHS]
            assert not any(job.handles(name) for name in SHARDS)
    for feeder in feeders.values():
        ray.kill(feeder)


@LINKS
def test_a_worker_dies_while_others_feed(tmp_path: Path, link: LinkName) -> None:
    """Their handles say that the job has gone back, and are with the driver again."""
    feeders = dict(zip(SHARDS, made(), strict=True))
    with nothing_left(), run(tmp_path, link) as job:
        feed(job, feeders, 40)
        job.snapshot()
        calls = [feeder.go_on.remote(60) for feeder in feeders.values()]
        ray.get(calls)
        os.kill(job.pids[0], signal.SIGKILL)
        for feeder in feeders.values():
            with pytest.raises(tw.JobRolledBack, match=r"driver has the handles of this process again"):
                ray.get(feeder.use_until_rewound.remote(), timeout=DEADLINE_S)
        assert feed_to_the_end(job, feeders) == 0
        assert results(job) == undisturbed()
    for feeder in feeders.values():
        ray.kill(feeder)


@LINKS
def test_a_feeder_dies(tmp_path: Path, link: LinkName) -> None:
    """The job goes back, as a part of what it has sent may be missing, and another process goes on with its handle."""
    left, right, other = made(3)
    with nothing_left(), run(tmp_path, link) as job:
        feed(job, {"left": left, "right": right}, 40)
        job.snapshot()
        ray.get([left.go_on.remote(60), right.go_on.remote(60)])
        os.kill(ray.get(right.process.remote()), signal.SIGKILL)
        with pytest.raises(tw.JobRolledBack, match=r"the driver has an open handle of input .*'right' again"):
            job.wait(DEADLINE_S)
        assert [len(job.handles(name)) for name in SHARDS] == [1, 1]
        assert 40 <= job.input("right").position.batches <= 60
        feed_to_the_end(job, {"left": left, "right": other})
        assert results(job) == undisturbed()
    for feeder in (left, other):
        ray.kill(feeder)


@pytest.mark.long
@LINKS
def test_ray_starts_a_feeder_again(tmp_path: Path, link: LinkName) -> None:
    """Ray repeats its call, with the handle that is of no use: the repeated call says that the job has gone back."""
    actor: Any = Feeder
    right = actor.options(max_restarts=-1, max_task_retries=-1).remote()
    [left] = made(1)
    with nothing_left(sockets=2), run(tmp_path, link) as job:  # to both actors
        pid = ray.get(right.process.remote())
        feed(job, {"left": left}, 40)
        call = right.feed_and_stay.remote([job.input("right")], 40)
        job.probe("done").wait_until(30, DEADLINE_S)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(tw.JobRolledBack, match=r"driver has the handles of this process again"):
            ray.get(call, timeout=DEADLINE_S)
        feed_to_the_end(job, {"left": left, "right": right})
        assert results(job) == undisturbed()
    for feeder in (left, right):
        ray.kill(feeder)
