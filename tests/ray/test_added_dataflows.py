"""Several dataflows on the same worker actors."""

import os
import signal
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

import tidewheel as tw
from tests.ray.leftovers import nothing_left
from tests.waiting import eventually
from tidewheel.runtime.engines.ray_job import RayJob
from tidewheel.transport.link import LinkName

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
ENDS_WITHIN_S = 10.0


def halving(name: str, *, fails_at: int | None = None) -> tw.Dataflow:
    """Describe a loop with an exchange that counts how often each number can be halved."""

    def halve(pair: tuple[int, int]) -> tuple[int, int]:
        if pair[0] == fails_at:
            raise ValueError(f"no {fails_at}")
        return pair[0] // 2, pair[1] + 1

    def body(pairs: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        moved = pairs.exchange(lambda pair: pair[0])
        return moved.filter(lambda pair: pair[0] % 2 == 0).map(halve), moved.filter(lambda pair: pair[0] % 2)

    flow = tw.Dataflow(name)
    flow.input("numbers").map(lambda n: (n, 0)).iterate(body).probe("done").capture("results")
    return flow


def started(flow: tw.Dataflow, **settings: Any) -> RayJob:
    job = tw.run(flow, workers=2, config=tw.RuntimeConfig(**settings))
    assert isinstance(job, RayJob)
    return job


def feed(job: tw.types.Job, *numbers: int) -> None:
    for number in numbers:
        job.input("numbers").send([number])
    job.input("numbers").close()


def results(job: tw.types.Job) -> list[tuple[int, int]]:
    return sorted(pair for entry in job.captured("results") for pair in entry.batch)


@pytest.mark.parametrize("link", ["socket", pytest.param("ray", marks=pytest.mark.long)])
def test_each_is_a_job_of_its_own_in_the_same_processes(link: LinkName) -> None:
    """With the same names inside; one is added while the other is in full swing, and has a topic."""
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    second = halving("second")
    second.input("news").publish(topic)
    with nothing_left(), started(halving("first"), link=link) as job:
        for number in range(200):
            job.input("numbers").send([64 * number + 64])
            job.input("numbers").advance_to(number + 1)
        added = job.add(second, paused=True)
        assert isinstance(added, RayJob)
        assert added.pids == job.pids
        with tw.subscribe(topic) as subscription:
            added.start()
            added.input("news").send(["hello"])
            added.input("news").close()
            feed(added, 8, 12)
            assert [epoch.records for epoch in subscription.epochs()] == [["hello"]]
        job.input("numbers").close()
        job.wait(timeout_s=DEADLINE_S)
        assert results(added) == [(1, 3), (3, 2)]
        assert len(results(job)) == 200
        assert job.statistics().inputs["numbers"].records == 200
        assert added.statistics().inputs["numbers"].records == 2


def test_an_added_dataflow_that_fails_leaves_the_others_alone() -> None:
    """Its error names its operator and worker; the workers live, and let go of it."""
    with nothing_left():
        job = started(halving("good"))
        bad = job.add(halving("bad", fails_at=8))
        other = job.add(halving("other"))
        bad.input("numbers").send([8])
        with pytest.raises(tw.JobError, match="no 8") as failure:
            bad.wait(timeout_s=DEADLINE_S)
        assert failure.value.operator == "iterate/map"
        feed(job, 8)
        feed(other, 4)
        job.drop("bad")
        job.wait(timeout_s=DEADLINE_S)
        assert (results(job), results(other)) == ([(1, 3)], [(1, 2)])
        again = job.add(halving("bad"))
        feed(again, 2)
        again.wait(timeout_s=DEADLINE_S)
        assert results(again) == [(1, 1)]
        job.stop()


def test_a_killed_worker_fails_them_all_with_one_cause() -> None:
    """Each job tells of the worker's death."""
    with nothing_left() as members:
        job = started(halving("first"))
        added = job.add(halving("second"))
        members.note()
        os.kill(job.pids[1], signal.SIGKILL)
        for one in (added, job):
            with pytest.raises(tw.JobError, match=rf"worker 1 of job .*process {job.pids[1]} .*died") as failure:
                one.wait(timeout_s=ENDS_WITHIN_S)
            assert failure.value.worker == 1
        with pytest.raises(tw.JobError, match="died"):
            job.add(halving("third"))
        job.stop()


def test_the_job_that_fails_ends_what_was_added() -> None:
    """The workers are its own."""
    with nothing_left() as members:
        job = started(halving("first", fails_at=8))
        added = job.add(halving("second"))
        members.note()
        job.input("numbers").send([8])  # it may have failed before its input could be closed
        with pytest.raises(tw.JobError, match=r"has ended with job .*to which it was added: .*no 8"):
            added.wait(timeout_s=ENDS_WITHIN_S)
        with pytest.raises(tw.JobError, match="no 8"):
            job.wait(timeout_s=ENDS_WITHIN_S)
        job.stop()


def test_a_dropped_dataflow_leaves_nothing_on_the_workers() -> None:
    """No thread and no file, however often one comes and goes."""
    with started(halving("first")) as job:
        processes = [psutil.Process(pid) for pid in job.pids]

        def held() -> list[Counter[str]]:
            return [Counter(threads=process.num_threads(), files=process.num_fds()) for process in processes]

        def come_and_go() -> None:
            added = job.add(halving("second"))
            feed(added, 8)
            added.wait(timeout_s=DEADLINE_S)
            job.drop("second")

        come_and_go()
        often = 5
        ray_s = Counter(threads=often - 2, files=often - 2)  # pools of Ray and gRPC start some of theirs late
        before = [now + ray_s for now in held()]
        for _ in range(often):
            come_and_go()
        assert eventually(lambda: all(not now - then for now, then in zip(held(), before, strict=True))), (
            f"held {held()} instead of at most {before}"
        )
        job.stop()


@pytest.mark.long
def test_dropping_does_not_wait_for_an_operator_that_does_not_return(caplog: pytest.LogCaptureFixture) -> None:
    """It says which one it is, and the other dataflows go on."""

    def build(context: tw.OperatorContext) -> Any:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for _ in input:
                threading.Event().wait()

        return schedule

    stuck = tw.Dataflow("stuck")
    stuck.input("numbers").unary(build, name="stand")
    with nothing_left(), started(halving("first")) as job:
        added = job.add(stuck)
        added.input("numbers").send([1])
        assert eventually(lambda: added.statistics().silent == (0,))
        caplog.clear()
        job.drop("stuck")
        assert "was dropped, but worker 0 is still in operator 'stand'" in caplog.text
        feed(job, 8)
        job.wait(timeout_s=DEADLINE_S)
        assert results(job) == [(1, 3)]


def test_what_cannot_be_deployed_is_not_there_afterwards() -> None:
    """Neither what cannot be pickled nor what cannot be built; the job goes on, and the name is free."""
    lock = threading.Lock()
    locked = tw.Dataflow("second")
    locked.input("numbers").map(lambda n: (n, lock))

    def refuse(context: tw.OperatorContext) -> Any:
        raise ValueError("not today")

    refusing = tw.Dataflow("second")
    refusing.input("numbers").unary(refuse, name="refuse")
    with nothing_left(), started(halving("first")) as job:
        with pytest.raises(tw.GraphError, match="'map' cannot be pickled"):
            job.add(locked)
        with pytest.raises(tw.JobError, match="not today"):
            job.add(refusing)
        assert dict(job.dataflows) == {}
        added = job.add(halving("second"))
        feed(added, 2)
        feed(job, 4)
        job.wait(timeout_s=DEADLINE_S)
        assert (results(job), results(added)) == ([(1, 2)], [(1, 1)])


def test_an_operator_that_returns_after_its_dataflow_was_dropped(tmp_path: Path) -> None:
    """Then the worker lets go of what the dataflow had, and the others never notice."""
    flag = tmp_path / "go on"

    def build(context: tw.OperatorContext) -> Any:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for _ in input:
                while not flag.exists():
                    threading.Event().wait(0.01)

        return schedule

    stuck = tw.Dataflow("stuck")
    stuck.input("numbers").unary(build, name="stand")
    with nothing_left(), started(halving("first")) as job:
        worker = psutil.Process(job.pids[0])
        job.add(halving("warm"))
        job.drop("warm")
        before = worker.num_threads(), worker.num_fds()
        added = job.add(stuck)
        added.input("numbers").send([1])
        assert eventually(lambda: added.statistics().silent == (0,))
        job.drop("stuck")
        assert (worker.num_threads(), worker.num_fds()) > before
        flag.touch()
        assert eventually(lambda: worker.num_fds() <= before[1])
        feed(job, 8)
        job.wait(timeout_s=DEADLINE_S)


class Revived:
    """Can be unpickled in any process but the one that comes first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return revive, (self.folder,)


def revive(folder: Path) -> Revived:
    try:
        (folder / "first").mkdir()
    except FileExistsError:
        return Revived(folder)
    raise ImportError("No module named 'elsewhere'")


def test_what_one_worker_cannot_deploy_is_dropped_by_the_others(tmp_path: Path) -> None:
    """They wait for it, and stop waiting; nothing happens to the dataflows that run."""
    revived = Revived(tmp_path)
    flow = tw.Dataflow("second")
    flow.input("numbers").map(lambda n: (n, revived))
    with nothing_left(), started(halving("first")) as job:
        with pytest.raises(tw.JobError, match="No module named 'elsewhere'"):
            job.add(flow)
        feed(job, 8)
        feed(job.add(halving("second")), 4)
        job.wait(timeout_s=DEADLINE_S)
        assert (results(job), results(job.dataflows["second"])) == ([(1, 3)], [(1, 2)])


def test_a_reader_of_what_has_failed_does_not_hold_up_the_others() -> None:
    """Though the publisher waits for it for a while."""
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    bad = halving("bad", fails_at=8)
    bad.input("news").publish(topic)
    with started(halving("good")) as job:
        added = job.add(bad)
        with tw.subscribe(topic):
            added.input("news").send(["unread"])
            added.input("numbers").send([8])
            with pytest.raises(tw.JobError, match="no 8"):
                added.wait(timeout_s=DEADLINE_S)
            since = time.monotonic()
            feed(job, 4)
            job.probe("done").wait_until((2**62), timeout_s=DEADLINE_S)
            assert time.monotonic() - since < 2
        job.drop("bad")
        job.stop()


def test_stopping_does_not_wait_for_operators_that_do_not_return() -> None:
    """However many there are: their processes end."""

    def build(context: tw.OperatorContext) -> Any:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for _ in input:
                threading.Event().wait()

        return schedule

    with nothing_left():
        job = started(halving("first"))
        for number in range(3):
            stuck = tw.Dataflow(f"stuck {number}")
            stuck.input("numbers").unary(build, name="stand")
            job.add(stuck).input("numbers").send([1])
        since = time.monotonic()
        job.stop()
        assert time.monotonic() - since < 2


def test_a_job_with_added_dataflows_does_not_go_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Though it keeps snapshots, it fails when a worker dies, and a warning says why."""
    with nothing_left():
        job = tw.run(halving("first"), workers=2, snapshots=tw.Snapshots(tmp_path, every_s=1000.0))
        assert isinstance(job, RayJob)
        added = job.add(halving("second"))
        job.snapshot()
        os.kill(job.pids[1], signal.SIGKILL)
        for one in (added, job):
            with pytest.raises(tw.JobError, match="died"):
                one.wait(timeout_s=ENDS_WITHIN_S)
        assert "does not go back to a snapshot, as it has added dataflows, which keep none: 'second'" in caplog.text
