"""A source of Parquet files, as Arrow."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tidewheel.batches.batches import Batch
from tidewheel.operators.base.stream_base import check_positive
from tidewheel.operators.sources.contract import Fetched, Partition
from tidewheel.operators.sources.inline_source import InlineSource, fetched_behind, share_names, share_of
from tidewheel.operators.sources.record_source import epoch_of
from tidewheel.progress import GraphError
from tidewheel.storage.store_url import local_path
from tidewheel.storage.stored_files import FileFinder, Paths

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of one of the files.

    Attributes:
        number: its number among the non-empty row groups of all files.
        least: the least value of the time column; None if it is unknown.
    """

    file: int
    index: int
    number: int
    least: int | None


class ParquetSource(InlineSource[Any]):
    """A source of Parquet files: workers read their row groups in turns, as Arrow batches.

    All nodes must see the files.

    Args:
        paths: a path, a pattern such as ``"sales/*.parquet"``, a folder, or a list of these, looked up immediately.
            Files are read in the order of their names. The columns to read must be the same in all files with rows.
        columns: the columns to read; None for all.
        time: the column with the epoch of each row: integers, not null and not negative. Rows keep the column. Row
            groups that overlap in time are held in memory until earlier rows have been read; sorted files need no
            memory.
        epoch_every: without ``time``: ``"file"`` makes each file an epoch; a number makes an epoch of so many row
            groups, counted over all files; None puts all rows in epoch 0.
        batch_size: the greatest number of rows in a batch.

    Raises:
        GraphError: there are no such files, a file lacks a column or has another type for it, or an argument is wrong.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("sales")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"day": [1, 1, 2], "price": [10, 20, 30]}), Path(folder, "sales.parquet"))
    ...     _ = flow.source("sales", ParquetSource(folder, time="day")).map(lambda row: row["price"]).capture("prices")
    ...     with tw.run(flow, engine="local") as job:
    ...         job.wait()
    ...         job.captured("prices")
    [Captured(time=1, batch=[10, 20]), Captured(time=2, batch=[30])]
    """

    def __init__(
        self,
        paths: Paths,
        *,
        columns: Sequence[str] | None = None,
        time: str | None = None,
        epoch_every: int | Literal["file"] | None = None,
        batch_size: int = 65_536,
    ) -> None:
        check_positive("ParquetSource", "batch_size", batch_size)
        _check_epoch_every(epoch_every)
        if time is not None and epoch_every is not None:
            raise GraphError("ParquetSource: epochs come from a column, time=, or by epoch_every=, not from both")
        if isinstance(columns, str):
            raise GraphError(f"ParquetSource: columns is a list of names, not {columns!r}")
        self.files = _found_files(paths)
        self._columns = None if columns is None else list(dict.fromkeys([*columns, *([time] if time else [])]))
        self._time = time
        self._epoch_every = epoch_every
        self._batch_size = batch_size
        self._first: tuple[Path, pa.Schema] | None = None
        """A file with rows, and the columns to read; all other files must have the same columns."""
        self._row_groups()

    def partitions_of(self, workers: int) -> list[Partition]:
        """Return one partition for each worker."""
        return share_names(workers)

    def open(self, partition: Partition, position: int | None) -> Iterator[Fetched[Any]]:
        """Read a partition; the position is a number of batches."""
        worker, workers = share_of(partition)
        groups = self._row_groups()
        if self._time is None:
            return fetched_behind(position, self._in_order(groups[worker::workers]))
        groups.sort(key=lambda group: (-1 if group.least is None else group.least, group.number))
        return fetched_behind(position, self._by_time(groups[worker::workers], self._time))

    def _row_groups(self) -> list[RowGroup]:
        groups: list[RowGroup] = []
        for file, opened in self._opened():
            for index in range(opened.metadata.num_row_groups):
                metadata = opened.metadata.row_group(index)
                if metadata.num_rows:  # a table without rows has a row group without rows
                    groups.append(RowGroup(file, index, len(groups), _least(metadata, self._time)))
        return groups

    def _opened(self) -> "Iterator[tuple[int, pq.ParquetFile]]":
        import pyarrow.parquet as pq

        for number, path in enumerate(self.files):
            with _naming_file(path), pq.ParquetFile(path) as opened:
                if self._time is not None:
                    _check_time(opened.schema_arrow, path, self._time)
                if self._columns is not None:
                    _check_columns(opened, path, self._columns)
                if opened.metadata.num_rows:
                    schema = opened.read_row_groups([], columns=self._columns).schema
                    if self._first is None:
                        self._first = path, schema
                    _check_alike(self._first, (path, schema))
                yield number, opened

    def _in_order(self, groups: list[RowGroup]) -> Iterator[tuple[int, Batch]]:
        for group in groups:
            for batch in self._batches(group):
                yield epoch_of(self._epoch_every, group.number, group.file), batch

    def _batches(self, group: RowGroup) -> "Iterator[pa.RecordBatch]":
        import pyarrow.parquet as pq

        assert self._first is not None, "a row group has rows"
        names = self._first[1].names
        path = self.files[group.file]
        with _naming_file(path), pq.ParquetFile(path) as opened:
            for batch in opened.iter_batches(self._batch_size, row_groups=[group.index], columns=self._columns):
                yield batch if batch.schema.names == names else batch.select(names)

    def _by_time(self, groups: list[RowGroup], time: str) -> Iterator[tuple[int, Batch]]:
        """Yield the rows in order of time, as soon as no remaining row group can have earlier rows."""
        held: dict[int, list[pa.RecordBatch]] = {}
        for group in groups:
            for epoch in sorted(epoch for epoch in held if group.least is not None and epoch <= group.least):
                yield from ((epoch, batch) for batch in held.pop(epoch))
            for batch in self._batches(group):
                for epoch, rows in self._slices(batch, self.files[group.file], time):
                    held.setdefault(epoch, []).append(rows)
        for epoch in sorted(held):
            yield from ((epoch, batch) for batch in held.pop(epoch))

    def _slices(self, batch: "pa.RecordBatch", path: Path, time: str) -> "Iterator[tuple[int, pa.RecordBatch]]":
        import numpy as np

        column = batch.column(time)
        if column.null_count:
            raise ValueError(f"column {time!r} of {path} has nulls: a row without an epoch has no place in time")
        epochs = column.to_numpy(zero_copy_only=False)
        if (epochs[1:] < epochs[:-1]).any():
            order = np.argsort(epochs, kind="stable")
            batch, epochs = batch.take(order), epochs[order]
        starts = np.flatnonzero(np.concatenate(([True], epochs[1:] != epochs[:-1])))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(epochs)], strict=True):
            yield int(epochs[start]), batch.slice(start, stop - start)


