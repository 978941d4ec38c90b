"""A Spark DataFrame as a source of a dataflow.

``from_spark`` does Spark's part immediately, in the driver: it checks the epochs, sorts the rows and lets Spark cache
them as Arrow blocks. The readers of the resulting ``DataFrameSource`` fetch one block after the other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tidewheel.connectors.object_blocks.epoch_slices import epoch_slices
from tidewheel.host.extras import check_extra
from tidewheel.host.ray_cluster import connect
from tidewheel.operators.sources.contract import Fetched, Partition, Pause
from tidewheel.operators.sources.inline_source import InlineSource, share_names, share_of
from tidewheel.runtime.errors import JobError
from tidewheel.spark_bridge.block_deal import deal
from tidewheel.spark_bridge.errors import BridgeError, computing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from tidewheel.spark_bridge.dataframe_blocks import DataFrameBlocks

_StreamT_co = TypeVar("_StreamT_co", covariant=True)


class TakesSource(Protocol[_StreamT_co]):
    """The method of a dataflow that ``from_spark`` needs."""

    def source(self, name: str, source: "DataFrameSource", /) -> _StreamT_co:
        """Add ``source`` to the dataflow as ``name``."""


@dataclass(frozen=True)
class DataFrameSource(InlineSource[Any]):
    """The rows of a DataFrame, which the workers of a job fetch block by block.

    It can be read again as long as it and its blocks exist. A reader refers only to the few blocks that it has
    requested.

    Attributes:
        blocks: the rows, ordered by epoch over all blocks.
        time: the column of epochs; None if all rows are of epoch 0.
    """

    name: str
    blocks: "DataFrameBlocks"
    time: str | None = None
    keeps_time: bool = True
    nodes: tuple[str, ...] = ()

    def on_nodes(self, nodes: Sequence[str]) -> "DataFrameSource":
        """Return the source for workers on these nodes.

        Workers prefer blocks on their node, but all read equally many.
        """
        return replace(self, nodes=tuple(nodes))

    def partitions_of(self, workers: int) -> list[Partition]:
        """Return one partition for each worker."""
        return share_names(workers)

    def open(self, partition: Partition, position: int | None) -> Iterator[Fetched[Any] | Pause]:
        """Read this worker's blocks, preferably those on its node; the position is a number of batches.

        Epochs never decrease. While a block has not arrived, this yields a `Pause`; raise BridgeError if a block is
        lost. One worker reads each row. With epochs, each worker reads one of the first ``workers`` blocks, one of the
        next ``workers``, and so on, so that workers stay close in time.
        """
        worker, workers = share_of(partition)
        nodes = self.nodes if len(self.nodes) == workers else [""] * workers
        return self._behind(position or 0, deal(self.blocks.places, nodes, in_step=self.time is not None)[worker])

    def _behind(self, position: int, numbers: Sequence[int]) -> Iterator[Fetched[Any] | Pause]:
        number = 0
        for read in self._read(numbers):
            if isinstance(read, Pause):
                yield read
                continue
            number += 1
            if number > position:
                yield Fetched(read[1], number, read[0])

    def _read(self, numbers: Sequence[int]) -> "Iterator[tuple[int, pa.Table] | Pause]":
        import ray

        number = -1
        try:
            for arrived in self.blocks.read(numbers):
                if isinstance(arrived, Pause):
                    yield arrived
                else:
                    number, block = arrived
                    yield from self._batches(_table(block))
        except (ray.exceptions.RayError, BridgeError) as error:
            lost = next((other for other in numbers if other > number), number)
            raise BridgeError(
                f"block {lost} of {len(self.blocks)} of DataFrame {self.name!r} cannot be read: {error}. "
                f"{self.blocks.advice} One partition's rows must stay under 2 GiB: a larger partitions= makes them "
                "smaller."
            ) from error

    def _batches(self, table: "pa.Table") -> "Iterator[tuple[int, pa.Table]]":
        if self.time is None:
            if table.num_rows:
                yield 0, table
            return
        for epoch, rows in epoch_slices(table, self.time):
            yield epoch, rows if self.keeps_time else rows.drop_columns([self.time])


def _table(stream: bytes) -> "pa.Table":
    import pyarrow as pa

    return pa.ipc.open_stream(pa.py_buffer(stream)).read_all().replace_schema_metadata().combine_chunks()


def from_spark(
    flow: TakesSource[_StreamT_co],
    name: str,
    df: "DataFrame",
    *,
    time: "str | Column | Callable[[DataFrame], Column] | None" = None,
    partitions: int | None = None,
) -> _StreamT_co:
    """Return a stream of the rows of ``df``: Arrow tables, each of one epoch.

    Before this returns, Spark computes the rows into its cache, in memory or on disk. The workers of a job fetch them
    from there, preferably from executors on their own node, and read ahead by one block. Tokens follow the epochs, so
    later operators need not wait for the last epoch.

    Spark keeps its copy until the dataflow is gone and ``from_spark`` is called again. The session must stay open until
    the job has read all rows, or the job fails. At the end of a ``with session()`` block, Ray stores unread rows for as
    long as this process lives, unless the program had started Spark before the block.

    Args:
        flow: the dataflow to add the source to.
        name: the name of the source.
        df: a DataFrame of a session of ``tidewheel.spark_bridge.session``. With any other session, such as
            ``local[*]``, rows pass its driver, which is this process, to Ray's object store. With epochs, Spark
            computes and caches the DataFrame once, unless it is cached already.
        time: the epochs, integers, not null and not negative: the name of a column, a Column that computes them, or a
            function of the DataFrame that returns such a Column. Computed epochs are not added to the rows. Each worker
            gets its rows in the order of epochs. By default every row is at time 0.
        partitions: the number of blocks. With fewer blocks than workers, some workers get no rows. By default the
            number of partitions of ``df``; with epochs, or if Spark does not run on Ray, one for every 65,536 rows, and
            at least two for each core.

    Raises:
        BridgeError: ``df`` is not a DataFrame, or a streaming one; its types have no Arrow equivalent, or Spark cannot
            compute it; the column of epochs is missing, is not of integers, or has nulls or negative values; or
            ``partitions`` is below 1.
    """
    check_extra("spark", "from_spark()", BridgeError)
    from tidewheel.spark_bridge.arrow_blocks import arrow_schema, block_count, blocks_of, is_on_ray
    from tidewheel.spark_bridge.dataframe_blocks import DataFrameBlocks
    from tidewheel.spark_bridge.epoch_order import cached, checked_row_count, epoch_column, in_epoch_order

    _require_dataframe(df, name)
    if not is_on_ray(df.sparkSession):
        connect(JobError)
    if partitions is not None and partitions < 1:
        raise BridgeError(f"DataFrame {name!r} must become one block or more, not partitions={partitions}")
    if time is None:
        # Without executors to fetch from, blocks are cut from the rows that the driver has collected.
        shuffled = df if partitions is None or not is_on_ray(df.sparkSession) else df.repartition(partitions)
        return flow.source(name, DataFrameSource(name, blocks_of(shuffled, name, partitions)))
    epochs = epoch_column(df, name, time)
    with cached(epochs.df) as kept:
        with computing(name):
            rows = checked_row_count(kept, epochs)
        count = partitions or block_count(rows, df)
        ordered = in_epoch_order(kept, epochs.column, count)
        blocks = blocks_of(ordered, name, count) if rows else DataFrameBlocks(arrow_schema(epochs.df, name), stored=())
    return flow.source(name, DataFrameSource(name, blocks, epochs.column, epochs.is_own))


def _require_dataframe(df: "DataFrame", name: str) -> None:
    from pyspark.sql import DataFrame

    if not isinstance(df, DataFrame):
        raise BridgeError(f"{name!r} is a {type(df).__module__}.{type(df).__qualname__}, not a Spark DataFrame")
    if df.isStreaming:
        raise BridgeError(
            f"DataFrame {name!r} is a streaming one, which from_spark cannot read: give the dataflow an input, and "
            "hand both to feed(job.input(...), df, checkpoint=...)"
        )
