"""The contract of sources: partitions, each read from a position that snapshots keep.

A partition is a file, a partition of a topic, a queue, or a replication slot. Its position is whatever the external
system needs to continue from there: an offset, a place in a log, a version. A snapshot has the position and the effects
of the records before it; tidewheel never interprets the position. Invariants:

- A partition is open on one worker at a time. It is opened at the position after the last of its batches that the
  dataflow has.
- A position is *saved* only when no later run can ask for an earlier one: a durable snapshot has it or, in a job
  without snapshots, all records before it have been processed. Saved positions of one partition never go back.
- The methods that list, read and save run on other threads than the worker's loop.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction, isgeneratorfunction, signature
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from tidewheel.batches.batches import Batch
from tidewheel.host.retry import Retry
from tidewheel.progress import GraphError, Time
from tidewheel.transport.frames import unpicklable

if TYPE_CHECKING:
    from tidewheel.runtime.worker.operator_context import OperatorContext

Record_co = TypeVar("Record_co", covariant=True)

Partition: TypeAlias = str | int
"""The name of a partition, unique in its source."""

Unit: TypeAlias = Literal["records", "bytes", "seconds"]
"""The unit of a lag."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A partition without a batch yields this; the worker asks it again after so many seconds."""

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise ValueError(f"a pause lasts some seconds, 0 or more, not {self.seconds!r}")


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that a source has read and cannot convert to a record, such as a message in another format.

    It goes to the ``dead_letters`` of the source; without them, the error fails the job.

    Attributes:
        record: the bytes or text read.
        error: the reason.
        place: the place in the partition, such as ``"offset 17"``.
    """

    record: Any
    error: Exception
    place: str


@dataclass(frozen=True, slots=True)
class Fetched(Generic[Record_co]):
    """A batch of a partition, as `Source.open` yields it.

    `(batch, position)` is short for ``Fetched(batch, position)``.

    Attributes:
        batch: the records; an empty batch only moves the position.
        position: the position after these records. It must be picklable; do not change it afterwards.
        epoch: the epoch of the records, if the source `says_epochs`.
        frontier: the least times of this batch and of later batches, if these may be before ``epoch``; by default
            ``epoch``.
        is_whole: False in the middle of a unit, such as a transaction. The rest of the unit is in the same epoch, so no
            epoch ends after this batch.
        refused: a `Refused` for each item that could not be converted to a record.
    """

    batch: Iterable[Record_co] | Any
    position: Any
    epoch: Time = None
    is_whole: bool = True
    frontier: tuple[Time, ...] | None = None
    refused: Sequence[Any] = ()


class Source(ABC, Generic[Record_co]):
    r"""A source of records in partitions, for `Dataflow.source`.

    The source is pickled and sent to each worker, and connects there. Its methods are called on other threads than the
    worker's loop, several at a time, so they may block. After an error of ``retry.on`` there is another attempt; a
    partition continues from its last position. Any other error, or an error of the last attempt, fails the job.
    `tidewheel.testing.check_source` checks a source.

    Attributes:
        look_every_s: the seconds between calls of `partitions`. None calls it once, and the source ends with its
            partitions.
        endless: whether the source never ends; a source with ``look_every_s`` never does. Leaving the job's ``with``
            block then raises an error, unless the program has called `Job.stop`.
        at_a_time: how many partitions a worker reads at a time, in the order in which they were found; None for all. It
            limits the threads of a source whose partitions end, such as files.
        says_epochs: whether each `Fetched` has an epoch. The epochs of a partition must not decrease, and a new
            partition begins at the latest epoch that any partition has reached.
        retry: the attempts after errors of the external system. After each batch, counting begins again.

    >>> from pathlib import Path
    >>> import tempfile
    >>> import tidewheel as tw
    >>> class Lines(tw.Source):
    ...     def __init__(self, folder):
    ...         self.folder = folder
    ...
    ...     def partitions(self):
    ...         return sorted(path.name for path in Path(self.folder).iterdir())
    ...
    ...     def open(self, partition, position):
    ...         with Path(self.folder, partition).open() as file:
    ...             file.seek(position or 0)
    ...             while line := file.readline():
    ...                 yield [line.strip()], file.tell()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "tides").write_text("high\nlow\n")
    ...     flow = tw.Dataflow("tides")
    ...     _ = flow.source("lines", Lines(folder)).capture("lines")
    ...     with tw.run(flow, engine="local") as job:
    ...         job.wait()
    ...         job.captured("lines")
    [Captured(time=0, batch=['high']), Captured(time=1, batch=['low'])]
    """

    look_every_s: float | None = None
    endless: bool = False
    at_a_time: int | None = None
    says_epochs: bool = False
    retry: Retry = Retry(within_s=60.0, first_pause_s=0.1, longest_pause_s=5.0, jitter=0.5, on=OSError)
    _may_refuse: bool = True
    """Whether the source may yield a `Refused`."""

    @abstractmethod
    def partitions(self) -> Iterable[Partition]:
        """Return the names of the partitions that exist now, strings or integers.

        Worker 0 calls this, and assigns new partitions to the workers with the fewest. A partition that is no longer
        listed is read until its iterator ends. Then its name may be used for a new partition.
        """

    def resumed(self, partitions: Collection[Partition]) -> None:
        """Receive the partitions that were assigned before the snapshot from which the job continues.

        Worker 0 calls this before its first call of `partitions`. With it, a source can detect replaced partitions.
        """

    @abstractmethod
    def open(self, partition: Partition, position: Any) -> Iterator[tuple[Any, Any] | Fetched[Record_co] | Pause]:
        """Read a partition from a position that it has yielded; None for its beginning, or the position saved last.

        Yield `(batch, position)` or `Fetched`. While there are no records, yield `Pause` or an empty batch at least
        once a second, so that the partition can be closed. If the iterator has a method ``close``, it is called when
        the partition is closed, ends or fails.
        """

    def saved(self, partition: Partition, position: Any) -> None:
        """Save a position: commit an offset, acknowledge, move a slot. No run will open the partition before it.

        A durable snapshot has the position or, in a job without snapshots, its epoch has been processed. Not every
        position is saved, but the latest always is. After a crash another worker may save the same position again,
        before or after it opens the partition.
        """

    def behind(self, partition: Partition, position: Any) -> Mapping[Unit, float] | None:
        """Return how far a position is behind the present end of its open partition, such as ``{"records": 12}``.

        It may be in records, bytes or seconds; None if it is unknown. It is called while the live page, the metrics or
        another program follows the job, for one partition after the other, on a thread of its own. The position is that
        after the last batch that the dataflow has; None before the first. An error is logged, and the lag is then
        unknown.
        """
        return None

    def close(self) -> None:
        """Close the source's connections on this worker, at the end of the job."""

    def then(self, live: "Source[Record_co]") -> "Source[Record_co]":
        r"""Return a source that reads this one to its end, such as files, and then another one, such as a topic.

        The records of both are in one stream; those of ``live`` are in no earlier epoch. So that no record is missing
        or twice, let ``live`` begin behind the last record of this source, as with ``start=`` of `KafkaSource`.

        In errors and log lines a partition has its name after ``history/`` or ``live/``, a number after ``history#`` or
        ``live#``.

        Args:
            live: the source that is read when all partitions of this one have ended.

        Raises:
            GraphError: this source has no end, or one of them says its epochs itself.

        >>> from pathlib import Path
        >>> import tempfile
        >>> import tidewheel as tw
        >>> from tidewheel.testing import FakeBroker
        >>> broker = FakeBroker(1)
        >>> broker.send(0, "springs")
        >>> broker.end()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "tides.txt").write_text("high\nlow\n")
        ...     flow = tw.Dataflow("tides")
        ...     _ = flow.source("tides", tw.FileSource(folder).then(broker.source())).capture("tides")
        ...     with tw.run(flow, engine="local") as job:
        ...         job.wait()
        ...         [captured.batch for captured in job.captured("tides")]
        [['high', 'low'], ['springs']]
        """
        from tidewheel.operators.sources.hybrid_source import HybridSource

        return HybridSource(self, live)

    def _on_worker(self, context: "OperatorContext", *, reads: bool) -> "Source[Record_co]":
        """Return the source for the operator that lists the partitions on a worker, or that ``reads`` them."""
        return self

    def _owner(self, partition: Partition) -> "Source[Record_co]":
        """Return the source whose ``at_a_time`` and ``retry`` hold for a partition."""
        return self

    def _parts(self) -> "tuple[Source[Any], ...]":
        """Return the sources that this one is made of."""
        return ()

    def _turn(self, partition: Partition) -> tuple[int, ...]:
        """Return the turn of a partition, which is dealt when all of earlier turns have ended."""
        return ()


