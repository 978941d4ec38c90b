"""The interfaces of sources."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from tidewheel.progress import Time
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.worker.operator_context import OperatorContext

Record_co = TypeVar("Record_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Pause:
    """Yielded by a partition that has no batch now; it is asked again after so many seconds."""

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise ValueError(f"a pause lasts some seconds, 0 or more, not {self.seconds!r}")


@runtime_checkable
class PartitionedSource(Protocol[Record_co]):
    """A source in partitions, each read in its own order. A position is a number of batches.

    That is enough if the records are always the same. Otherwise write a `tidewheel.Source`, which chooses its own
    positions and is read beside the worker's loop.

    The source is pickled to every worker, where it opens files and connections. The annotation of its batches tells the
    type of the records: ``list[str]``, or `Batch` if the type is open, as for Arrow tables.

    A source without end has an attribute ``endless = True``. Then the end of the job's ``with`` block raises, as for an
    open input, unless the program has called `Job.stop`.

    >>> from tidewheel import Dataflow, run
    >>> class Days:
    ...     def partitions(self, worker, workers):
    ...         return [self.temperatures(town) for town in ("Oslo", "Rome")[worker::workers]]
    ...
    ...     def temperatures(self, town):
    ...         for day in range(2):
    ...             yield day, [(town, day)]
    >>> flow = Dataflow("temperatures")
    >>> _ = flow.source("days", Days()).capture("days")
    >>> with run(flow, workers=2, engine="local") as job:
    ...     job.wait()
    ...     sorted((captured.time, captured.batch) for captured in job.captured("days"))
    [(0, [('Oslo', 0)]), (0, [('Rome', 0)]), (1, [('Oslo', 1)]), (1, [('Rome', 1)])]
    """

    def partitions(self, worker: int, workers: int) -> Sequence[Iterator[tuple[Time, Iterable[Record_co]] | Pause]]:
        """Open this worker's share: one iterator for each partition, of (time, batch).

        The times of one partition must not go back. Each partition's token follows its times, so a time is complete
        when every partition has passed it or ended. An empty batch is not sent, but moves the partition's time forward.
        After a `Pause` other partitions are read.

        The state of a source is the number of batches that each partition has sent. A restored job opens the same
        partitions, for the number of workers with which it began, and skips these batches. So each partition must yield
        the same batches again. If the iterator has a method ``pass_over(batches)``, that skips them instead.
        """


@runtime_checkable
class PlacedSource(PartitionedSource[Record_co], Protocol[Record_co]):
    """A `PartitionedSource` that knows which nodes of a Ray cluster have its records."""

    def partitions_near(
        self, worker: int, nodes: Sequence[str]
    ) -> Sequence[Iterator[tuple[Time, Iterable[Record_co]] | Pause]]:
        """Open this worker's share as `partitions` does, but prefer records on its node.

        ``nodes`` has the node of each worker, and is the same in the call on each worker.
        """


class OperatorSource(ABC, Generic[Record_co]):
    """A source with an operator of its own, which holds tokens as it likes.

    Attributes:
        endless: whether the source has no end, as for `PartitionedSource`.
    """

    endless: bool = False

    @abstractmethod
    def build(self, context: OperatorContext) -> Schedule:
        """Return this worker's ``schedule(output)``; the source was pickled to the worker."""
