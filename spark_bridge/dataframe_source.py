"""A Spark DataFrame as a source of a dataflow.

``from_spark`` does Spark's part at once, in the driver: it checks the epoch column, brings the rows into epoch order
and stores them as Arrow blocks. What remains is a ``DataFrameSource``, which needs Ray to be read and Spark no more, so
the Spark session may end, and give its CPUs back, before the dataflow runs.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tidewheel.runtime import ray_cluster
from tidewheel.spark_bridge.arrow_blocks import ArrowBlocks, arrow_schema, block_count, quoted, store_blocks
from tidewheel.spark_bridge.driver_transport import is_on_ray
from tidewheel.spark_bridge.epoch_slices import epoch_slices
from tidewheel.spark_bridge.errors import BridgeError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType
    from ray import ObjectRef

_StreamT_co = TypeVar("_StreamT_co", covariant=True)


class TakesSource(Protocol[_StreamT_co]):
    """What ``from_spark`` needs of a dataflow: it takes a named source and returns the stream of what that yields."""

    def source(self, name: str, source: "DataFrameSource", /) -> _StreamT_co:
        """Add ``source`` to the dataflow as ``name``."""


@dataclass(frozen=True, slots=True)
class DataFrameSource:
    """The rows of a DataFrame, read from Ray's object store by the workers of a job.

    The source refers to its blocks, and may be read again, for as long as it lives. A reader refers to the blocks that
    it has not read yet.

    Attributes:
        name: what the stream is called, for messages.
        blocks: the rows, in epoch order over all blocks and within each.
        time: the column that holds the epoch; None if all rows are of epoch 0.
    """

    name: str
    blocks: ArrowBlocks
    time: str | None = None

    def partitions(self, worker: int, workers: int) -> "Sequence[Iterator[tuple[Any, pa.Table]]]":
        """Return this worker's one partition: every ``workers``-th block, beginning with block number ``worker``.

        It yields ``(epoch, rows)`` with epochs that never decrease; the rows keep the epoch column. Over all workers
        every row comes once. Reading raises BridgeError if a block is gone.
        """
        share = range(worker, len(self.blocks.references), workers)
        return [self._read([(number, self.blocks.references[number]) for number in share])]

    def _read(self, share: "list[tuple[int, ObjectRef[bytes]]]") -> "Iterator[tuple[int, pa.Table]]":
        share.reverse()
        while share:
            table = self._table(*share.pop())
            if self.time is not None:
                yield from epoch_slices(table, self.time)
            elif table.num_rows:
                yield 0, table

    def _table(self, number: int, reference: "ObjectRef[bytes]") -> "pa.Table":
        """Return one block as a table of one chunk: slices of it need no search."""
        import pyarrow as pa
        import ray

        try:
            stream = ray.get(reference)
        except ray.exceptions.RayError as error:
            raise BridgeError(
                f"block {number} of {len(self.blocks.references)} of DataFrame {self.name!r} cannot be read: {error}. "
                "A block is lost with the Ray node or the driver that holds it, and one partition's rows must stay "
                "under 2 GiB: run from_spark again, with a larger partitions= if they are not."
            ) from error
        return pa.ipc.open_stream(pa.py_buffer(stream)).read_all().replace_schema_metadata().combine_chunks()


def from_spark(
    flow: TakesSource[_StreamT_co],
    name: str,
    df: "DataFrame",
    *,
    time: str | None = None,
    partitions: int | None = None,
) -> _StreamT_co:
    """Return a stream of the rows of ``df`` as Arrow tables, each of one epoch.

    The rows are computed here, and are in Ray's object store when this returns. This process owns them, so it must live
    and stay connected to Ray as long as a job reads them; Spark may stop.

    Args:
        flow: the dataflow to add the source to.
        name: what to call the source.
        df: a DataFrame of a session of ``tidewheel.spark_bridge.session``. Of another one, such as ``local[*]``, all
            rows go through its driver, which is this process. An epoch column makes it computed and cached once,
            unless it is cached already.
        time: the column that holds the epochs, an integer without nulls or negative values. Each worker gets its rows
            in epoch order. Without it every row is at time 0.
        partitions: how many blocks to make; at least the number of workers lets each have rows. Without it: as many as
            ``df`` has partitions, or, with an epoch column or another Spark, one for every 65,536 rows and at least two
            for each core.

    Raises:
        BridgeError: it is no DataFrame, or a streaming one, its types have no Arrow form, or the epoch column is
            missing, no integer, or holds nulls or negative values.
    """
    _require_dataframe(df, name)
    if partitions is not None and partitions < 1:
        raise BridgeError(f"DataFrame {name!r} must become one block or more, not partitions={partitions}")
    if time is None:
        blocks = store_blocks(df if partitions is None else df.repartition(partitions), name, partitions)
    else:
        _require_integer_column(df, name, time)
        with _cached(df) as cached:
            rows = _checked_row_count(cached, name, time)
            count = partitions or block_count(rows, df)
            ordered = _in_epoch_order(cached, time, count)
            blocks = store_blocks(ordered, name, count) if rows else ArrowBlocks(arrow_schema(df, name), ())
    return flow.source(name, DataFrameSource(name, blocks, time))


def _require_dataframe(df: "DataFrame", name: str) -> None:
    from pyspark.sql import DataFrame

    if not isinstance(df, DataFrame):
        raise BridgeError(f"{name!r} is a {type(df).__module__}.{type(df).__qualname__}, not a Spark DataFrame")
    if df.isStreaming:
        raise BridgeError(
            f"DataFrame {name!r} is a streaming one, which from_spark cannot read: feed it with foreachBatch"
        )
    if not is_on_ray(df.sparkSession):
        ray_cluster.connect()


def _require_integer_column(df: "DataFrame", name: str, time: str) -> None:
    from pyspark.sql.types import IntegralType

    if time not in df.columns:
        raise BridgeError(f"DataFrame {name!r} has no column {time!r} for time=; it has {', '.join(df.columns)}")
    kind: DataType = df.schema[time].dataType
    if not isinstance(kind, IntegralType):
        raise BridgeError(
            f"column {time!r} of DataFrame {name!r} is {kind.simpleString()}, and an epoch is an integer: "
            f"cast it, or number its values in order (dense_rank().over(Window.orderBy({time!r})) - 1)"
        )


def _checked_row_count(df: "DataFrame", name: str, time: str) -> int:
    """Return how many rows there are, after looking at every epoch in one aggregation."""
    from pyspark.sql import functions

    epoch = functions.col(quoted(time))
    aggregates = (functions.count(functions.lit(1)), functions.count(epoch), functions.min(epoch).cast("long"))
    row = df.agg(*aggregates)._jdf.head()
    rows, present, least = (row.get(column) for column in range(3))
    column = f"column {time!r} ({df.schema[time].dataType.simpleString()}) of DataFrame {name!r}"
    if present < rows:
        raise BridgeError(
            f"{column} holds {rows - present} null(s) in {rows} rows, and a row without an epoch has no place in time: "
            f"drop them (df.dropna(subset=[{time!r}])) or fill them (df.fillna(..., subset=[{time!r}]))"
        )
    if present and least < 0:
        raise BridgeError(f"{column} holds negative epochs, down to {least}: time starts at 0, so shift or drop them")
    return int(rows)


def _in_epoch_order(df: "DataFrame", time: str, count: int) -> "DataFrame":
    """Return ``df`` in ``count`` partitions that follow each other in time; an epoch too big for one spans several."""
    from pyspark.sql import functions

    epoch = functions.col(quoted(time))
    return df.repartitionByRange(count, epoch, *_salt(df)).sortWithinPartitions(epoch)


def _salt(df: "DataFrame") -> "list[Column]":
    """Return what tells rows of one epoch apart, the same at every computation: a hash of all that can be hashed."""
    from pyspark.sql import functions

    hashable = [functions.col(quoted(field.name)) for field in df.schema.fields if not _has_map(field.dataType)]
    return [functions.xxhash64(*hashable)]


def _has_map(kind: "DataType") -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    return isinstance(kind, MapType)


@contextmanager
def _cached(df: "DataFrame") -> "Iterator[DataFrame]":
    """Keep the rows of ``df`` in Spark for the block, so that they are computed once; leave a cache that was there."""
    from pyspark import StorageLevel

    if df.storageLevel != StorageLevel.NONE:
        yield df
        return
    df.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield df
    finally:
        df.unpersist()
