"""The contract of the private parts of a running Spark on Ray that the bridge relies on."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tidewheel.spark_bridge import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_dataframe_has_its_java_object(spark: "SparkSession") -> None:
    """PySpark keeps it, and with it come column types, partitions and Arrow batches."""
    df = spark.range(10, numPartitions=3)
    assert jvm.column_types(df) == [("id", "bigint")]
    assert jvm.partition_count(df) == 3
    assert pa.Table.from_batches(jvm.collected_batches(df)).column("id").to_pylist() == list(range(10))
    assert pa.ipc.read_schema(pa.py_buffer(jvm.arrow_schema_stream(df))).names == ["id"]


def test_a_session_has_its_java_objects(spark: "SparkSession") -> None:
    """PySpark knows the context of the process, and the JVM of the driver answers."""
    assert jvm.active_context() is spark.sparkContext
    assert not jvm.was_stopped(spark)
    assert jvm.driver_jvm(spark).java.lang.Math.abs(-3) == 3
    assert jvm.raydp_session() is None  # the bridge's own sessions are not RayDP's global one


def test_cached_partitions_can_be_found_and_dropped(spark: "SparkSession") -> None:
    """RayDP says where a DataFrame is cached, and drops it by its number."""
    context: Any = spark.sparkContext
    info = jvm.cache_as_arrow(spark.range(10, numPartitions=2))
    number = info.rddId()
    assert len(list(info.locations())) == 2
    assert info.schemaJson()
    assert info.driverAgentUrl()
    assert jvm.is_determinate(spark, number)
    assert number in context._jsc.getPersistentRDDs()
    jvm.drop_cached(spark, number)
    assert number not in context._jsc.getPersistentRDDs()
