"""A publisher is killed while its topic ends: the job goes back, and subscribers see epochs once, and whole.

The end of a topic without a log has two phases: see `pubsub/protocol/topic_end.py`. The publisher is killed in each.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidewheel as tw
from tests.ray.driver_process import DriverProcess
from tests.ray.leftovers import nothing_left
from tests.ray.topics.test_recovered_topics import DEADLINE_S, READER, read
from tests.ray.worker_killer import WorkerKiller
from tests.waiting import eventually
from tidewheel.pubsub.protocol.topic_end import PartitionEnd
from tidewheel.runtime.engines.ray_job import RayJob
from tidewheel.runtime.messages.feeder_status import Phase

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

EPOCHS = 12
BATCHES = 3
LARGE = 50_000
"""With records of so many bytes, most of a topic waits at its publishers while its subscriber does not read."""
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))]


class Ending:
    """A job with a topic of two partitions that is about to end, and the publishers of the topic.

    Args:
        job: the job.
        topic: the name of its topic.
        random: chooses the publisher to kill.

    Attributes:
        victim: the partition whose publisher is killed, and ``other``, the other one.
    """

    def __init__(self, job: RayJob, topic: str, random: Random) -> None:
        self.job = job
        self.publication: Any = job.topic(topic)
        self.publication.wait_for_subscribers(1, DEADLINE_S)
        self.random = random
        self.victim = random.randrange(2)
        self.other = 1 - self.victim
        self._pid = self._find()

    def _find(self) -> int:
        import ray

        call = self.publication._publishers[self.victim].__ray_call__.remote(lambda _: os.getpid())
        pid: int = ray.get(call, timeout=DEADLINE_S)
        return pid

    def kill(self) -> None:
        """Kill the publisher; it may be stopped, so it is not asked for its process."""
        os.kill(self._pid, signal.SIGKILL)

    def stop(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def kill_next(self) -> None:
        """Kill the publisher that has taken the place of the one that was killed before."""
        self._pid = self._find()
        self.kill()

    def knows_end(self, partition: int) -> bool:
        import ray

        call = self.publication._publishers[partition].known_end.remote(0, 0.0, None)
        return ray.get(call, timeout=DEADLINE_S) is not None

    def wait_for_workers(self) -> None:
        """Wait until the workers have done everything, so each publisher has everything."""
        link = self.job._link
        assert link is not None
        assert eventually(lambda: all(one.phase is Phase.COMPLETE for one in link.statuses), DEADLINE_S)

    def hold(self) -> None:
        """Have the end not become final: the driver waits for one more partition."""
        self.publication._end_of_topic._partitions = 3

    def let_go(self) -> None:
        """Have it become final when all publishers have everything."""
        self.publication._end_of_topic._partitions = 2

    def wait_for_recovery(self) -> None:
        """Wait until the job has begun to go back."""
        recovery: Any = self.job._recovery
        assert eventually(lambda: recovery._attempts > 0, DEADLINE_S)


def batch_of(epoch: int, number: int) -> list[int]:
    return [epoch * 100 + number * 10 + n for n in range(5)]


def padded(size: int, number: int) -> str:
    return str(number).zfill(size)


def expected(size: int = 4) -> list[Any]:
    return [
        [epoch, sorted(padded(size, n) for b in range(BATCHES) for n in batch_of(epoch, b))] for epoch in range(EPOCHS)
    ]


def send_all(numbers: tw.types.InputHandle) -> None:
    for sent in range(numbers.position.batches, EPOCHS * BATCHES):
        numbers.advance_to(sent // BATCHES)
        numbers.send(batch_of(sent // BATCHES, sent % BATCHES))


def run_to_its_end(job: RayJob, before_close: Callable[[], None], after_close: Callable[[], None]) -> int:
    """Send everything and close the input, again where the job goes back; return how often it has."""
    numbers = job.input("numbers")
    once = [before_close, after_close]
    rewound = 0
    while True:
        try:
            send_all(numbers)
            if len(once) == 2:
                once.pop(0)()
            numbers.close()
            if once:
                once.pop()()
            job.wait(DEADLINE_S)
        except tw.JobRolledBack:
            rewound += 1
        else:
            return rewound


def nothing() -> None:
    pass


def run(topic: str, folder: Path, size: int = 4) -> RayJob:
    """Run a dataflow where timing decides which worker publishes a record, a text of some size."""
    flow = tw.Dataflow("ending")
    texts = flow.input("numbers").rebalance().map(abs).exchange(abs).map(partial(padded, size))
    texts.rebalance().publish(topic, wait_for=1)
    job = tw.run(flow, workers=2, snapshots=tw.Snapshots(folder, every_s=1000, restarts=4))
    assert isinstance(job, RayJob)
    return job


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "moment", ["between", *(pytest.param(moment, marks=pytest.mark.long) for moment in ("before", "worker", "after"))]
)
def test_a_publisher_dies_before_the_end_is_final(tmp_path: Path, ray_cluster: str, seed: int, moment: str) -> None:
    """It dies before any publisher knows the end, once the other one knows it, or once both have everything.

    In the last case the subscriber has not read much of it. Or a worker dies when one publisher knows the end.
    """
    topic = f"ends-{moment}-{seed}"
    size = LARGE if moment == "after" else 4
    with (
        nothing_left(),
        run(topic, tmp_path, size) as job,
        DriverProcess(ray_cluster, READER, topic, "") as reader,
    ):
        ending = Ending(job, topic, Random(seed))

        def after_close() -> None:
            if moment in ("between", "worker"):
                assert eventually(lambda: ending.knows_end(ending.other), DEADLINE_S)
            elif moment == "after":
                ending.wait_for_workers()
            if moment == "worker":
                WorkerKiller(ending.random).strike()
                topic_end = ending.publication._end_of_topic  # the end may become final before the job goes back
                assert eventually(lambda: topic_end._generation > 0, DEADLINE_S)
                ending.go_on()
            elif moment != "before":
                ending.kill()
            ending.wait_for_recovery()
            ending.let_go()
            reader.kill(signal.SIGCONT)

        if moment == "after":
            ending.hold()
            reader.kill(signal.SIGSTOP)
        begin = {"before": ending.kill, "after": nothing}.get(moment, ending.stop)
        rewound = run_to_its_end(job, begin, after_close)
        job.stop()
        found = read(reader)
    assert rewound, f"seed {seed}: the job never went back"
    assert found == expected(size), f"seed {seed}"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_a_publisher_dies_as_the_end_becomes_final(tmp_path: Path, ray_cluster: str, seed: int) -> None:
    """It has not told its subscribers. The next publisher does that, and the job does not go back."""
    topic = f"ends-final-{seed}"
    with (
        nothing_left(),
        pytest.MonkeyPatch.context() as patch,
        run(topic, tmp_path) as job,
        DriverProcess(ray_cluster, READER, topic, "") as reader,
    ):
        ending = Ending(job, topic, Random(seed))
        topic_end = ending.publication._end_of_topic

        def receive(partition: int, end: PartitionEnd) -> bool:
            is_final: bool = type(topic_end).receive(topic_end, partition, end)
            if is_final:
                ending.kill()
            return is_final

        patch.setattr(topic_end, "receive", receive)
        rewound = run_to_its_end(job, nothing, nothing)
        job.stop()
        assert read(reader) == expected(), f"seed {seed}"
    assert not rewound, f"seed {seed}: the job went back"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_all_inputs_are_closed_in_the_pause_before_an_attempt(tmp_path: Path, ray_cluster: str, seed: int) -> None:
    """The workers and publishers of before end meanwhile, as far as they live. The job goes back nevertheless."""
    topic = f"ends-pause-{seed}"
    with (
        nothing_left(),
        run(topic, tmp_path) as job,
        DriverProcess(ray_cluster, READER, topic, "") as reader,
    ):
        ending = Ending(job, topic, Random(seed))
        recovery: Any = job._recovery

        ending.kill()
        assert eventually(lambda: recovery._attempts == 1 and not recovery._is_under_way, DEADLINE_S)

        def kill_again() -> None:
            ending.kill_next()
            assert eventually(lambda: recovery._attempts == 2, DEADLINE_S)  # there is a pause now

        rewound = run_to_its_end(job, kill_again, nothing)
        job.stop()
        assert read(reader) == expected(), f"seed {seed}"
    assert rewound, f"seed {seed}: the job never went back"


@contextmanager
def held(topic: str, folder: Path, cluster: str) -> Iterator[tuple[RayJob, Ending, DriverProcess]]:
    """Run a job whose workers have sent everything, while the publishers do not say so, and a reader of its topic."""
    with nothing_left(), run(topic, folder) as job, DriverProcess(cluster, READER, topic, "") as reader:
        ending = Ending(job, topic, Random(0))
        ending.hold()
        send_all(job.input("numbers"))
        job.input("numbers").close()
        ending.wait_for_workers()
        yield job, ending, reader


@pytest.mark.long
def test_an_input_that_a_snapshot_has_as_closed_stays_closed(tmp_path: Path, ray_cluster: str) -> None:
    """The job goes back to that snapshot and comes to its end; it waits for nothing more of the program."""
    with held("ends-closed", tmp_path, ray_cluster) as (job, ending, reader):
        job.snapshot(DEADLINE_S)
        assert eventually(lambda: not any(one["queued_bytes"] for one in ending.publication.statistics()), DEADLINE_S)
        ending.kill()
        ending.wait_for_recovery()
        ending.let_go()
        job.wait(DEADLINE_S)
        assert job.input("numbers").position.is_closed
        job.stop()
        assert read(reader) == expected()


@pytest.mark.long
def test_the_end_is_final_before_the_job_is_complete(tmp_path: Path, ray_cluster: str) -> None:
    """While a publisher has not said that it has everything, subscribers and `Job.wait` wait for the end."""
    with held("ends-held", tmp_path, ray_cluster) as (job, ending, reader):
        ends = ending.publication._end_of_topic.ends
        assert eventually(lambda: len(ends) == 2, DEADLINE_S)
        with pytest.raises(TimeoutError):
            job.wait(0.1)
        ending.let_go()
        ending.publication._receive_end(0, ends[0])
        job.wait(DEADLINE_S)
        job.stop()
        assert read(reader) == expected()
