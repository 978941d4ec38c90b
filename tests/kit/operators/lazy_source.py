"""Sources of tests that count what is read: a worker reads them on its own thread, and no batch before it wants one.

A `tidewheel.Source` is read on other threads, some megabytes ahead. So tests of waiting read these.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import tidewheel as tw
from tidewheel.operators.sources.contract import Partition
from tidewheel.operators.sources.inline_source import InlineSource
from tidewheel.progress import Time


class LazySource(InlineSource[Any]):
    """A source whose partitions have numbers, and always the same batches; a position is a number of batches."""

    def count(self, workers: int) -> int:
        """Return the number of partitions for so many workers."""
        return 1

    @abstractmethod
    def batches(self, partition: int) -> Iterator[tuple[Time, Any] | tw.Pause]:
        """Yield (time, batch) of a partition, and pauses."""

    def partitions_of(self, workers: int) -> list[Partition]:
        return list(range(self.count(workers)))

    def open(self, partition: Partition, position: int | None) -> Iterator[tw.Fetched[Any] | tw.Pause]:
        number = 0
        for given in self.batches(int(partition)):
            if isinstance(given, tw.Pause):
                yield given
                continue
            number += 1
            if position is None or number > position:
                yield tw.Fetched(given[1], number, given[0])
