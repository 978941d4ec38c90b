"""The source operator: partitions, their times, and what a wrong one leads to."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import KINDS, Feed, Kind, bags, expected, feeds, operator_settings
from tests.kit.operators.lazy_source import LazySource
from tests.kit.runtime.snapshot_group import SnapshotGroup
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.worker.worker_core import WorkerCore


def job_of(source: Any, workers: int = 1) -> tw.types.Job:
    """Return a running job that captures what ``source`` has."""
    flow = tw.Dataflow("test")
    flow.source("table", source).probe("read").capture("results")
    return tw.run(flow, workers=workers, engine="local")


@operator_settings()
@given(st.lists(feeds(), max_size=5), st.sampled_from(KINDS), st.integers(1, 3))
def test_every_partition_is_read_once(partitions: list[Feed], kind: Kind, workers: int) -> None:
    """Any number of partitions on any number of workers give all their records, each at its time."""
    source = tw.IterableSource([[(time, kind.make(numbers)) for time, numbers in feed] for feed in partitions])
    with job_of(source, workers) as job:
        job.wait()
        found = bags(job.captured("results"), kind)
    merged = Counter((time, number) for feed in partitions for time, numbers in feed for number in numbers)
    assert Counter({(time, number): count for time, bag in found.items() for number, count in bag.items()}) == merged


@operator_settings()
@given(feeds())
def test_a_partition_keeps_its_order(feed: Feed) -> None:
    """Batches of one partition come in its own order."""
    with job_of(tw.IterableSource([[(time, numbers) for time, numbers in feed]])) as job:
        job.wait()
        results = [(result.time, result.batch) for result in job.captured("results")]
    assert results == [(time, numbers) for time, numbers in feed if numbers]
    assert set(dict(results)) == set(expected(feed))


@pytest.mark.parametrize("partitions", [[], [[]], [[], [], [], []]])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_source_without_anything_just_ends(partitions: list[list[Any]], workers: int) -> None:
    """No partitions, or empty ones, complete every time at once."""
    with job_of(tw.IterableSource(partitions), workers) as job:
        job.wait()
        assert job.captured("results") == []


class Watched(LazySource):
    """A source that is endless, and notes how far each partition has been read; each worker reads a slow and a fast."""

    def __init__(self) -> None:
        self.was_read: dict[int, int] = {}

    def count(self, workers: int) -> int:
        return 2 * workers

    def batches(self, partition: int) -> Iterator[tuple[int, list[int]]]:
        for number in count():
            self.was_read[partition] = number * (1 + partition // 2)
            yield self.was_read[partition], [partition]


class Placed(LazySource):
    """One that wants to know where the workers are."""

    def __init__(self, partitions: int = 0) -> None:
        self.number = partitions
        self.told: list[list[str]] = []

    def count(self, workers: int) -> int:
        return self.number

    def on_nodes(self, nodes: Sequence[str]) -> Self:
        self.told.append(list(nodes))
        return self

    def batches(self, partition: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        return ((time, [(partition, time)]) for time in range(4))


def test_a_source_hears_where_the_workers_are() -> None:
    """One that has records at some nodes is told the nodes of all workers."""
    source, flow = Placed(), tw.Dataflow("placed")
    flow.source("table", source)
    WorkerCore(description_of(flow).plan(), 1, 2, nodes=["a", "b"])
    assert source.told == [["a", "b"]]


def test_in_one_process_all_workers_are_in_the_same_place() -> None:
    """The local engine says no node, so nothing is nearer to one worker than to another."""
    source = Placed()
    with job_of(source, workers=3) as job:
        job.wait()
    assert source.told == [["", "", ""]] * 3


def test_a_source_stays_divided_as_it_was() -> None:
    """Other workers read the partitions of the workers that there were, each batch once."""
    flow = tw.Dataflow("test")
    flow.source("source", Placed(4)).capture("results")
    for workers in (1, 3):
        group = SnapshotGroup(flow, 2, Random(workers))
        for _ in range(3):
            group.run_for(2)
            group.take_snapshot()
            group = group.gone_on(workers)
        group.finish()
        assert sorted(group.captured("results")) == [(time, [(n, time)]) for time in range(4) for n in range(4)]


def test_a_source_with_other_partitions_is_refused() -> None:
    """A position means nothing in another partition; the error says how many there are and were."""
    flow, changed = tw.Dataflow("test"), tw.Dataflow("test")
    flow.source("source", Placed(2)).capture("results")
    changed.source("source", Placed(3)).capture("results")
    group = SnapshotGroup(flow, 1, Random(0))
    group.take_snapshot()
    with raises(tw.JobError):
        group.gone_on(1, changed)


def test_a_time_completes_when_every_partition_has_passed_it() -> None:
    """The frontier is that of the slowest partition, and partitions are read in turn, none ahead by a batch or more."""
    source = Watched()
    with job_of(source, 2) as job:
        job.probe("read").wait_until(4)
        times = Counter(source.was_read.values())
        job.stop()
    slow, fast = min(times), max(times)
    assert times == Counter({slow: 2, fast: 2})
    assert fast == 2 * slow
    assert slow >= 4


def test_a_partition_that_goes_backwards_fails_the_job() -> None:
    """Earlier times may be complete, so the error names the source, the worker and both times."""
    message = r"'table' failed on worker 1: .*TokenError: operator 'table' cannot downgrade .* time 3 to 1: "
    with (
        pytest.raises(tw.JobError, match=message) as caught,
        job_of(tw.IterableSource([[(0, [0])], [(0, [1]), (3, [2]), (1, [3])]]), workers=2) as job,
    ):
        job.wait()
    assert (caught.value.operator, caught.value.worker) == ("table", 1)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (
            ("0", [1]),
            r"TokenError: .*'table'.* to '0': that is no time of this scope, where times are whole numbers from 0",
        ),
        ((0, (1, 2)), "TypeError: a batch is a list"),
        ((0, 1), "TypeError: a batch is a list"),
        (7, r"TypeError: a partition of a source yields \(time, batch\), or Pause\(seconds\) while .* not 7"),
        (None, r"TypeError: a partition of a source yields \(time, batch\), or Pause\(seconds\) while .* not None"),
        ((0, [1], 2), r"TypeError: a partition of a source yields \(time, batch\).* not \(0, \[1\], 2\)"),
    ],
)
def test_what_is_no_time_or_no_batch_fails_the_job(batch: Any, message: str) -> None:
    """A source that yields something else is told so, by name."""
    with (
        pytest.raises(tw.JobError, match=rf"operator 'table' failed on worker 0.*{message}"),
        job_of(tw.IterableSource([[(0, [9]), batch, (1, [2])]])) as job,
    ):
        job.wait()


@pytest.mark.parametrize("partitions", [[1, 2, 3], [[1, 2]], [["ab", "cd"]], 7, [[{"n": 1}]]], ids=repr)
def test_what_are_no_partitions_is_refused(partitions: Any) -> None:
    """Where it is given, with what is meant and what else there is."""
    with raises(tw.GraphError):
        tw.IterableSource(partitions)


def test_a_source_that_raises_fails_the_job() -> None:
    """Whether it fails when it is opened or later, the error names it and shows its traceback."""

    class Broken(LazySource):
        def __init__(self, when_opened: bool) -> None:
            self.when_opened = when_opened

        def count(self, workers: int) -> int:
            if self.when_opened:
                raise OSError("no such bucket")
            return 1

        def batches(self, partition: int) -> Iterator[Any]:
            yield 0, [1]
            raise OSError("connection lost")

    with raises(tw.JobError) as caught:
        job_of(Broken(when_opened=True))
    assert "in count" in caught.value.traceback_text
    with (
        raises(tw.JobError) as caught,
        job_of(Broken(when_opened=False)) as job,
    ):
        job.wait()
    assert "in batches" in caught.value.traceback_text


@pytest.mark.parametrize("given", [[1], tw.RecordSource], ids=["list", "class"])
def test_what_is_no_source_is_refused(given: Any) -> None:
    """A list of batches is no source; the error says what is one, when the dataflow is described."""
    with raises(tw.GraphError):
        tw.Dataflow("test").source("table", given)
