"""The share of a source that one worker reads, before and after a change of the number of workers."""

from collections.abc import Iterator
from random import Random
from typing import Any

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.snapshot_group import SnapshotGroup
from tidewheel.operators.sources.partitioned_source import Pause
from tidewheel.operators.sources.record_source import Ticks


class Places:
    """A source that says as which worker, and near which nodes, each of its partitions was opened."""

    def __init__(self, partitions: int = 1) -> None:
        self.partitions_of_each = partitions

    def partitions(self, worker: int, workers: int) -> list[Iterator[tuple[int, list[Any]]]]:
        """Return the partitions of a worker, without nodes."""
        return self.partitions_near(worker, [""] * workers)

    def partitions_near(self, worker: int, nodes: Any) -> list[Iterator[tuple[int, list[Any]]]]:
        """Return the partitions of a worker."""
        return [
            iter([(time, [(worker, tuple(nodes), number, time)]) for time in range(4)])
            for number in range(self.partitions_of_each)
        ]


def test_a_source_stays_divided_as_it_was() -> None:
    """Other workers open the partitions of the workers that there were, near the nodes where these were."""
    flow = tw.Dataflow("test")
    flow.source("source", Places(2)).capture("results")
    expected = [(time, [(worker, ("a", "b"), n, time)]) for worker in range(2) for n in range(2) for time in range(4)]
    for workers in (1, 3):
        group = SnapshotGroup(flow, 2, Random(workers), nodes=["a", "b"])
        for _ in range(3):
            group.run_for(2)
            group.take_snapshot()
            group = group.gone_on(workers)
        group.finish()
        assert sorted(group.captured("results")) == sorted(expected)


def test_a_source_with_other_partitions_is_refused() -> None:
    """What was sent of each partition means nothing then; the error says how many there are and were."""
    flow, changed = tw.Dataflow("test"), tw.Dataflow("test")
    flow.source("source", Places(2)).capture("results")
    changed.source("source", Places(3)).capture("results")
    group = SnapshotGroup(flow, 1, Random(0))
    group.take_snapshot()
    with raises(tw.JobError):
        group.gone_on(1, changed)


def test_ticks_go_on_without_waiting_for_those_before() -> None:
    """A source of ticks that has sent many does not wait for their time again, but for the next one."""
    ticks = Ticks(3600.0, None, 2000)
    assert next(ticks) == tw.Fetched([1000], 2001, 1000)
    assert next(ticks) == tw.Fetched([], 2002, 1001)
    pause: Any = next(ticks)
    assert isinstance(pause, Pause)
    assert 0 < pause.seconds <= 3600
