"""Rows of a Spark that does not run on Ray, such as ``local[*]`` or another cluster: as Arrow, through its driver.

The driver is this process and its JVM, so all rows of a DataFrame are in its memory at once, and none is read where it
was computed: that is what a session of ``tidewheel.spark_bridge.session`` is for. A note in the log says so.
"""

import logging
from collections.abc import Iterable
from typing import IO

import pyarrow as pa
import ray
from pyspark.sql import DataFrame, SparkSession

from tidewheel.spark_bridge.errors import BridgeError, computing
from tidewheel.spark_bridge.jvm import collected_batches, dataframe_of_table
from tidewheel.spark_bridge.spark_types import spark_schema

_logger = logging.getLogger(__name__)


def is_on_ray(spark: SparkSession) -> bool:
    """Tell whether the executors of a session are actors of the Ray that this process uses.

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
    """Say in the log that the rows of ``what`` pass the driver."""
    _logger.info(
        "%s passes the driver, as its Spark (%s) does not run on Ray: a session of tidewheel.spark_bridge.session() "
        "moves rows between executors and workers without it",
        what,
        spark.sparkContext.master,
    )


def collected(df: DataFrame, schema: pa.Schema, name: str) -> pa.Table:
    """Compute a DataFrame, and return its rows in order, as a table of the schema that `arrow_schema` gives it.

    Raises:
        BridgeError: Spark could not compute it; ``name`` says which DataFrame.
    """
    with computing(name):
        batches = collected_batches(df)
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def created(spark: SparkSession, tables: Iterable[pa.Table], schema: pa.Schema, rows: int) -> DataFrame:
    """Return a DataFrame of tables.

    Args:
        spark: the session.
        tables: the rows.
        schema: the schema of all tables, which `readable_schema` made.
        rows: how many a partition has at most.
    """
    table = pa.concat_tables([schema.empty_table(), *tables])
    return dataframe_of_table(spark, table, _ArrowStream(rows), spark_schema(schema).json())


class _ArrowStream:
    """Writes a table where PySpark has its JVM read data: to a file, or, where those are encrypted, to a socket."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def dump_stream(self, table: pa.Table, stream: IO[bytes]) -> None:
        """Write all of it, in batches of so many rows."""
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table.combine_chunks(), max_chunksize=self._rows)
