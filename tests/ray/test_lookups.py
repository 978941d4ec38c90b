"""Look-ups in a job on Ray: as of whole epochs while it runs, at once where it is idle, and again after a crash."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any, Literal

import pytest

import tidewheel as tw
from tests.ray.leftovers import nothing_left
from tidewheel.runtime.engines.ray_job import RayJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
SEED = 11
PAIRS = range(12)


def describe() -> tw.Dataflow:
    flow = tw.Dataflow("prices")
    flow.input("prices").as_collection(upserts=True).lookup("prices").changes().probe("done")
    return flow


def send(job: tw.types.Job, price: int) -> None:
    """Give all keys the same price in the next epoch."""
    handle = job.input("prices")
    handle.send([((side, pair), price) for pair in PAIRS for side in ("left", "right")])
    handle.advance_to(handle.time + 1)


class Reader:
    """Looks pairs of keys up again and again, on a thread of its own.

    Attributes:
        read: what it has found, or what was raised.
        wrong: where one key of a pair had changed, and the other had not.
    """

    def __init__(self, job: tw.types.Job, seed: int) -> None:
        self.read: list[Any] = []
        self.wrong: list[tw.types.LookedUp] = []
        self._job = job
        self._random = Random(seed)
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self.is_over.is_set():
                pair = self._random.choice(PAIRS)
                found = self._job.lookup("prices", [("left", pair), ("right", pair)], timeout_s=DEADLINE_S)
                self.read.append(found.time)
                if found["left", pair] != found["right", pair] or found.values != [found.time] * 2:
                    self.wrong.append(found)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.read.append(error)


@contextmanager
def readers(job: tw.types.Job, count: int = 2) -> Iterator[list[Reader]]:
    """Have some read within the block."""
    made = [Reader(job, SEED + number) for number in range(count)]
    for one in made:
        one.thread.start()
    try:
        yield made
    finally:
        for one in made:
            one.is_over.set()
        for one in made:
            one.thread.join(DEADLINE_S)


@pytest.mark.parametrize("link", ["socket", pytest.param("ray", marks=pytest.mark.long)])
def test_readers_see_all_of_an_epoch_or_nothing(link: Literal["socket", "ray"]) -> None:
    """Keys of one epoch are on several workers; epochs never go back for a reader."""
    with nothing_left(), tw.run(describe(), workers=2, config=tw.RuntimeConfig(link=link)) as job:
        send(job, 0)
        with readers(job) as reading:
            for epoch in range(1, 60):
                send(job, epoch)
                if epoch % 10 == 0:
                    job.probe("done").wait_until(epoch - 5, DEADLINE_S)
            assert job.lookup("prices", ("left", 1), time=59, timeout_s=DEADLINE_S).values == [59]
        for one in reading:
            assert one.wrong == [], f"seed {SEED}"
            assert one.read == sorted(one.read)
            assert one.read
        job.input("prices").close()
        job.wait(DEADLINE_S)
        assert job.lookup("prices", ("left", 1)) == tw.types.LookedUp(None, {("left", 1): {59: 1}})


def test_an_idle_job_answers_at_once() -> None:
    """Nothing else wakes its workers. Half of the answers take less than 100 ms, whatever else the machine does."""
    with tw.run(describe(), workers=2) as job:
        send(job, 0)
        job.probe("done").wait_until(1, DEADLINE_S)
        seconds = []
        for pair in PAIRS:
            begun = perf_counter()
            assert job.lookup("prices", [("left", pair), ("right", pair)]).values == [0, 0]
            seconds.append(perf_counter() - begun)
        assert sorted(seconds)[len(seconds) // 2] < 0.1
        with pytest.raises(TimeoutError, match=r"answer to look-up 'prices' as of epoch 7; .*job.explain\('prices'\)"):
            job.lookup("prices", ("left", 1), time=7, timeout_s=0.2)
        job.stop()


@pytest.mark.long
def test_values_that_cannot_be_sent_fail_the_look_up_only() -> None:
    flow = tw.Dataflow("values")
    flow.input("keys").as_collection().map(lambda key: (key, threading.Lock())).lookup("values")
    with tw.run(flow) as job:
        job.input("keys").send([1])
        job.input("keys").advance_to(1)
        with pytest.raises(tw.JobError, match=r"0 cannot answer: its values cannot be pickled: .*lock"):
            job.lookup("values", 1)
        assert job.lookup("values", 2).values == []
        job.stop()


@pytest.mark.long
def test_after_a_crash_the_restored_state_answers(tmp_path: Path) -> None:
    """A reader waits while the job goes back. Then it sees epochs of the snapshot, and those that are sent again."""
    snapshots = tw.Snapshots(tmp_path, every_s=1000.0)
    with nothing_left(), tw.run(describe(), workers=2, snapshots=snapshots) as job:
        assert isinstance(job, RayJob)
        for epoch in range(5):
            send(job, epoch)
        job.probe("done").wait_until(5, DEADLINE_S)
        job.snapshot(DEADLINE_S)
        for epoch in range(5, 10):
            send(job, epoch)
        assert job.lookup("prices", ("left", 1), time=9, timeout_s=DEADLINE_S).values == [9]
        with readers(job) as reading:
            os.kill(job.pids[0], signal.SIGKILL)
            with pytest.raises(tw.JobRolledBack):
                job.probe("done").wait_until(20, DEADLINE_S)
            assert job.lookup("prices", ("left", 1), timeout_s=DEADLINE_S) == tw.types.LookedUp(
                4, {("left", 1): {4: 1}}
            )
            for epoch in range(job.input("prices").time, 12):
                send(job, epoch)
            assert job.lookup("prices", ("left", 1), time=11, timeout_s=DEADLINE_S).values == [11]
        job.stop()
        for one in reading:
            assert one.wrong == [], f"seed {SEED}"
            assert {4, 9} & set(one.read), one.read
            assert not [error for error in one.read if isinstance(error, Exception)]


@pytest.mark.long
def test_a_job_that_fails_ends_the_wait() -> None:
    """The one who waits for an epoch is told what has failed."""
    flow = tw.Dataflow("numbers")
    flow.input("numbers").as_collection().map(lambda n: (n, 1 // n)).lookup("inverse")
    job = tw.run(flow)
    failing = threading.Timer(0.2, lambda: job.input("numbers").send([0]))
    failing.start()
    with pytest.raises(tw.JobError, match="ZeroDivisionError"):
        job.lookup("inverse", 1, time=3, timeout_s=DEADLINE_S)
    failing.join()
