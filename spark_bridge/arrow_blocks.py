"""DataFrames as blocks, each an Arrow IPC stream.

Each partition of a DataFrame becomes a block. Spark computes the partitions into its cache. Each executor is a Ray
actor, and returns its partitions as results of actor calls, to the workers that read them (`dataframe_blocks`) or to
this process. Rows pass neither the driver nor a Python worker of Spark.

If Spark does not run on Ray, rows pass the driver (`driver_rows`), which makes blocks of them.
"""

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import ray
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from ray import ObjectRef

from tidewheel.connectors.object_blocks.stored_blocks import put_block
from tidewheel.spark_bridge import driver_rows, jvm
from tidewheel.spark_bridge.arrow_streams import block_stream
from tidewheel.spark_bridge.dataframe_blocks import CACHED, DataFrameBlocks
from tidewheel.spark_bridge.errors import BridgeError, computing
from tidewheel.spark_bridge.spark_types import quoted, readable_type

ROWS_PER_BLOCK = 65_536
"""The number of rows in a block of ``from_spark`` with an epoch column, unless the caller gives a number of blocks."""


def arrow_schema(df: DataFrame, name: str) -> pa.Schema:
    """Return the Arrow schema of the rows of ``df``.

    Raises:
        BridgeError: the type of a column has no Arrow equivalent, or two columns have the same name. The message has
            ``name``, the DataFrame's name.
    """
    types = jvm.column_types(df) if is_on_ray(df.sparkSession) else driver_rows.column_types(df)
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

    There is one block for each partition or, if Spark does not run on Ray, ``count`` blocks. Blocks are stored in Ray
    immediately if Spark has no executor, or might compute a partition differently after the death of an executor.

    Args:
        df: the DataFrame.
        name: its name, for messages.
        count: the number of blocks if Spark does not run on Ray.
        store: True to store all blocks in Ray immediately. They then outlive the Spark session, but Ray loses a block
            with its node.

    Raises:
        BridgeError: types have no Arrow equivalent, or Spark could not compute the DataFrame.
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
    """Put the rows of a DataFrame into the object store, for a Spark that does not run on Ray.

    Blocks have equally many rows, the last perhaps fewer, since workers read equally many blocks.
    """
    driver_rows.note(df.sparkSession)
    table = driver_rows.collected(df, schema, name)
    rows = -(-table.num_rows // (count or block_count(table.num_rows, df)))
    for start in range(0, table.num_rows, max(1, rows)):
        yield put_block([table.slice(start, rows)], block_stream).reference


def block_count(rows: int, df: DataFrame) -> int:
    """Return a number of blocks for ``rows`` rows that gives each core of Spark some work."""
    return max(-(-rows // ROWS_PER_BLOCK), 2 * driver_rows.cores(df.sparkSession))


def _arrow_schema(df: DataFrame) -> pa.Schema | None:
    if not is_on_ray(df.sparkSession):
        return driver_rows.arrow_schema(df)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(jvm.arrow_schema_stream(df))).remove_metadata()
    except (Py4JError, PySparkException, pa.ArrowException):
        return None
    return schema if all(readable_type(kind) is not None for kind in schema.types) else None


def is_on_ray(spark: SparkSession) -> bool:
    """Tell whether a session's executors are actors of the Ray cluster of this process.

    Raises:
        BridgeError: the executors were on Ray, but Ray has been shut down.
    """
    if not driver_rows.master(spark).startswith("ray:"):
        return False
    if not ray.is_initialized():
        raise BridgeError(
            f"Spark {spark.sparkContext.appName!r} runs on a Ray that this process has left. Call "
            "ray.shutdown() only after the block of tidewheel.spark_bridge.session() has ended"
        )
    return True
