"""The sources that ``flow.source`` reads from."""

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
    """A partition yields it when it has no batch now: it is asked again after so many seconds, and not before."""

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise ValueError(f"a pause lasts some seconds, 0 or more, not {self.seconds!r}")


@runtime_checkable
class PartitionedSource(Protocol[Record_co]):
    """Records from outside, in partitions that are read each in its own order.

    The source is pickled to every worker, and opens there what it needs. The annotation of its batches tells the type
    of the stream's records: ``list[str]``, or `Batch` where that is open, as for Arrow tables.

    A source without end has an attribute ``endless = True``. Its job never completes. So the end of the job's ``with``
    block raises, as for an open input, unless the program has called `Job.stop`.

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

        The times of one partition must not go backwards. Each partition holds a token of its own that follows its
        times, so a time completes when every partition has passed it or ended. An empty batch is not sent, but takes
        the partition's time forward. A `Pause` says that there is nothing yet; other partitions are read meanwhile.

        The state of a source is the number of batches that each partition has sent. A job that goes on from a snapshot
        opens the partitions for the numbers of workers with which it began, on whichever worker. It skips what they
        have sent, so a partition that is opened again has to yield the same. An iterator with a method
        ``pass_over(batches)`` is told instead how many batches it has to leave out.
        """


@runtime_checkable
class PlacedSource(PartitionedSource[Record_co], Protocol[Record_co]):
    """A `PartitionedSource` that knows on which nodes of a Ray cluster its records are."""

    def partitions_near(
        self, worker: int, nodes: Sequence[str]
    ) -> Sequence[Iterator[tuple[Time, Iterable[Record_co]] | Pause]]:
        """Open this worker's share as `partitions` does, and rather of what is on its node.

        ``nodes`` are those of all workers, as `OperatorContext` has them; each worker is given the same.
        """


class OperatorSource(ABC, Generic[Record_co]):
    """Records from outside by an operator of the source's own, which may hold tokens as it likes.

    Attributes:
        endless: whether the source has no end, as for `PartitionedSource`.
    """

    endless: bool = False

    @abstractmethod
    def build(self, context: OperatorContext) -> Schedule:
        """Return this worker's ``schedule(output)``; the source was pickled to the worker."""
