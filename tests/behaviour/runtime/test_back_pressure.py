"""Sources that are faster than the dataflow wait: nothing is lost, memory stays flat, and nobody waits for ever."""

import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.lazy_source import LazySource
from tests.kit.runtime.list_feed import ListFeed
from tests.kit.runtime.one_operator import DEADLINE_S, captured, ignore, scheduled, settle
from tests.kit.runtime.stuck_flows import deploy, every_spread
from tests.slow_operator import build_slow
from tidewheel.progress import SpreadName
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.worker.worker_core import WorkerCore

KIB = 1 << 10
SMALL = tw.RuntimeConfig(bytes_in_flight=64 * KIB)


class Counting(LazySource):
    """A source whose partitions, three for each worker, notice how far they were read."""

    def __init__(self, batches: int) -> None:
        self.of_all = batches
        self.was_read = self.step = 0

    def count(self, workers: int) -> int:
        self.step = 3 * workers
        return self.step

    def batches(self, partition: int) -> Iterator[tuple[int, list[int]]]:
        for number in range(partition, self.of_all, self.step):
            self.was_read += 1
            yield 0, list(range(number * 100, number * 100 + 100))


@every_spread
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_source_in_the_workers_waits_for_a_slow_operator(workers: int, progress: SpreadName) -> None:
    """Not much more than the limit is read before it is needed, on whatever worker the slow operator is."""
    source = Counting(600)
    flow = tw.Dataflow("slow")
    flow.source("numbers", source).exchange(lambda _: 0).unary(build_slow, name="slow").probe("done").capture("results")
    with tw.run(flow, engine="local", workers=workers, config=msgspec.structs.replace(SMALL, progress=progress)) as job:
        most = 0
        while not job.is_complete:
            job.run_round()  # type: ignore[attr-defined]
            received = job.statistics().operators["slow"].messages_in
            most = max(most, source.was_read - received)
        found = sorted(n for _, batch in captured(job) for n in batch)
        job.stop()
    assert found == list(range(60_000))
    assert 10 < most < 60 * workers


def test_an_input_waits_and_says_how_long() -> None:
    """On the local engine waiting runs the job; the driver gets no further ahead than the limits allow."""
    flow = tw.Dataflow("fed")
    flow.input("numbers").unary(build_slow, name="slow").probe("done").capture("results")
    with tw.run(flow, engine="local", config=SMALL) as job:
        for number in range(500):
            job.input("numbers").send(list(range(100 * number, 100 * number + 100)))
            waiting = 100 * (number + 1) - job.statistics().operators["slow"].records_in
            assert waiting < 100 * 60
        sent = job.statistics().inputs["numbers"]
        assert (sent.batches, sent.records) == (500, 50_000)
        assert sent.seconds_waited > 0
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert sorted(n for _, batch in captured(job) for n in batch) == list(range(50_000))


def test_not_waiting_is_possible() -> None:
    """`timeout_s=0` raises WouldBlock, and nothing was sent; later the same batch goes."""
    feed = ListFeed(1, bytes_in_flight=300)
    feed.has_taken = False
    handle = feed.handle()
    handle.send([0])
    with raises(tw.errors.WouldBlock):
        handle.send([1], timeout_s=0)
    assert (feed.last_timeout, len(feed.submitted), handle.statistics.batches) == (0, 1, 1)
    feed.has_taken = True
    handle.send([1], timeout_s=0)
    assert [command.batch for _, command in feed.submitted] == [[0], [1]]


def test_an_input_is_not_too_many_epochs_ahead() -> None:
    """Of the probe; it catches up by waiting, here by running the job."""
    flow = tw.Dataflow("epochs")
    flow.input("numbers").unary(build_slow, name="slow").probe("done")
    with tw.run(flow, engine="local", config=tw.RuntimeConfig(epochs_ahead=10)) as job:
        numbers, done = job.input("numbers"), job.probe("done")
        for epoch in range(1, 200):
            numbers.send([epoch])
            numbers.advance_to(epoch)
            assert not done.frontier.less_than(epoch - 11)
        assert job.statistics().inputs["numbers"].seconds_waited > 0
        job.stop()


