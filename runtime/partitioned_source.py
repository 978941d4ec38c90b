"""What ``flow.source`` reads from."""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from tidewheel.progress import Time
from tidewheel.runtime.batches import Batch


@runtime_checkable
class PartitionedSource(Protocol):
    """Records from outside, in partitions that are read each in its own order.

    The source is pickled to every worker; it opens there what it needs.
    """

    def partitions(self, worker: int, workers: int) -> Sequence[Iterator[tuple[Time, Batch]]]:
        """Open this worker's share: one iterator for each partition, of (time, batch).

        The times of one partition must not go backwards. Each partition holds a token of its own that follows its
        times, so a time completes when every partition has passed it or ended.
        """
