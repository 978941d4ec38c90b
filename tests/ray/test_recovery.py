"""A job on Ray goes back to its last snapshot when a worker dies, and every result is that of a run without a crash."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import ray

import tidewheel as tw
from tests.ray.leftovers import nothing_left
from tests.ray.recovered_flow import EPOCHS, batch_of, by_time, describe, do_nothing, feed, results
from tests.ray.worker_killer import WorkerKiller
from tidewheel.runtime.engines.ray_job import RayJob
from tidewheel.runtime.engines.ray_workers import RayWorkers

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


def run(flow: tw.Dataflow, folder: Path, workers: int = 2, **settings: Any) -> RayJob:
    job = tw.run(flow, workers=workers, snapshots=tw.Snapshots(folder, **{"every_s": 0.3, **settings}))
    assert isinstance(job, RayJob)
    return job


class Killer(WorkerKiller):
    """Kills workers where epochs that are chosen by chance are reached for the first time, once there are snapshots.

    Args:
        random: chooses epochs and workers.
        kills: how many.
    """

    def __init__(self, random: Random, kills: int) -> None:
        super().__init__(random)
        self._moments = sorted(random.sample(range(10, EPOCHS), kills))

    def at(self, epoch: int) -> None:
        """Kill a worker if it is time to."""
        if self._moments and epoch >= self._moments[0]:
            del self._moments[0]
            self.strike()


@cache
def undisturbed() -> dict[str, dict[Any, Counter[Any]]]:
    with tw.run(describe(), engine="local") as job:
        feed(job)
        return results(job)


def test_all_workers_may_die_at_once(tmp_path: Path) -> None:
    """All of them are replaced. The killer finds one that lives each time."""
    killer = WorkerKiller(Random(0))
    with nothing_left(), run(describe(), tmp_path) as job:

        def kill_all(epoch: int) -> None:
            if epoch >= EPOCHS // 2 and not killer.killed:
                for _ in job.pids:
                    killer.strike()

        feed(job, kill_all)
        found = results(job)
    assert found == undisturbed()


def test_a_job_that_goes_back_before_its_first_snapshot_keeps_its_own_output(tmp_path: Path) -> None:
    """It begins anew: what it has written to files and logs is not that of another run, and all is there once."""
    flow = tw.Dataflow("goes back early")
    numbers = flow.input("numbers")
    numbers.capture_to(tmp_path / "log").write_files(tmp_path / "files", "jsonl", visible="epoch").probe("written")
    killer = WorkerKiller(Random(0))
    with nothing_left(), run(flow, tmp_path / "snapshots", every_s=1000.0) as job:
        handle, returns = job.input("numbers"), 0
        while True:
            try:
                for time in range(handle.position.batches, 6):
                    handle.advance_to(time)
                    handle.send([time])
                    if time == 3 and not killer.killed:
                        job.probe("written").wait_until(3, timeout_s=DEADLINE_S)
                        killer.strike()
                handle.close()
                job.wait(DEADLINE_S)
                break
            except tw.JobRolledBack:
                assert handle.position.batches == 0
                returns += 1
    assert returns
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == [f"epoch={time}" for time in range(6)]
    again = tw.Dataflow("again")
    again.source("log", tw.ReplaySource(tmp_path / "log")).capture("numbers")
    with tw.run(again, engine="local") as job_again:
        job_again.wait()
        assert sorted((one.time, one.batch) for one in job_again.captured("numbers")) == [(n, [n]) for n in range(6)]


@pytest.mark.parametrize(
    "step", ["deploy", *(pytest.param(step, marks=pytest.mark.long) for step in ("process", "read", "listen", "start"))]
)
def test_a_worker_may_die_at_each_step_of_the_way_back(tmp_path: Path, step: str) -> None:
    """The job begins to go back once more, and its inputs are those that the program has handles of."""
    killer = WorkerKiller(Random(0))
    with nothing_left(), run(describe(), tmp_path) as job:
        call = job._workers.call

        def call_without_one(job: str, method: str, *arguments: Any, **settings: Any) -> list[Any]:
            if method == step and len(killer.killed) == 1:
                killer.strike()
            return call(job, method, *arguments, **settings)

        def kill(epoch: int) -> None:
            if epoch >= EPOCHS // 2 and not killer.killed:
                killer.strike()

        job._workers.call = call_without_one  # type: ignore[method-assign]
        feed(job, kill)
        found = results(job)
    assert len(killer.killed) == 2
    assert found == undisturbed()


@pytest.mark.long
@pytest.mark.parametrize(
    "step", ["deploy", *(pytest.param(step, marks=pytest.mark.long) for step in ("process", "read", "listen", "start"))]
)
def test_a_worker_may_die_while_the_job_comes_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Another one takes its place. Also where that job goes on from a snapshot."""
    call = RayWorkers.call
    killed: list[int] = []

    def call_without_one(workers: RayWorkers, job: str, method: str, *arguments: Any, **settings: Any) -> list[Any]:
        if method == step and len(killed) == kills:
            killed.append(1)
            if workers.pids:
                os.kill(workers.pids[1], signal.SIGKILL)
            else:
                ray.kill(workers.actors[1])
        return call(workers, job, method, *arguments, **settings)

    kills = 0
    with nothing_left():
        monkeypatch.setattr(RayWorkers, "call", call_without_one)
        with run(describe(), tmp_path) as job:
            job.input("numbers").send(batch_of(0))
            job.stop(snapshot=True)
        kills = 1
        with run(describe(), tmp_path) as job:
            feed(job)
            found = results(job)
    assert len(killed) == 2
    assert found["counts"] == undisturbed()["counts"]


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


