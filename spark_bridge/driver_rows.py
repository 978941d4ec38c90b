"""Rows of a Spark that does not run on Ray, such as ``local[*]``, a cluster or Spark Connect; they pass the driver.

All rows of a DataFrame are in the memory of this process at once; with a classic session, its JVM has them, too. The
bridge logs a warning once for each session. A session of ``tidewheel.spark_bridge.session`` avoids this.
"""

import logging
from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import ArrayType, MapType, StructType

from tidewheel.spark_bridge import jvm
from tidewheel.spark_bridge.arrow_streams import write_stream
from tidewheel.spark_bridge.errors import computing
from tidewheel.spark_bridge.spark_release import installed
from tidewheel.spark_bridge.spark_types import arrow_type, quoted, spark_schema, spark_type

_logger = logging.getLogger(__name__)

_noted: WeakSet[SparkSession] = WeakSet()


def is_remote(spark: SparkSession) -> bool:
    """Tell whether this is a session of Spark Connect, whose driver is another process."""
    return getattr(spark, "sparkContext", None) is None


def master(spark: SparkSession) -> str:
    """Return the master of a session, such as ``local[2]``."""
    return "Spark Connect" if is_remote(spark) else str(spark.sparkContext.master)


def cores(spark: SparkSession) -> int:
    """Return the number of tasks that a session runs at once; 1 if it is unknown."""
    return 1 if is_remote(spark) else int(spark.sparkContext.defaultParallelism)


def note(spark: SparkSession) -> None:
    """Warn, once for each session, that its rows pass the driver."""
    if spark in _noted:
        return
    _noted.add(spark)
    _logger.warning(
        "the rows of DataFrames pass the driver, as their Spark (%s) does not run on Ray. So each DataFrame has to fit "
        "into the driver's memory, and a cluster of Spark is slower by that: a session of "
        "tidewheel.spark_bridge.session() moves rows between executors and workers instead",
        master(spark),
    )


def column_types(df: DataFrame) -> list[tuple[str, str]]:
    if not installed().converts_arrow:
        return jvm.column_types(df)
    return [(field.name, field.dataType.simpleString()) for field in df.schema.fields]


def arrow_schema(df: DataFrame) -> pa.Schema | None:
    """Return the Arrow schema of the rows; None if Arrow or PySpark has no type for a column."""
    try:
        rows = arrow_type(df.schema)
    except (PySparkException, ValueError):  # PySpark cannot even name the type
        return None
    return None if rows is None else pa.schema(rows)


def collected(df: DataFrame, schema: pa.Schema, name: str) -> pa.Table:
    """Compute a DataFrame; return its rows in order, as a table with ``schema``, the result of `arrow_schema`.

    Raises:
        BridgeError: Spark could not compute the DataFrame ``name``.
    """
    with computing(name):
        table = _of_spark_4(_nullable(df)).toArrow() if installed().converts_arrow else _collected_privately(df, schema)
    return table.cast(schema)


def created(spark: SparkSession, tables: Iterable[pa.Table], schema: pa.Schema) -> DataFrame:
    """Return a DataFrame with the rows of these tables."""
    table = pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
    rows = spark_schema(schema)
    if installed().converts_arrow:
        made: DataFrame = _of_spark_4(spark).createDataFrame(table, rows)
        return made
    return jvm.dataframe_of_tables(spark, [table], write_stream, rows.json())


def _nullable(df: DataFrame) -> DataFrame:
    """Return a DataFrame in which every column and nested field may be null.

    PySpark 4 fails for a null struct whose fields are not nullable.
    """
    columns = []
    for field in df.schema.fields:
        column = functions.col(quoted(field.name))
        if isinstance(field.dataType, ArrayType | MapType | StructType):
            column = column.cast(spark_type(arrow_type(field.dataType))).alias(field.name)
        columns.append(column)
    return df.select(*columns)


def _collected_privately(df: DataFrame, schema: pa.Schema) -> pa.Table:
    batches = jvm.collected_batches(df)
    return pa.Table.from_batches(batches) if batches else schema.empty_table()


def _of_spark_4(value: Any) -> Any:
    """Return ``value`` untyped: an object of PySpark 4 has methods that the type stubs of 3.5 lack."""
    return value