def _check_epoch_every(epoch_every: object) -> None:
    """Raise GraphError unless ``epoch_every`` is "file", a whole number above 0, or None."""
    if epoch_every not in ("file", None):
        check_positive("ParquetSource", 'epoch_every, unless "file" or None,', epoch_every)


def _found_files(paths: Paths) -> tuple[Path, ...]:
    """Return the files of ``paths``, each once, sorted, as absolute paths; raise GraphError if a path has none."""
    given = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str | os.PathLike) else [paths]
    local = [local_path(path, "ParquetSource: a path", GraphError) for path in given]
    return tuple(Path(file.path) for file in FileFinder("ParquetSource", local, GraphError).find_each())


@contextmanager
def _naming_file(path: Path) -> Iterator[None]:
    """Add the path of the file to errors raised in the ``with`` block."""
    try:
        yield
    except Exception as error:
        error.add_note(f"This is file {path}.")
        raise


def _check_time(schema: "pa.Schema", path: Path, time: str) -> None:
    import pyarrow as pa

    if time not in schema.names:
        raise GraphError(f"ParquetSource: {path} has no column {time!r} for time=; it has {schema.names}")
    if not pa.types.is_integer(schema.field(time).type):
        raise GraphError(
            f"ParquetSource: column {time!r} of {path} is {schema.field(time).type}, and an epoch is an integer"
        )


def _check_columns(opened: "pq.ParquetFile", path: Path, columns: Sequence[str]) -> None:
    leaves = [opened.schema.column(index).path for index in range(len(opened.schema))]
    for name in columns:
        if not any(leaf == name or leaf.startswith(f"{name}.") for leaf in leaves):
            raise GraphError(f"ParquetSource: {path} has no column {name!r}; it has {opened.schema_arrow.names}")


def _check_alike(first: "tuple[Path, pa.Schema]", other: "tuple[Path, pa.Schema]") -> None:
    if first[1].equals(other[1]):
        return
    types = [{field.name: field.type for field in schema} for _, schema in (first, other)]
    for name in dict.fromkeys([*types[0], *types[1]]):
        ours, theirs = (f"{has[name]}" if name in has else "missing" for has in types)
        if ours != theirs:
            raise GraphError(
                f"ParquetSource: column {name!r} is {ours} in {first[0]}, and {theirs} in {other[0]}. Files of one "
                "source have the same columns. Leave it out by columns=, or read them by sources of their own"
            )


def _least(row_group: Any, time: str | None) -> int | None:
    for number in range(row_group.num_columns):
        column = row_group.column(number)
        if column.path_in_schema == time and column.statistics is not None and column.statistics.has_min_max:
            return int(column.statistics.min)
    return None
