"""The source operator: partitions, their times, and what a wrong one leads to."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import KINDS, Feed, Kind, bags, expected, feeds, operator_settings
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


@dataclass
class Watched:
    """A source that is endless, and notes how far each partition has been read."""

    workers: int
    read: dict[str, int] = field(default_factory=dict)
    opened: list[tuple[int, int]] = field(default_factory=list)

    def partitions(self, worker: int, workers: int) -> list[Iterator[tuple[int, list[str]]]]:
        self.opened.append((worker, workers))
        return [self._batches(f"{worker}.{partition}", partition + 1) for partition in range(2)]

    def _batches(self, name: str, step: int) -> Iterator[tuple[int, list[str]]]:
        time = 0
        while True:
            self.read[name] = time
            yield time, [name]
            time += step


class Placed(Watched):
    """One that wants to know where the workers are."""

    told: tuple[int, list[str]] | None = None

    def partitions_near(self, worker: int, nodes: Sequence[str]) -> list[Iterator[tuple[int, list[str]]]]:
        self.told = (worker, list(nodes))
        return []


def test_a_source_hears_where_the_workers_are() -> None:
    """One that has records at some nodes is told the nodes of all workers instead of their number."""
    source, flow = Placed(2), tw.Dataflow("placed")
    flow.source("table", source)
    WorkerCore(description_of(flow).plan(), 1, 2, nodes=["a", "b"])
    assert source.told == (1, ["a", "b"])
    assert not source.opened


def test_in_one_process_all_workers_are_in_the_same_place() -> None:
    """The local engine says no node, so nothing is nearer to one worker than to another."""
    source = Placed(3)
    with job_of(source, workers=3) as job:
        job.wait()
    assert source.told == (2, ["", "", ""])


def test_a_time_completes_when_every_partition_has_passed_it() -> None:
    """The frontier is that of the slowest partition, and partitions are read in turn, none ahead by a batch or more."""
    source = Watched(2)
    with job_of(source, 2) as job:
        job.probe("read").wait_until(4)
        times = Counter(source.read.values())
        job.stop()
    assert source.opened == [(0, 2), (1, 2)]
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

    class Broken:
        def __init__(self, when_opened: bool) -> None:
            self.when_opened = when_opened

        def partitions(self, worker: int, workers: int) -> list[Iterator[Any]]:
            if self.when_opened:
                raise OSError("no such bucket")
            return [self.batches()]

        def batches(self) -> Iterator[Any]:
            yield 0, [1]
            raise OSError("connection lost")

    with raises(tw.JobError) as caught:
        job_of(Broken(when_opened=True))
    assert "in partitions" in caught.value.traceback_text
    with (
        raises(tw.JobError) as caught,
        job_of(Broken(when_opened=False)) as job,
    ):
        job.wait()
    assert "in batches" in caught.value.traceback_text


def test_what_has_no_partitions_is_refused() -> None:
    """A list of batches is no source; the error says what one has, when the dataflow is described."""
    with raises(tw.GraphError):
        tw.Dataflow("test").source("table", [1])  # type: ignore[arg-type]