def answered(job: tw.types.Job, at: Callable[[int], None] = do_nothing) -> dict[Any, Counter[Any]]:
    """Send walks of keys that end in each epoch, and of one that never does; return the steps of each."""
    while True:
        walks = job.input("walks")
        try:
            sent = walks.position
            for epoch in range(sent.ends, EPOCHS):
                at(epoch)
                walks.advance_to(epoch)
                if epoch >= sent.batches:
                    walks.send([(key, 7 * epoch + part) for key in (0, 1, "open") for part in range(3)])
                walks.end_substream(0, 1)
                threading.Event().wait(0.005)  # so that there are snapshots in between
            at(EPOCHS)
            walks.close()
            job.wait(DEADLINE_S)
        except tw.JobRolledBack:
            continue
        return by_time(job.captured("steps"))


@pytest.mark.long
def test_substreams_end_as_without_a_crash(tmp_path: Path) -> None:
    """Keys are used again in each epoch, and walk round a loop between workers when one of these is killed."""
    flow = tw.Dataflow("walked")
    walks = flow.input("walks").substreams("walks", key=lambda walk: walk[0])
    steps = walks.iterate(halved).collect_substream(lambda key, found: (key, *sorted(n for _, n in found)))
    steps.probe("done").capture("steps")
    with nothing_left(), run(flow, tmp_path) as job:
        found = answered(job, Killer(Random(3), kills=2).at)
    with tw.run(flow, engine="local") as undisturbed:
        assert found == answered(undisturbed)


def slowly(number: int) -> int:
    threading.Event().wait(0.0005)
    return number


def test_a_job_fails_after_too_many_deaths(tmp_path: Path) -> None:
    """The error is that of the last death, and names the worker."""
    died = pytest.raises(tw.JobError, match=r"worker \d of job .* died")
    with nothing_left(), died, run(describe(), tmp_path, workers=1, restarts=1) as job:
        feed(job, Killer(Random(1), kills=2).at)


def fails(number: int) -> int:
    raise ValueError(f"no {number}")


def test_an_operator_that_fails_is_no_reason_to_go_back(tmp_path: Path) -> None:
    """It would fail again: the job ends with the operator's error at once."""
    flow = tw.Dataflow("failing")
    flow.input("numbers").map(fails).capture("out")
    failed = pytest.raises(tw.JobError, match="operator 'map' failed")
    with nothing_left(), failed, run(flow, tmp_path, workers=1) as job:
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
        with pytest.raises(tw.JobRolledBack, match="an open handle of input 'numbers' again, at its position"):
            job.probe("done").wait_until(3, DEADLINE_S)
        assert numbers.position == tw.types.InputPosition(0, 1, 3, batches_at_time=1)
        with pytest.raises(tw.JobRolledBack, match="is at time 0 again, after 1 batches"):
            other.submit(numbers.close).result(DEADLINE_S)
        assert feed(job) == 0
        assert by_time(job.captured("sums")) == undisturbed()["sums"]


@pytest.mark.long
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
            assert job.input("numbers").position == tw.types.InputPosition(0, 1, 3, batches_at_time=1)
            feed(job)
            assert by_time(job.captured("counts")) == undisturbed()["counts"]


@pytest.mark.long
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
            assert feed(job)
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
