"""Snapshots of jobs on Ray: a program that is killed goes on where it was, and nothing is left behind."""

import signal
import threading
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import tidewheel as tw
from tests.ray.driver_process import DriverProcess
from tests.ray.leftovers import nothing_left
from tests.ray.snapshot_program import EPOCHS, counting, words_of
from tests.waiting import eventually
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.engines import ray_job
from tidewheel.runtime.engines.ray_workers import RayWorkers
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

SELDOM_S = 1000.0
DEADLINE_S = 60.0
PROGRAM = "tests.ray.snapshot_program"


def expected() -> list[tuple[int, str, int]]:
    """Return what an undisturbed run counts."""
    counts: Counter[str] = Counter()
    found = []
    for time in range(EPOCHS):
        for word in words_of(time):
            counts[word.text] += 1
            found.append((time, word.text, counts[word.text]))
    return sorted(found)


def test_a_program_that_was_killed_goes_on(ray_cluster: str, tmp_path: Path) -> None:
    """Its driver dies by kill -9 behind a snapshot, twice; the third run has what an undisturbed run counts."""
    arguments = (PROGRAM, str(tmp_path / "s"), str(SELDOM_S))
    with nothing_left(DEADLINE_S):
        for number in (1, 2):
            with DriverProcess(ray_cluster, *arguments) as driver:
                driver.wait_until_it_says(f"snapshot {number}")
                driver.kill(signal.SIGKILL)
        with DriverProcess(ray_cluster, *arguments) as driver:
            lines = list(driver.lines())
    assert lines[0] == "begins at 20"
    assert lines[-1] == f"counted {expected()}"


@pytest.mark.long
def test_a_program_that_was_killed_at_any_moment_goes_on(ray_cluster: str, tmp_path: Path) -> None:
    """Snapshots are taken as time passes, while records flow; the driver dies once there is one."""
    folder = SnapshotFolder(tmp_path / "s")
    arguments = (PROGRAM, str(tmp_path / "s"), "0.05")
    with DriverProcess(ray_cluster, *arguments) as driver:
        assert eventually(lambda: bool(folder.stored_snapshots()), DEADLINE_S)
        driver.kill(signal.SIGKILL)
    with DriverProcess(ray_cluster, *arguments) as driver:
        lines = list(driver.lines())
    assert lines[0].startswith("begins at ")
    assert lines[-1] == f"counted {expected()}"


def busy(folder: str) -> Any:
    """Return an operator that is busy until a file is there."""

    def build(context: tw.OperatorContext) -> Schedule:
        seen = context.state("seen", list)

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for token, batch in input:
                seen.extend(batch)
                Path(folder, f"busy {context.worker}").touch()
                while not Path(folder, "go on").exists():
                    threading.Event().wait(0.01)
                output.send(token, batch)

        return schedule

    return build


def test_a_snapshot_waits_for_a_worker_that_is_busy(tmp_path: Path) -> None:
    """For as long as it may take; afterwards it is complete, and the workers have gone on meanwhile."""
    flow = tw.Dataflow("busy")
    flow.input("numbers").unary(busy(str(tmp_path)), name="busy").probe("done").capture("numbers")
    with nothing_left(), tw.run(flow, workers=2, snapshots=tw.Snapshots(tmp_path / "s", every_s=SELDOM_S)) as job:
        job.input("numbers").send([1])
        assert eventually((tmp_path / "busy 0").exists, DEADLINE_S)
        with pytest.raises(TimeoutError, match="snapshot 1 was not complete"):
            job.snapshot(timeout_s=0.5)
        with pytest.raises(TimeoutError, match="snapshot 2 was not complete"):
            job.snapshot(timeout_s=0.2)
        (tmp_path / "go on").touch()
        last = job.snapshot(timeout_s=DEADLINE_S)
        assert last in (2, 3)
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert job.snapshot(timeout_s=DEADLINE_S) > last


