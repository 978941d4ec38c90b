"""DataFrames and tables as blocks, each an Arrow IPC stream.

A partition of a DataFrame becomes a block. Spark computes the partitions into its cache, and each executor, a Ray
actor, returns its own as results of actor calls to the workers that read them (`dataframe_blocks`) or to this process;
rows pass neither the driver nor a Python worker.

Rows of a Spark outside of Ray, such as ``local[*]`` or another cluster, pass its driver both ways, so all of a
DataFrame is in the memory of this process and its JVM at once; a log line says so. A session of
``tidewheel.spark_bridge.session`` avoids that.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import ray
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from ray import ObjectRef

from tidewheel.spark_bridge import jvm
from tidewheel.spark_bridge.dataframe_blocks import CACHED, DataFrameBlocks
from tidewheel.spark_bridge.errors import BridgeError, computing
from tidewheel.spark_bridge.spark_types import readable_schema, spark_schema

_logger = logging.getLogger(__name__)

ROWS_PER_BLOCK = 65_536
"""The number of rows in a block of ``from_spark`` with an epoch column, unless the caller gives a number of blocks."""

ROWS_PER_BATCH = 65_536
"""The number of rows that Spark reads at once."""

BLOCK_BYTES = 16 * 2**20
"""The least size of a block, in bytes, before the next begins."""


def arrow_schema(df: DataFrame, name: str) -> pa.Schema:
    """Return the Arrow schema of the rows of ``df``.

    Raises:
        BridgeError: columns have types without Arrow form, or share a name; ``name`` is the DataFrame's.
    """
    types = jvm.column_types(df)
    counts = Counter(column for column, _ in types)
    repeated = [column for column, count in counts.items() if count > 1]
    if repeated:
        raise BridgeError(f"DataFrame {name!r} has several columns called {', '.join(repeated)}: rename them")
    schema = _arrow_schema(df)
    if schema is not None:
        return schema
    foreign = [f"{column} ({kind})" for column, kind in types if _arrow_schema(df.select(quoted(column))) is None]
    raise BridgeError(
        f"DataFrame {name!r} has columns that Arrow cannot hold: {', '.join(foreign)}. "
        "Cast them (to string, or to numbers) or leave them out."
    )


def blocks_of(df: DataFrame, name: str, count: int | None = None, *, store: bool = False) -> DataFrameBlocks:
    """Compute ``df`` and return its rows as blocks, which their readers fetch from Spark.

    There is one for each partition, or, for a Spark outside of Ray, ``count`` of them. They are stored in Ray at once
    if Spark might compute a partition differently after the death of an executor, or has no executor.

    Args:
        df: the DataFrame.
        name: its name, for messages.
        count: the number of blocks for a Spark outside of Ray.
        store: whether to store all blocks at once: they then outlive the Spark session, but a block that Ray loses with
            its node is gone.

    Raises:
        BridgeError: types have no Arrow form, or Spark could not compute the DataFrame.
    """
    schema = arrow_schema(df, name)
    if not is_on_ray(df.sparkSession):
        return DataFrameBlocks(schema, stored=tuple(_put_blocks(df, name, schema, count)))
    if not jvm.partition_count(df):
        return DataFrameBlocks(schema, stored=())
    with computing(name):
        blocks = CACHED.add(df, schema)
    if store or not jvm.is_determinate(df.sparkSession, blocks.rdd.number):
        CACHED.store(df, blocks)
    return blocks


def _put_blocks(df: DataFrame, name: str, schema: pa.Schema, count: int | None) -> Iterator[ObjectRef[bytes]]:
    """Put the rows of a DataFrame of another Spark into the object store.

    Each block has as many rows as the others, or fewer, for workers that read as many blocks each.
    """
    note(df.sparkSession, f"DataFrame {name!r}")
    table = collected(df, schema, name)
    rows = -(-table.num_rows // (count or block_count(table.num_rows, df)))
    for start in range(0, table.num_rows, max(1, rows)):
        yield put_block([table.slice(start, rows)])[0]


def block_count(rows: int, df: DataFrame) -> int:
    """Return a number of blocks for so many rows: enough to give each core of Spark some of the work."""
    return max(-(-rows // ROWS_PER_BLOCK), 2 * df.sparkSession.sparkContext.defaultParallelism)


def quoted(column: str) -> str:
    """Return ``column`` quoted so that Spark finds exactly this name, dots and backquotes included.

    >>> quoted("net.price")
    '`net.price`'
    """
    return "`" + column.replace("`", "``") + "`"


def _arrow_schema(df: DataFrame) -> pa.Schema | None:
    if not is_on_ray(df.sparkSession):
        try:
            return readable_schema(to_arrow_schema(df.schema), "the DataFrame")
        except (PySparkException, ValueError):  # of types that PySpark does not even know
            return None
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(jvm.arrow_schema_stream(df))).remove_metadata()
    except (Py4JError, PySparkException, pa.ArrowException):
        return None
    return schema if all(map(_has_arrays, schema.types)) else None


def _has_arrays(kind: pa.DataType) -> bool:
    try:
        pa.nulls(0, kind)
    except KeyError:
        return False
    return all(_has_arrays(kind.field(child).type) for child in range(kind.num_fields))


def in_blocks(tables: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    """Yield ``tables`` in groups of about ``BLOCK_BYTES``, with large ones cut up; none without rows."""
    block: list[pa.Table] = []
    size = 0
    for table in tables:
        rows = max(1, table.num_rows * BLOCK_BYTES // max(1, table.nbytes))
        for start in range(0, table.num_rows, rows):
            part = table.slice(start, rows)
            block.append(part)
            size += part.nbytes
            if size >= BLOCK_BYTES:
                yield block
                block, size = [], 0
    if block:
        yield block


def block_stream(tables: Sequence[pa.Table]) -> bytes:
    """Return tables of one schema, at least one, as an Arrow IPC stream."""
    buffer = pa.BufferOutputStream()
    write_stream(tables, buffer)
    return bytes(buffer.getvalue().to_pybytes())


def write_stream(tables: Sequence[pa.Table], sink: Any) -> None:
    """Write tables of one schema, at least one, as an Arrow IPC stream to a file or buffer."""
    with pa.ipc.new_stream(sink, tables[0].schema) as stream:
        for table in tables:
            stream.write_table(table, max_chunksize=ROWS_PER_BATCH)


def put_block(tables: Sequence[pa.Table]) -> tuple[ObjectRef[bytes], int]:
    """Put tables of one schema, at least one, into the object store; return the block, and its bytes."""
    content = block_stream(tables)
    return ray.put(content), len(content)


def is_on_ray(spark: SparkSession) -> bool:
    """Tell whether a session's executors are actors of this process's Ray.

    Raises:
        BridgeError: they were, and Ray has been shut down.
    """
    if not str(spark.sparkContext.master).startswith("ray:"):
        return False
    if not ray.is_initialized():
        raise BridgeError(
            f"Spark {spark.sparkContext.appName!r} runs on a Ray that this process has left. Call "
            "ray.shutdown() only after the block of tidewheel.spark_bridge.session() has ended"
        )
    return True


def note(spark: SparkSession, what: str) -> None:
    """Log that the rows of ``what`` pass the driver."""
    _logger.info(
        "%s passes the driver, as its Spark (%s) does not run on Ray: a session of tidewheel.spark_bridge.session() "
        "moves rows between executors and workers without it",
        what,
        spark.sparkContext.master,
    )


def collected(df: DataFrame, schema: pa.Schema, name: str) -> pa.Table:
    """Compute a DataFrame; return its rows in order, as a table of the schema from `arrow_schema`.

    Raises:
        BridgeError: Spark could not compute the DataFrame ``name``.
    """
    with computing(name):
        batches = jvm.collected_batches(df)
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def created(spark: SparkSession, tables: Iterable[pa.Table], schema: pa.Schema) -> DataFrame:
    """Return a DataFrame of tables, in a Spark outside of Ray."""
    table = pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
    return jvm.dataframe_of_tables(spark, [table], write_stream, spark_schema(schema).json())
