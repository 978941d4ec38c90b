"""Inboxes of jobs on Ray: other processes of the cluster have a job by name, and keys count once whatever dies."""

import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
import ray

import tidewheel as tw
from tests.kit.messages import raises
from tests.ray.leftovers import nothing_left
from tests.waiting import eventually
from tidewheel.runtime.engines.ray_job import RayJob

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


def describe(records: Any = None) -> tw.Dataflow:
    flow = tw.Dataflow("fraud")
    payments = flow.inbox("payments", records, epoch_every_s=0.05)
    payments.probe("done").capture("payments")
    payments.map(lambda n: (n, n * n)).as_collection(upserts=True).lookup("squares")
    return flow


def received(job: tw.types.Job) -> Counter[Any]:
    """Return how often each record has come, in epochs that are complete."""
    job.probe("done").has_completed(0)
    return Counter(record for captured in job.captured("payments") for record in captured.batch)


def send_from_there(job: str, numbers: list[int], key: str | None = None) -> dict[str, Any]:
    """In another process: send, wait until it was processed or saved, and look up."""
    import os

    import tidewheel as tw

    found = tw.job(job)
    sent = found.input("payments").send(numbers, key=key)
    sent.wait_until_saved(DEADLINE_S)
    looked_up = found.lookup("squares", numbers, timeout_s=DEADLINE_S)
    return {"process": os.getpid(), "squares": {key: looked_up[key] for key in numbers}}


def test_other_processes_send_and_look_up_by_name() -> None:
    """By the name of the dataflow, without a handle; a key counts once whichever process sends it."""
    there = ray.remote(num_cpus=0)(send_from_there)
    with tw.run(describe(int), workers=2) as job:  # the processes of Ray's tasks stay for a while
        calls = [there.remote("fraud", list(range(ten, ten + 10)), f"key {ten}") for ten in (0, 10, 20, 0, 10)]
        answers = ray.get(calls, timeout=DEADLINE_S)
        here = send_from_there("fraud", [7000])
        assert eventually(lambda: received(job) == Counter([*range(30), 7000]), DEADLINE_S)
        job.stop()
    assert len({answer["process"] for answer in [*answers, here]}) > 1
    assert all(squares == {n: [n * n] for n in squares} for squares in (one["squares"] for one in [*answers, here]))


def test_wrong_names_are_refused() -> None:
    """With the names that there are; records of another type are refused by the worker."""
    with nothing_left(), tw.run(describe(int)) as job:
        with raises(tw.JobError):
            tw.job("no job", timeout_s=0)
        found = tw.job("fraud")
        with raises(tw.JobError):
            found.input("payment")
        with raises(tw.JobError):
            found.lookup("square", 1)
        with raises(TypeError):
            found.input("payments").send(["x"])
        job.stop()
        with pytest.raises(tw.JobError, match="has ended"):
            found.input("payments").send([1])
        with pytest.raises(tw.JobError, match="has ended"):
            found.lookup("squares", 1)


def send_until_saved(payments: tw.types.InputByName, number: int) -> int:
    """Send a number with its key until a snapshot has it; return how often it was sent."""
    for times in range(1, 100):
        try:
            payments.send([number], key=str(number), timeout_s=DEADLINE_S).wait_until_saved(DEADLINE_S)
        except tw.JobRolledBack:
            continue
        return times
    raise AssertionError(f"{number} was never saved")


def test_keys_count_once_though_workers_die(tmp_path: Path) -> None:
    """The job goes back to a snapshot; senders learn of it, and send again what no snapshot has."""
    random = Random(3)
    snapshots = tw.Snapshots(tmp_path, every_s=0.3)
    numbers = range(60)
    with nothing_left(), tw.run(describe(int), workers=2, snapshots=snapshots) as job:
        assert isinstance(job, RayJob)
        payments = tw.job("fraud").input("payments")
        with ThreadPoolExecutor(8) as pool:
            sending = [pool.submit(send_until_saved, payments, number) for number in numbers]
            for done in (10, 30):
                assert eventually(lambda done=done: sum(one.done() for one in sending) >= done, DEADLINE_S)  # type: ignore[misc]
                os.kill(random.choice(job.pids), signal.SIGKILL)
            times = [one.result(DEADLINE_S) for one in sending]
        assert sum(times) > len(numbers), "some were sent again"
        payments.send([1000], timeout_s=DEADLINE_S)
        assert eventually(lambda: received(job)[1000] == 1, DEADLINE_S)
        assert received(job) == Counter([*numbers, 1000])
        assert tw.job("fraud").lookup("squares", 59).values == [59 * 59]
        job.stop(snapshot=True)
    with nothing_left(), tw.run(describe(int), workers=3, snapshots=snapshots) as job:
        payments = tw.job("fraud").input("payments")
        for number in numbers:
            payments.send([number], key=str(number))
        payments.send([2000]).wait_until_saved(DEADLINE_S)
        assert eventually(lambda: received(job)[2000] == 1, DEADLINE_S)
        assert received(job) == Counter([*numbers, 1000, 2000]), "the capture has what it had in the snapshot"
        job.stop()
