"""The source operator: reads partitions, a batch of each in turn, each with a token that follows its times."""

from collections.abc import Iterator
from typing import Any

from tidewheel.progress import Time
from tidewheel.runtime.batches import Batch
from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.partitioned_source import PartitionedSource
from tidewheel.runtime.plan import Build, Schedule
from tidewheel.runtime.ports import OutputPort
from tidewheel.runtime.tokens import TimestampToken


class _Partition:
    __slots__ = ("_batches", "_token")

    def __init__(self, batches: Iterator[tuple[Time, Batch]], token: TimestampToken) -> None:
        self._batches = batches
        self._token = token

    def send_next(self, output: OutputPort) -> bool:
        """Send the next batch; discard the token and return False if there is none."""
        following = next(self._batches, None)
        if following is None:
            self._token.discard()
            return False
        time, batch = following
        self._token.downgrade(time)
        output.send(self._token, batch)
        return True


def build_source(source: PartitionedSource) -> Build:
    """Return the build function of an operator that sends what ``source`` has, one batch a partition and step."""

    def build(context: OperatorContext) -> Schedule:
        with context.token() as token:
            opened = source.partitions(context.worker, context.workers)
            partitions = [_Partition(iter(batches), token.clone()) for batches in opened]

        def schedule(output: OutputPort) -> None:
            partitions[:] = [partition for partition in partitions if partition.send_next(output)]
            if partitions:
                context.activate()

        return schedule

    return build


class IterableSource:
    """A source over batches at hand: worker ``i`` reads partitions ``i``, ``i + workers`` and so on.

    >>> from tidewheel import Dataflow, run
    >>> flow = Dataflow("squares")
    >>> _ = flow.source("numbers", IterableSource([[(0, [1, 2]), (1, [3])]])).map(lambda n: n * n).capture("squares")
    >>> with run(flow, engine="local") as job:
    ...     job.wait()
    ...     [(batch.time, batch.batch) for batch in job.captured("squares")]
    [(0, [1, 4]), (1, [9])]
    """

    def __init__(self, partitions: list[list[tuple[Any, Batch]]]) -> None:
        self._partitions = partitions

    def partitions(self, worker: int, workers: int) -> list[Iterator[tuple[Time, Batch]]]:
        """Return this worker's partitions."""
        return [iter(partition) for partition in self._partitions[worker::workers]]
