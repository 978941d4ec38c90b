"""A dataflow that only keeps its source, and how to read one as workers do."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from tidewheel.operators.sources.contract import Pause
from tidewheel.spark_bridge.dataframe_source import DataFrameSource


class KeepsSource:
    """Stands in for a dataflow: what ``from_spark`` adds to it is what it returns."""

    def source(self, _name: str, source: DataFrameSource, /) -> DataFrameSource:
        """Return ``source`` itself in place of a stream."""
        return source


def read(source: DataFrameSource, workers: int = 2) -> list[list[tuple[Any, Any]]]:
    """Return for each worker what its partition yields, in order."""
    return [list(arriving(part_of(source, worker, workers))) for worker in range(workers)]


def part_of(source: DataFrameSource, worker: int, workers: int) -> Iterator[Any]:
    """Return what a worker reads of a source, from its beginning."""
    return source.open(source.partitions_of(workers)[worker], None)


def arriving(partition: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield what a partition yields, and wait where it pauses."""
    pause = threading.Event()
    for item in partition:
        if isinstance(item, Pause):
            pause.wait(item.seconds)
        else:
            yield item.epoch, item.batch


def messages(source: DataFrameSource, workers: int = 2) -> list[SimpleNamespace]:
    """Return all that the workers read, as messages for ``to_spark``."""
    return [SimpleNamespace(time=time, batch=batch) for part in read(source, workers) for time, batch in part]
