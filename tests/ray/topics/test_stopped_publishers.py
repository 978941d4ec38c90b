"""A publisher that a signal has stopped is killed by its worker, and everything goes on as after a death."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.ray.driver_process import DriverProcess
from tests.ray.leftovers import nothing_left
from tests.ray.topics.test_recovered_topics import BATCHES, EPOCHS, READER, expected, feed, read, run
from tests.ray.topics.test_relays import pid_of
from tests.waiting import eventually
from tidewheel.pubsub.publishers.watched_publisher import PATIENCE_S

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
RESTARTED_S = 40.0
"""A process of Ray may take so long to start on a busy machine; readers would fail after a minute."""


class Stopper:
    """Stops the publisher of one partition, once."""

    def __init__(self, publication: Any, partition: int) -> None:
        self._publisher = publication._publishers[partition]
        self.pid = 0
        self.stopped_s = 0.0

    def __call__(self) -> None:
        """Stop it."""
        self.pid = pid_of(self._publisher)
        os.kill(self.pid, signal.SIGSTOP)
        self.stopped_s = time.monotonic()

    def has_gone(self) -> bool:
        """Whether its process has ended, and been waited for."""
        return not Path(f"/proc/{self.pid}").exists()


def test_readers_of_a_log_miss_nothing(tmp_path: Path, ray_cluster: str) -> None:
    """The publisher is started again, and goes on from its log: a reader elsewhere has each epoch once."""
    topic = "stopped-with-log"
    flow = tw.Dataflow(topic)
    numbers = flow.input("numbers").rebalance()
    numbers.publish(topic, log=tw.Log(tmp_path / "log"), wait_for=1)
    with nothing_left(), DriverProcess(ray_cluster, READER, topic, "reader") as reader:
        with tw.run(flow, workers=2) as job:
            stop = Stopper(job.topic(topic), 1)
            feed(job, {EPOCHS * BATCHES // 2: stop})
            job.stop()
            assert read(reader) == expected()
        took_s = time.monotonic() - stop.stopped_s
        assert eventually(stop.has_gone, DEADLINE_S)
    assert took_s < PATIENCE_S + RESTARTED_S


@pytest.mark.long
def test_a_job_with_snapshots_goes_back(tmp_path: Path, ray_cluster: str) -> None:
    """A best-effort topic has no log: another publisher takes the place, and each epoch is shown once."""
    topic = "stopped-best-effort"
    flow = tw.Dataflow(topic)
    flow.input("numbers").rebalance().publish(topic, wait_for=1).probe("published")
    with nothing_left(), run(flow, tmp_path) as job, DriverProcess(ray_cluster, READER, topic, "") as reader:
        stop = Stopper(job.topic(topic), 0)

        def stop_when_published() -> None:
            # Before, the worker has sent nothing, and nobody watches the publisher.
            assert eventually(lambda: job.probe("published").has_completed(0), DEADLINE_S)
            stop()

        feed(job, {EPOCHS * BATCHES // 2: stop_when_published})
        job.stop()
        assert read(reader) == expected()
        assert eventually(stop.has_gone, DEADLINE_S)


@pytest.mark.long
def test_a_job_that_keeps_nothing_fails_soon() -> None:
    """Neither log nor snapshots: job and subscriber end with the errors that the death of a publisher has."""
    with nothing_left(), pytest.raises(tw.JobError, match="publisher is dead"):
        stop_the_only_publisher("stopped-without-anything")


def stop_the_only_publisher(topic: str) -> None:
    """Run a job whose publisher is stopped after an epoch, to its end."""
    flow = tw.Dataflow(topic)
    flow.input("numbers").publish(topic, wait_for=1)
    with tw.run(flow, workers=1) as job:
        stop = Stopper(job.topic(topic), 0)
        numbers = job.input("numbers")
        with tw.subscribe(topic, timeout_s=DEADLINE_S) as subscription:
            numbers.send([1])
            numbers.advance_to(1)
            epochs = subscription.epochs(timeout_s=PATIENCE_S + RESTARTED_S)
            assert next(epochs).records == [1]
            stop()
            with pytest.raises(tw.errors.PublisherLost):
                next(epochs)
        assert eventually(stop.has_gone, DEADLINE_S)
        numbers.close()
        job.wait(DEADLINE_S)
