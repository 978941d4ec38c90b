"""A job on Ray goes back to its last snapshot when a worker dies, and every result is that of a run without a crash."""

import os
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidewheel as tw
from tests.ray.leftovers import nothing_left
from tidewheel.runtime.engines.ray_job import RayJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
EPOCHS = 120


def run(flow: tw.Dataflow, folder: Path, **settings: Any) -> RayJob:
    job = tw.run(flow, workers=2, snapshots=tw.Snapshots(folder, **{"every_s": 0.3, **settings}))
    assert isinstance(job, RayJob)
    return job


def by_time(captured: tw.CapturedBatches) -> dict[Any, Counter[Any]]:
    found: dict[Any, Counter[Any]] = {}
    for one in captured:
        found.setdefault(one.time, Counter()).update(one.batch)
    return found


def describe() -> tw.Dataflow:
    """Count by key across epochs, count each epoch, and send each number round a loop as often as it says."""
    flow = tw.Dataflow("recovered")
    numbers = flow.input("numbers")
    numbers.stateful_map(lambda n: n % 7, int, added, name="sums").capture("sums")
    numbers.count(name="counted").capture("counts")
    walked = numbers.exchange(lambda n: n).iterate(lambda left: (left.map(less).filter(is_left).exchange(abs), left))
    walked.count(name="visits").capture("visits").probe("done")
    return flow


def added(total: int, number: int) -> tuple[int, tuple[int, int]]:
    return total + number, (number % 7, total + number)


def is_left(number: int) -> bool:
    return number > 0


def less(number: int) -> int:
    return number - 1


def batch_of(epoch: int) -> list[int]:
    return [(epoch * step) % 23 for step in (3, 5, 11)]


def feed(job: tw.Job, killed: "Killer | None" = None) -> int:
    """Send all epochs, again where the job goes back; return how often it has."""
    rewound = 0
    while True:
        try:
            numbers = job.input("numbers")
            for epoch in range(numbers.position.batches, EPOCHS):
                if killed is not None:
                    killed.at(epoch)
                numbers.advance_to(epoch)
                numbers.send(batch_of(epoch))
                threading.Event().wait(0.005)  # so that there are snapshots in between
            numbers.close()
            job.wait(DEADLINE_S)
        except tw.Rewound:
            rewound += 1
        else:
            return rewound


class Killer:
    """Kills a worker by chance where an epoch is reached for the first time; waits until there are snapshots."""

    def __init__(self, job: RayJob, random: Random, kills: int) -> None:
        self._job = job
        self._random = random
        self._moments = sorted(random.sample(range(10, EPOCHS), kills))

    def at(self, epoch: int) -> None:
        if self._moments and epoch >= self._moments[0]:
            del self._moments[0]
            os.kill(self._random.choice(self._job.pids), signal.SIGKILL)


def undisturbed() -> dict[str, dict[Any, Counter[Any]]]:
    with tw.run(describe(), engine="local") as job:
        feed(job)
        return {name: by_time(job.captured(name)) for name in ("sums", "counts", "visits")}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 50))])
def test_results_are_those_without_a_crash(tmp_path: Path, seed: int) -> None:
    """Workers are killed at moments chosen by chance, in loops and between epochs; nothing is lost or comes twice."""
    with nothing_left(), run(describe(), tmp_path, restarts=4) as job:
        feed(job, Killer(job, Random(seed), kills=2))
        found = {name: by_time(job.captured(name)) for name in ("sums", "counts", "visits")}
    assert found == undisturbed()


def test_a_program_that_sends_nothing_need_not_know(tmp_path: Path) -> None:
    """A source goes on where the snapshot has it, and `wait` waits on."""
    flow = tw.Dataflow("sourced")
    source = tw.RecordSource(range(4000), batch_size=4, epoch_every=8)
    flow.source("numbers", source).map(slowly).count(lambda n: n % 5).capture("counts").probe("done")
    with nothing_left(), run(flow, tmp_path) as job:
        job.probe("done").wait_until(20, DEADLINE_S)
        os.kill(job.pids[0], signal.SIGKILL)
        job.wait(DEADLINE_S)
        counts = by_time(job.captured("counts"))
    assert sum(count for epoch in counts.values() for (_, count), times in epoch.items() for _ in range(times)) == 4000