def saves(source: Source[Any]) -> bool:
    """Tell whether a source has a method for saved positions."""
    return type(source).saved is not Source.saved or "saved" in vars(source)


def tells_lag(source: Source[Any]) -> bool:
    """Tell whether a source has a method for the lag of its partitions."""
    return type(source).behind is not Source.behind or "behind" in vars(source)


def as_fetched(source: Source[Any], partition: Partition, yielded: object) -> Fetched[Any]:
    """Convert an item of `Source.open` to `Fetched`; raise TypeError if it has another form."""
    said = f"{type(source).__qualname__}.open({partition!r}, ...)"
    if isinstance(yielded, Fetched):
        found: Fetched[Any] = yielded
    elif isinstance(yielded, tuple) and len(yielded) == 2:
        found = Fetched(*yielded)
    else:
        raise TypeError(f"{said} yields (batch, position), Fetched, or Pause(seconds), not {yielded!r:.200}")
    if found.position is None:
        raise TypeError(
            f"{said} yields the position None, at which a partition begins: after a crash it would be read again. "
            "Yield the position behind the batch, also behind the last one"
        )
    if source.says_epochs and found.epoch is None:
        raise TypeError(f"{said} yields Fetched(batch, position, epoch=...), as its source says epochs; this has none")
    if not source.says_epochs and found.epoch is not None:
        raise TypeError(f"{said} yields epoch={found.epoch!r}, and its source does not have says_epochs = True")
    return found


