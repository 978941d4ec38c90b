"""Sources that wait: for the clock, for a probe, and for room; none is read before that is wanted."""

from collections.abc import Iterator
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S, settle
from tests.kit.operators.lazy_source import LazySource
from tests.kit.runtime.stuck_flows import every_spread, hoarding
from tests.slow_operator import build_slow
from tidewheel.progress import SpreadName
from tidewheel.runtime.worker.agenda import Agenda


class Watched(LazySource):
    """A source that notes how far each partition has been read: ``batches`` of them in each epoch."""

    def __init__(self, epochs: int, batches: int = 1, partitions: int = 1) -> None:
        self.epochs = epochs
        self.of_each = batches
        self.number = partitions
        self.was_read: dict[int, int] = {}
        self.closed: list[int] = []

    def count(self, workers: int) -> int:
        return self.number

    def batches(self, partition: int) -> Iterator[tuple[int, list[int]]]:
        try:
            for epoch in range(self.epochs):
                for _ in range(self.of_each):
                    self.was_read[partition] = epoch
                    yield epoch, [partition] * 10
        finally:
            self.closed.append(partition)


def paced(source: Any, ahead: int, kept: list[tw.TimestampToken]) -> tw.Dataflow:
    """Return a dataflow whose source waits for a probe behind an operator that keeps a token for each message."""
    flow = tw.Dataflow("test")
    numbers = flow.source("numbers", source, paced_by="done", epochs_ahead=ahead)
    numbers.unary(hoarding(kept), name="hoarding").probe("done")
    return flow


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("batches", [1, 2])
def test_no_more_epochs_than_that_are_under_way(ahead: int, batches: int) -> None:
    """The next batch is known, so that the epoch before can complete, but it is not sent; nothing else is read."""
    source, kept = Watched(20, batches), list[tw.TimestampToken]()
    with tw.run(paced(source, ahead, kept), engine="local") as job:
        for complete in range(20):
            settle(job)
            assert source.was_read == {0: min(complete + ahead, 19)}
            under_way = {token.time for token in kept}
            assert under_way == set(range(complete, min(complete + ahead, 20)))
            for token in [token for token in kept if token.time == complete]:
                kept.remove(token)
                token.discard()
        job.wait(DEADLINE_S)


@every_spread
@pytest.mark.parametrize("workers", [1, 3])
def test_each_partition_is_paced(workers: int, progress: SpreadName) -> None:
    """On all workers, by a probe that is behind an exchange; everything comes in the end, one epoch after the other."""
    source = Watched(10, partitions=4)
    flow = tw.Dataflow("test")
    numbers = flow.source("numbers", source, paced_by="done")
    numbers.exchange(lambda n: n).unary(build_slow, name="slow").probe("done").capture("results")
    with tw.run(flow, workers=workers, engine="local", config=tw.RuntimeConfig(progress=progress)) as job:
        while job.run_round():  # type: ignore[attr-defined]
            assert max(source.was_read.values(), default=0) - min(source.was_read.values(), default=0) <= 1
        job.wait(DEADLINE_S)
        results = job.captured("results")
    assert sorted((result.time, n) for result in results for n in result.batch) == sorted(
        (epoch, partition) for epoch in range(10) for partition in range(4) for _ in range(10)
    )


def test_a_dataflow_that_needs_more_epochs_is_told() -> None:
    """On the local engine that is an error at once, which names the operator that does not let go."""
    kept: list[tw.TimestampToken] = []
    with tw.run(paced(Watched(20), 2, kept), engine="local") as job:
        with raises(tw.JobError):
            job.probe("done").wait_until(1, DEADLINE_S)
        job.stop()
        while kept:
            kept.pop().discard()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_queue_begins_an_epoch_once_the_one_before_is_complete(workers: int) -> None:
    """An epoch is complete though the next batch waits for it."""
    source: tw.QueueSource[int] = tw.QueueSource(batch_size=1)
    flow = tw.Dataflow("test")
    flow.source("numbers", source, paced_by="done").probe("done").capture("results")
    for number in range(5):
        source.put(number)
    source.close()
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait(DEADLINE_S)
        assert [(one.time, one.batch) for one in job.captured("results")] == [(n, [n]) for n in range(5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs_ahead": 0}, "source 'numbers': epochs_ahead is a whole number, 1 or more, not 0"),
        ({"epochs_ahead": 1.5}, r"epochs_ahead is a whole number, 1 or more, not 1\.5"),
    ],
)
def test_a_wrong_pace_is_refused(options: Any, message: str) -> None:
    """When the dataflow is described; a probe may be named later, so that it is missed when the job runs."""
    flow = tw.Dataflow("test")
    with pytest.raises(tw.GraphError, match=message):
        flow.source("numbers", Watched(1), paced_by="done", **options)
    flow.source("numbers", Watched(9), paced_by="dome").probe("done")
    with raises(tw.JobError):
        tw.run(flow, engine="local").wait(DEADLINE_S)