def halved(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
    moved = walks.exchange(lambda walk: walk[1]).map(lambda walk: (walk[0], walk[1] // 2))
    return moved.filter(lambda walk: walk[1] > 0), moved


def answered(job: tw.Job, killed: "Killer | None" = None) -> dict[Any, Counter[Any]]:
    """Send walks of keys that end in each epoch, and of one that never does; return the steps of each."""
    while True:
        walks = job.input("walks")
        try:
            sent = walks.position
            for epoch in range(sent.ends, EPOCHS):
                if killed is not None:
                    killed.at(epoch)
                walks.advance_to(epoch)
                if epoch >= sent.batches:
                    walks.send([(key, 7 * epoch + part) for key in (0, 1, "open") for part in range(3)])
                walks.end_substream(0, 1)
                threading.Event().wait(0.005)  # so that there are snapshots in between
            walks.close()
            job.wait(DEADLINE_S)
        except tw.Rewound:
            continue
        return by_time(job.captured("steps"))


def test_substreams_end_as_without_a_crash(tmp_path: Path) -> None:
    """Keys are used again in each epoch, and walk round a loop between workers when one of these is killed."""
    flow = tw.Dataflow("walked")
    walks = flow.input("walks").substreams("walks", key=lambda walk: walk[0])
    steps = walks.iterate(halved).collect_substream(lambda key, found: (key, *sorted(n for _, n in found)))
    steps.probe("done").capture("steps")
    with nothing_left(), run(flow, tmp_path) as job:
        found = answered(job, Killer(job, Random(3), kills=2))
    with tw.run(flow, engine="local") as undisturbed:
        assert found == answered(undisturbed)


def slowly(number: int) -> int:
    threading.Event().wait(0.0005)
    return number


def test_a_job_fails_after_too_many_deaths(tmp_path: Path) -> None:
    """The error is that of the last death, and names the worker."""
    died = pytest.raises(tw.JobError, match=r"worker \d of job .* died")
    with nothing_left(), died, run(describe(), tmp_path, restarts=1) as job:
        feed(job, Killer(job, Random(1), kills=2))


def fails(number: int) -> int:
    raise ValueError(f"no {number}")


def test_an_operator_that_fails_is_no_reason_to_go_back(tmp_path: Path) -> None:
    """It would fail again: the job ends with the operator's error at once."""
    flow = tw.Dataflow("failing")
    flow.input("numbers").map(fails).capture("out")
    failed = pytest.raises(tw.JobError, match="operator 'map' failed")
    with nothing_left(), failed, run(flow, tmp_path) as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        job.wait(DEADLINE_S)


def test_each_thread_that_feeds_is_told(tmp_path: Path) -> None:
    """One that waits for what it has to send again, and one that would close the handle before that is sent."""
    with nothing_left(), run(describe(), tmp_path, every_s=1000) as job, ThreadPoolExecutor(1) as other:
        numbers = job.input("numbers")
        numbers.send(batch_of(0))
        job.snapshot()
        for epoch in (1, 2):
            other.submit(numbers.advance_to, epoch).result(DEADLINE_S)
            numbers.send(batch_of(epoch))
        os.kill(job.pids[1], signal.SIGKILL)
        with pytest.raises(tw.Rewound, match="an open handle of input 'numbers' again, at its position"):
            job.probe("done").wait_until(3, DEADLINE_S)
        assert numbers.position == tw.InputPosition(0, 1, 3, batches_at_time=1)
        with pytest.raises(tw.Rewound, match="is at time 0 again, after 1 batches"):
            other.submit(numbers.close).result(DEADLINE_S)
        assert feed(job) == 0
        assert by_time(job.captured("sums")) == undisturbed()["sums"]


def test_a_job_can_be_stopped_while_it_goes_back(tmp_path: Path) -> None:
    """Nothing is left behind, and the next job goes on from the snapshot."""
    with nothing_left():
        with run(describe(), tmp_path, every_s=1000) as job:
            job.input("numbers").send(batch_of(0))
            job.snapshot()
            begins = threading.Event()
            go_back = job._workers.come_up_again

            def observed(job: str, *, stay: bool = False) -> None:
                begins.set()
                go_back(job, stay=stay)

            job._workers.come_up_again = observed  # type: ignore[method-assign]
            os.kill(job.pids[1], signal.SIGKILL)
            assert begins.wait(DEADLINE_S)
            job.stop()
        with run(describe(), tmp_path) as job:
            assert job.input("numbers").position == tw.InputPosition(0, 1, 3, batches_at_time=1)
            feed(job)
            assert by_time(job.captured("counts")) == undisturbed()["counts"]


def test_a_job_goes_back_to_the_snapshot_before_a_damaged_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When a worker dies and when it is started again: a flipped byte in one part takes all workers further back."""
    with nothing_left():
        with run(describe(), tmp_path, every_s=1000) as job:
            numbers = job.input("numbers")
            for epoch in range(3):
                numbers.advance_to(epoch)
                numbers.send(batch_of(epoch))
                if epoch:
                    job.snapshot()
            name = flip(tmp_path, 2)
            os.kill(job.pids[0], signal.SIGKILL)
            assert feed(job) == 1
            assert f"snapshot 1 is used, because snapshot 2 is damaged: {name}: its checksum" in caplog.text
            assert by_time(job.captured("sums")) == undisturbed()["sums"]
            last = job.snapshot()
        name = flip(tmp_path, last)
        with run(describe(), tmp_path) as job:
            assert f"snapshot 1 is used, because snapshot {last} is damaged: {name}: its checksum" in caplog.text
            assert job.input("numbers").position.batches == 2
            feed(job)
            assert by_time(job.captured("counts")) == undisturbed()["counts"]


def flip(folder: Path, snapshot: int) -> str:
    """Flip a bit in the part of worker 1; return its name."""
    (part,) = (folder / "parts").glob(f"*-{snapshot:010}-worker-1-*")
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    return f"parts/{part.name}"