def batch_of(fetched: Fetched[Any]) -> Batch:
    """Return the records as a batch; an iterable that is not a list, Arrow or NumPy becomes a list."""
    batch = fetched.batch
    is_batch = isinstance(batch, list) or hasattr(batch, "schema") or hasattr(batch, "dtype")
    return batch if is_batch else list(batch)


def check_source_object(name: str, source: Source[Any]) -> None:
    """Raise GraphError if a source cannot be pickled, or a method is async or has other parameters."""
    for one in source._parts():
        check_source_object(name, one)
    kind = type(source).__qualname__
    of_partition = ("partition", None)
    for method_name, given in (("partitions", ()), *((name, of_partition) for name in ("open", "saved", "behind"))):
        method, called = getattr(source, method_name), f"{kind}.{method_name}"
        if iscoroutinefunction(method) or (method_name in ("saved", "behind") and isgeneratorfunction(method)):
            raise GraphError(
                f"source {name!r}: {called} is async or yields, and nothing awaits it. Write it with def; it runs on a "
                "thread of its own and may block"
            )
        try:
            signature(method).bind(*given)
        except TypeError as error:
            takes = ", ".join(("partition", "position")[: len(given)])
            raise GraphError(f"source {name!r}: {called} is called with ({takes}), and cannot be: {error}") from None
    if (reason := unpicklable(source)) is not None:
        raise GraphError(
            f"source {name!r}: each worker receives a copy of the {kind}, which cannot be pickled: {reason}. Keep what "
            "it needs to connect, such as an address, and connect in open()"
        )
    if source.look_every_s is not None and not source.look_every_s > 0:
        raise GraphError(f"source {name!r}: look_every_s is a number of seconds above 0, not {source.look_every_s!r}")
    if source.at_a_time is not None and not source.at_a_time >= 1:
        raise GraphError(f"source {name!r}: at_a_time is a number above 0, not {source.at_a_time!r}")