def test_a_dataflow_that_needs_more_epochs_than_that_gets_them() -> None:
    """An operator that lets go of a time 50 epochs later is no reason to wait for ever."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            kept.append(lent.retain())
            if len(kept) > 50:
                kept.pop(0).discard()

    flow = tw.Dataflow("window")
    flow.input("numbers").unary(scheduled(schedule), name="window").probe("done")
    with tw.run(flow, engine="local", config=tw.RuntimeConfig(epochs_ahead=10)) as job:
        for epoch in range(1, 200):
            job.input("numbers").send([epoch])
            job.input("numbers").advance_to(epoch)
        settle(job)
        assert list(job.probe("done").frontier) == [149]
        job.stop()
    while kept:
        kept.pop().discard()


def build_join(context: tw.OperatorContext) -> Schedule:
    """Build an operator that leaves its left input unread until its right one has ended."""
    build_side: set[int] = set()

    def schedule(left: tw.InputPort, right: tw.InputPort, output: tw.OutputPort) -> None:
        for _, batch in right:
            build_side.update(batch)
        if not len(right.frontier):
            for lent, batch in left:
                output.send(lent, [n for n in batch if n in build_side])

    return schedule


def join(batches: int) -> tw.Dataflow:
    """Return a dataflow that keeps of many numbers those that its input names."""
    flow = tw.Dataflow("join")
    probes = flow.source("left", Counting(batches)).exchange(lambda n: n)
    built = flow.input("right").exchange(lambda n: n)
    probes.binary(built, build_join, name="join").probe("done").capture("results")
    return flow


@pytest.mark.parametrize("workers", [1, 2])
def test_an_operator_that_reads_one_input_first_does_not_wait_for_ever(workers: int) -> None:
    """What it leaves unread holds sources back; as nothing else happens, they go on all the same."""
    with tw.run(join(100), engine="local", workers=workers, config=SMALL) as job:
        for number in range(100):
            job.input("right").send(list(range(100 * number, 100 * number + 10)))
        job.input("right").close()
        job.wait(DEADLINE_S)
        found = sorted(n for _, batch in captured(job) for n in batch)
    assert found == [n for n in range(10_000) if n % 100 < 10]


def test_more_is_let_go_each_time_that_it_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that thousands of unread messages do not take thousands of times; on Ray each is a fifth of a second."""
    calls = 0
    release = WorkerCore.release

    def count(core: WorkerCore) -> bool:
        nonlocal calls
        calls += 1
        return release(core)

    monkeypatch.setattr(WorkerCore, "release", count)
    with tw.run(join(3000), engine="local", config=tw.RuntimeConfig(bytes_in_flight=4 << 20)) as job:
        while job.run_round():  # type: ignore[attr-defined]
            pass
        assert job.statistics().workers[0].bytes_in_flight < 6 << 20
        assert 10 < calls < 150
        job.input("right").close()
        job.wait(DEADLINE_S)


def test_an_operator_may_send_to_its_own_job_whatever_is_in_flight() -> None:
    """It cannot wait for itself."""
    jobs: list[tw.types.Job] = []
    flow = tw.Dataflow("own")
    flow.input("numbers").map(lambda n: jobs[0].input("more").send([n] * 5000)).probe("done")
    flow.input("more").unary(scheduled(ignore), name="ignore")
    with deploy(flow, 1) as job:
        jobs.append(job)
        job.input("numbers").send(list(range(100)))
        job.input("numbers").close()
        job.probe("done").wait_until(1, DEADLINE_S)
        job.input("more").close()
        job.wait(DEADLINE_S)


GIGABYTE = """
import resource, numpy as np, tidewheel as tw
resource.setrlimit(resource.RLIMIT_DATA, (500 << 20, 500 << 20))

def build_slow(context):
    def schedule(input, output):
        for lent, batch in input:
            output.send(lent, batch)
            break
    return schedule

def rounds(arrays):
    slow = arrays.unary(build_slow, name="slow")
    on = slow.map_batches(lambda batch: batch[batch[:, 0] > 0] - [1] + [0])
    return on, slow.map_batches(lambda batch: batch[batch[:, 0] <= 0][:, :1])

flow = tw.Dataflow("gigabyte")
flow.input("arrays").iterate(rounds).map_batches(lambda batch: np.array([len(batch)])).capture("counts")
with tw.run(flow, engine="local", workers=2) as job:
    for number in range(1024):
        job.input("arrays").send(np.full((1, 1 << 17), number % 3, dtype=np.int64))
    job.input("arrays").close()
    job.wait()
    print(sum(int(n) for entry in job.captured("counts") for n in entry.batch))
    print(job.statistics().inputs["arrays"].bytes)
"""


def test_a_gigabyte_through_a_loop_in_half_the_memory() -> None:
    """A process whose data may take 500 MB passes 1 GiB through a slow operator in a loop, and loses nothing."""
    ran = subprocess.run([sys.executable, "-c", GIGABYTE], capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == ["1024", str(1 << 30)]