def test_a_job_that_is_paused_stopped_or_beside_another_one(tmp_path: Path) -> None:
    """It says so at once, and the folder is free again."""
    snapshots = tw.Snapshots(tmp_path / "s", every_s=SELDOM_S)
    with nothing_left():
        job = tw.run(counting(), paused=True, snapshots=snapshots)
        with pytest.raises(tw.JobError, match=r"is paused.*: call start\(\) first"):
            job.snapshot()
        with pytest.raises(tw.errors.SnapshotError, match="which is running") as refused:
            tw.run(counting(), snapshots=snapshots)
        job.start()
        job.input("words").send(words_of(0))
        job.stop(snapshot=True)
        with pytest.raises(tw.JobError, match="was stopped"):
            job.snapshot()
        with tw.run(counting(), snapshots=snapshots) as job:
            assert job.input("words").position.batches == 1
            job.stop()
    del refused  # which holds the job that was refused, so that its workers do not end with its last reference


def keep_in_a_closure(context: tw.OperatorContext) -> Schedule:
    held: list[Any] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        held.extend(token.retain() for token, _ in input)

    return schedule


def test_a_token_in_a_closure_fails_the_job(tmp_path: Path) -> None:
    """The error of the worker is that of the job, and of whoever waits for the snapshot."""
    flow = tw.Dataflow("closure")
    flow.input("numbers").unary(keep_in_a_closure, name="hold").probe("done").capture("numbers")
    with nothing_left():
        job = tw.run(flow, snapshots=tw.Snapshots(tmp_path / "s", every_s=SELDOM_S))
        job.input("numbers").send([1])
        assert eventually(lambda: fails(job), DEADLINE_S)
        job.stop()


def fails(job: tw.types.Job) -> bool:
    """Take a snapshot; the batch may come after the cut of the first ones."""
    try:
        job.snapshot(timeout_s=DEADLINE_S)
    except tw.JobError as error:
        return "operator 'hold' has a token for time 0 on worker 0 in no state" in str(error)
    return False


class Slow:
    """A state that takes its time to be read: until a file is there."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __setstate__(self, state: dict[str, str]) -> None:
        self.path = state["path"]
        deadline = monotonic() + DEADLINE_S
        while not Path(self.path).exists() and monotonic() < deadline:
            threading.Event().wait(0.01)


def slow(path: str) -> Any:
    def build(context: tw.OperatorContext) -> Schedule:
        context.state("slow", lambda: Slow(path))
        return lambda input, output: None

    return build


@pytest.mark.long
def test_a_large_state_may_take_longer_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit grows with its size; where that is not enough, the error says what has not been read."""
    there = tmp_path / "there"
    config = tw.RuntimeConfig(deploy_timeout_s=5)
    come_up = RayWorkers.come_up

    def come_up_in_their_time(workers: RayWorkers) -> None:
        workers._config = tw.RuntimeConfig()  # the short limit is for what they read, not for Ray to start them
        come_up(workers)

    monkeypatch.setattr(RayWorkers, "come_up", come_up_in_their_time)

    def run(config: tw.RuntimeConfig = config) -> tw.types.Job:
        flow = tw.Dataflow("slow")
        flow.input("numbers").unary(slow(str(there)), name="slow").capture("numbers")
        return tw.run(flow, config=config, snapshots=tw.Snapshots(tmp_path / "s", every_s=SELDOM_S))

    with nothing_left(DEADLINE_S):
        with run(tw.RuntimeConfig()) as job:
            job.stop(snapshot=True)
        with pytest.raises(tw.JobError, match=r"1 of its 1 workers have not read a snapshot of .* B within 5 s: 0 on"):
            run()
        monkeypatch.setattr(ray_job, "_LEAST_READ_PER_S", 1)
        threading.Timer(config.deploy_timeout_s + 1, there.touch).start()
        with run() as job:
            job.stop()
