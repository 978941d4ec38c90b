"""Many jobs in one driver, one after the other: the driver keeps nothing of those that have ended."""

import gc

import psutil
import pytest

import tidewheel as tw
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

JOBS = 4


def run_job() -> None:
    """Run a job that publishes, and read its topic."""
    flow = tw.Dataflow("numbers")
    flow.input("numbers", int).map(lambda number: number + 1).publish("many jobs").capture("numbers")
    with tw.run(flow) as job, tw.subscribe("many jobs") as subscription:
        with job.input("numbers") as numbers:
            numbers.send([1, 2])
        assert [sorted(epoch.records) for epoch in subscription.epochs(timeout_s=30)] == [[2, 3]]
        job.wait(timeout_s=30)


def classes() -> int:
    """Return how many classes there are."""
    gc.collect()
    return sum(isinstance(known, type) for known in gc.get_objects())


def sockets() -> int:
    """Return how many sockets this process has open."""
    return len(psutil.Process().net_connections(kind="all"))


def test_a_driver_keeps_nothing_of_its_jobs() -> None:
    """No class, and no socket beside the two or three that Ray opens and closes as it likes."""
    for _ in range(2):
        run_job()
    classes_before, sockets_before = classes(), sockets()
    for _ in range(JOBS):
        run_job()
    assert classes() <= classes_before
    assert eventually(lambda: sockets() < sockets_before + JOBS)