def test_bytes_in_flight_hold_a_source_back() -> None:
    """Without a probe it is read ahead only as far as the limit allows."""
    source, kept = Watched(10_000), list[tw.TimestampToken]()
    flow = tw.Dataflow("test")
    flow.source("numbers", source).unary(build_slow, name="slow").probe("done")
    with tw.run(flow, engine="local", config=tw.RuntimeConfig(bytes_in_flight=32 << 10)) as job:
        for _ in range(200):
            job.run_round()  # type: ignore[attr-defined]
            taken = job.statistics().operators["slow"].messages_in
            assert source.was_read.get(0, 0) - taken < 100
        assert source.was_read[0] >= 100
    assert not kept


class Pausing(LazySource):
    """A source of two partitions that pause between batches, each as long as it says."""

    def __init__(self, *pauses_s: float) -> None:
        self.pauses_s = pauses_s

    def count(self, workers: int) -> int:
        return len(self.pauses_s)

    def batches(self, partition: int) -> Iterator[tuple[int, list[int]] | tw.Pause]:
        for epoch in range(3):
            yield epoch, [partition]
            yield tw.Pause(self.pauses_s[partition])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_partition_that_pauses_holds_up_no_other(workers: int) -> None:
    """What is there is read at once; who waits for the paused one waits for the clock."""
    with tw.run(flow_of(Pausing(3600, 0, 0.01)), workers=workers, engine="local") as job:
        with pytest.raises(TimeoutError):
            job.wait(timeout_s=0.3)
        found = sorted((result.time, n) for result in job.captured("results") for n in result.batch)
        assert found == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]
        job.stop()


def flow_of(source: Any) -> tw.Dataflow:
    flow = tw.Dataflow("test")
    flow.source("numbers", source).probe("done").capture("results")
    return flow


def test_a_partition_is_not_asked_before_its_pause_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the source is scheduled meanwhile; and one timer is set for that, not one each time."""
    timers: list[float] = []
    set_timer = Agenda.activate_after

    def counted(own: Agenda, operator: int, seconds: float) -> None:
        timers.append(seconds)
        set_timer(own, operator, seconds)

    monkeypatch.setattr(Agenda, "activate_after", counted)
    asked: list[int] = []

    class Slow(LazySource):
        def count(self, workers: int) -> int:
            return 2

        def batches(self, partition: int) -> Iterator[tw.Pause | tuple[int, list[int]]]:
            return self._pauses() if partition == 0 else iter([(epoch, [epoch]) for epoch in range(50)])

        def _pauses(self) -> Iterator[tw.Pause | tuple[int, list[int]]]:
            while True:
                asked.append(0)
                yield 100, []
                yield tw.Pause(3600)

    flow = tw.Dataflow("test")
    flow.source("numbers", Slow(), paced_by="done").map(str).probe("done")
    with tw.run(flow, engine="local") as job:
        job.probe("done").wait_until(50, DEADLINE_S)
        settle(job)
        job.stop()
    assert (len(asked), len(timers)) == (1, 1)


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_pause_that_is_none_is_refused(seconds: float) -> None:
    """Where it is made, which is in the source."""
    with raises(ValueError):
        tw.Pause(seconds)


def test_what_a_source_has_open_is_closed_when_the_job_ends() -> None:
    """Whether it was read to its end or not, and if the job fails."""
    for source, epochs in ((Watched(3, partitions=2), 3), (Watched(10**9, partitions=2), 5)):
        with tw.run(flow_of(source), workers=2, engine="local") as job:
            job.probe("done").wait_until(epochs, DEADLINE_S)
            job.stop()
        assert sorted(source.closed) == [0, 1]
    source = Watched(10**9)
    flow = flow_of(source)
    flow.source("zeros", tw.RecordSource([0])).map(lambda n: 1 // n)
    with raises(tw.JobError):
        tw.run(flow, engine="local").wait(DEADLINE_S)
    assert source.closed == [0]
