"""Sources of records in memory, and of ticks."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from reprlib import repr as shortened
from typing import Any, TypeAlias, TypeVar

from tidewheel.batches.batches import Batch, is_arrow, is_numpy, length, take_slice
from tidewheel.operators.base.stream_base import check_positive
from tidewheel.operators.sources.contract import Fetched, Partition, Pause
from tidewheel.operators.sources.inline_source import InlineSource, share_names, share_of
from tidewheel.progress import GraphError, Time

Record = TypeVar("Record")
Record_co = TypeVar("Record_co", covariant=True)

Records: TypeAlias = Iterable[Record] | Callable[[int, int], Iterable[Record]]
"""Records, or a function of (worker, workers) that returns those of one worker."""


class IterableSource(InlineSource[Record_co]):
    """A source of given batches: worker ``i`` reads partitions ``i``, ``i + workers`` and so on.

    Args:
        partitions: for each partition a list of (time, batch), in order of times.

    Raises:
        GraphError: ``partitions`` has another form.

    >>> from tidewheel import Dataflow, run
    >>> flow = Dataflow("squares")
    >>> _ = flow.source("numbers", IterableSource([[(0, [1, 2]), (1, [3])]])).map(lambda n: n * n).capture("squares")
    >>> with run(flow, engine="local") as job:
    ...     job.wait()
    ...     [(batch.time, batch.batch) for batch in job.captured("squares")]
    [(0, [1, 4]), (1, [9])]
    """

    def __init__(self, partitions: Sequence[Sequence[tuple[Any, Iterable[Record_co]]]]) -> None:
        given: Any = partitions
        for partition in given if isinstance(given, list | tuple) else [given]:
            first = partition[0] if isinstance(partition, list | tuple) and partition else None
            if not isinstance(partition, Iterable) or not (first is None or isinstance(first, tuple | Pause)):
                raise GraphError(
                    "IterableSource takes a list of partitions, each a list of (time, batch), such as "
                    f"[[(0, [1, 2]), (1, [3])]], not {shortened(given)}. For plain records use RecordSource"
                )
        self._partitions = partitions

    def partitions_of(self, workers: int) -> list[Partition]:
        """Return the numbers of the partitions."""
        return list(range(len(self._partitions)))

    def open(self, partition: Partition, position: int | None) -> Iterator[Fetched[Record_co] | Pause]:
        """Read a partition; the position is the number of batches and pauses."""
        begun, rest = position or 0, islice(self._partitions[int(partition)], position or 0, None)
        given: Any
        for number, given in enumerate(rest, begun):
            if isinstance(given, Pause):
                yield given
            else:
                time, batch = _time_and_batch(given)
                yield Fetched(batch, number + 1, time)


class RecordSource(InlineSource[Record]):
    """A source of records, cut into batches and epochs.

    Workers read a sequence (a list, a range, an Arrow table or a NumPy array) in turn, batch by batch. Worker 0 alone
    reads any other iterable; `Stream.rebalance` spreads the records. Only one job can read an iterator, such as a
    generator. A function is called on each worker with the worker's number and the number of workers, and returns or
    yields the records of that worker.

    Args:
        records: the records, or the function. Only the local engine accepts records that cannot be pickled, such as a
            generator.
        batch_size: the greatest number of records in a batch.
        epoch_every: the number of batches in an epoch, counted over all workers, or on each worker if ``records`` is a
            function; None puts all records in epoch 0.

    Raises:
        GraphError: ``records`` is neither iterable nor a function, or is a DataFrame or an Arrow column, or a number is
            not positive.

    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("hundreds")
    >>> source = RecordSource(range(300), batch_size=100, epoch_every=1)
    >>> _ = flow.source("numbers", source).map_batches(lambda numbers: [sum(numbers)]).capture("sums")
    >>> with tw.run(flow, workers=2, engine="local") as job:
    ...     job.wait()
    ...     sorted((captured.time, captured.batch) for captured in job.captured("sums"))
    [(0, [4950]), (1, [14950]), (2, [24950])]
    """

    def __init__(self, records: Records[Record], *, batch_size: int = 1000, epoch_every: int | None = None) -> None:
        given: Any = records
        if not callable(given):
            _check_records(given)
        check_positive("RecordSource", "batch_size", batch_size)
        if epoch_every is not None:
            check_positive("RecordSource", "epoch_every", epoch_every)
        self._records = given
        self._batch_size = batch_size
        self._epoch_every = epoch_every
        self._is_begun = False

    def partitions_of(self, workers: int) -> list[Partition]:
        """Return one partition for each worker, or a single one."""
        is_shared = callable(self._records) or _has_slices(self._records)
        return share_names(workers) if is_shared else [0]

    def open(self, partition: Partition, position: int | None) -> Iterator[Fetched[Record]]:
        """Read a partition; the position is a number of batches."""
        records, begun = self._records, position or 0
        if partition == 0:
            once = isinstance(records, Iterator)
            return self._once(records, begun) if once else self._of_iterable(records, begun)
        worker, workers = share_of(partition)
        if not callable(records):
            return self._of_slices(records, begun, worker, workers)
        own = records(worker, workers)
        _check_records(own)
        return self._of_slices(own, begun, 0, 1) if _has_slices(own) else self._of_iterable(own, begun)

    def _once(self, records: Iterator[Record], begun: int) -> Iterator[Fetched[Record]]:
        if self._is_begun:
            raise RuntimeError(
                f"RecordSource: {records!r} was read before, and an iterator can be read once only. Give a list, or a "
                "function of (worker, workers) that returns a new one for each job"
            )
        self._is_begun = True
        yield from self._of_iterable(records, begun)

    def _of_slices(self, records: Any, begun: int, worker: int, workers: int) -> Iterator[Fetched[Record]]:
        size = self._batch_size
        for number in range(worker + begun * workers, -(-length(records) // size), workers):
            begun += 1
            batch = take_slice(records, number * size, min((number + 1) * size, length(records)))
            whole = batch if is_arrow(batch) or is_numpy(batch) else list(batch)
            yield Fetched(whole, begun, epoch_of(self._epoch_every, number))

    def _of_iterable(self, records: Iterable[Record], begun: int) -> Iterator[Fetched[Record]]:
        remaining = islice(records, begun * self._batch_size, None)
        for number in count(begun):
            batch = list(islice(remaining, self._batch_size))
            if not batch:
                return
            yield Fetched(batch, number + 1, epoch_of(self._epoch_every, number))


class TickSource(InlineSource[int]):
    """A source of ticks: worker 0 sends number ``n``, at epoch ``n``, after ``n * every_s`` seconds.

    Each epoch is complete when its tick has been sent. After a delay, late ticks are sent at once, one after the other;
    none is left out. No thread waits between ticks.

    Args:
        every_s: the interval, in seconds.
        count: the number of ticks; None for no end.

    Raises:
        GraphError: a number is not positive.

    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("clock")
    >>> _ = flow.source("ticks", TickSource(0.01, count=3)).capture("ticks")
    >>> with tw.run(flow, engine="local") as job:
    ...     job.wait()
    ...     [(captured.time, captured.batch) for captured in job.captured("ticks")]
    [(0, [0]), (1, [1]), (2, [2])]
    """

    def __init__(self, every_s: float, *, count: int | None = None) -> None:
        if not isinstance(every_s, int | float) or not every_s > 0:
            raise GraphError(f"TickSource: every_s is a number of seconds above 0, not {every_s!r}")
        if count is not None:
            check_positive("TickSource", "count", count)
        self._every_s = every_s
        self._count = count
        self.endless = count is None

    def partitions_of(self, workers: int) -> list[Partition]:
        """Return one partition."""
        return [0]

    def open(self, partition: Partition, position: int | None) -> "Ticks":
        """Return the ticks; the position counts sent ticks and ended epochs together."""
        return Ticks(self._every_s, self._count, position or 0)


class Ticks(Iterator[Fetched[int] | Pause]):
    """The ticks, each followed by an empty batch that completes its epoch.

    A restored job does not wait again for the ticks before its position.
    """

    def __init__(self, every_s: float, count: int | None, position: int) -> None:
        self._every_s = every_s
        self._count = count
        self._position = position
        self._began_s: float | None = None

    def __next__(self) -> Fetched[int] | Pause:
        number, is_sent = divmod(self._position, 2)
        if self._count is not None and number >= self._count:
            raise StopIteration
        if not is_sent:
            now_s = time.monotonic()
            if self._began_s is None:
                self._began_s = now_s - number * self._every_s
            elif (left_s := self._began_s + number * self._every_s - now_s) > 0:
                return Pause(left_s)
        self._position += 1
        if is_sent:
            return Fetched([], self._position, number + 1)
        return Fetched([number], self._position, number)


def epoch_of(epoch_every: int | str | None, batch: int, file: int = 0) -> int:
    """Return the epoch of a batch with a number; for ``epoch_every="file"``, the number of its file."""
    if epoch_every is None or isinstance(epoch_every, str):
        return 0 if epoch_every is None else file
    return batch // epoch_every


def _time_and_batch(yielded: object) -> tuple[Time, Batch]:
    if isinstance(yielded, tuple | list) and len(yielded) == 2:
        return yielded[0], yielded[1]
    raise TypeError(
        f"a partition of a source yields (time, batch), or Pause(seconds) while it has nothing, not {yielded!r:.200}"
    )


def _check_records(records: Any) -> None:
    if is_arrow(records):
        return
    if hasattr(records, "__dataframe__"):
        raise GraphError(
            "RecordSource: the rows of a DataFrame are records as an Arrow table: give "
            "pyarrow.Table.from_pandas(frame), or of Polars frame.to_arrow()"
        )
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(records, pyarrow.Array | pyarrow.ChunkedArray):
        raise GraphError(
            f"RecordSource: a {type(records).__qualname__} of Arrow is a column, and not records: give "
            'pyarrow.table({"name": column}), or column.to_pylist() for its values'
        )
    if not isinstance(records, Iterable):
        raise GraphError(f"RecordSource: records are iterable, or come from a function, unlike {records!r}")


def _has_slices(records: Any) -> bool:
    if is_arrow(records) or is_numpy(records):
        return True
    try:
        return isinstance(records, Sequence) and records[:0] is not None
    except (TypeError, ValueError, LookupError):
        return False
