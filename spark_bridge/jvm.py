"""All private parts of Spark, PySpark and RayDP that the bridge uses.

PySpark has no public access to the Java object of a session or DataFrame, and RayDP has none to the executors' cache.
Any release may change the private parts. So `pyproject.toml` allows only releases that have passed
``tests/unit/spark_bridge/test_jvm.py``, the test of these parts.
"""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# ------------------------------------------------------------------ sessions


@dataclass(frozen=True, slots=True)
class RaydpSession:
    """The session of ``raydp.init_spark`` in this process, and whether its JVM is connected to Ray."""

    spark: "SparkSession"
    is_connected: bool


def raydp_session() -> RaydpSession | None:
    """Return RayDP's session in this process; None if there is none.

    Relies on ``_spark_session`` and ``_fault_tolerant_mode`` of ``raydp.context._global_spark_context``.
    """
    context = sys.modules.get("raydp.context")
    running: Any = None if context is None else context._global_spark_context
    if running is None or running._spark_session is None:
        return None
    return RaydpSession(running._spark_session, bool(running._fault_tolerant_mode))


def active_context() -> "SparkContext | None":
    """Return the SparkContext of this process; None if there is none.

    Relies on ``SparkContext._active_spark_context``; the public ``getOrCreate`` would start one.
    """
    from pyspark import SparkContext

    return SparkContext._active_spark_context


@contextmanager
def errors_without(noise: str) -> Iterator[None]:
    """Hide lines that match ``noise`` from the standard error of a JVM that PySpark starts in the block.

    While the JVM runs, a thread passes on all other lines.

    Relies on ``launch_gateway`` of ``pyspark.context`` and its argument ``popen_kwargs``.
    """
    import pyspark.context

    private = _any(pyspark.context)  # its types lack the functions that it imports
    launch = private.launch_gateway
    reading, writing = os.pipe()
    relay = partial(_relay, reading, re.compile(rf"(?m)(?:{noise})\n".encode()))
    threading.Thread(target=relay, name="tidewheel-jvm-errors", daemon=True).start()
    private.launch_gateway = partial(launch, popen_kwargs={"stderr": writing})
    try:
        yield
    finally:
        private.launch_gateway = launch
        os.close(writing)


def _relay(reading: int, noise: re.Pattern[bytes]) -> None:
    """Pass on each piece of output at once; drop a matching line if it arrives in one piece."""
    with suppress(OSError), open(reading, "rb", 0) as pieces, open(2, "wb", closefd=False) as shown:
        while piece := pieces.read(2**16):
            shown.write(noise.sub(b"", piece))
            shown.flush()


def was_stopped(spark: "SparkSession") -> bool:
    """Tell whether ``spark.stop()`` has ended a session. Relies on ``SparkContext._jsc``, which is then None."""
    return spark.sparkContext._jsc is None


def disconnect_from_ray(spark: "SparkSession") -> None:
    """Disconnect a driver's JVM from Ray, to which ``SparkCluster.connect_spark_driver_to_ray`` has connected it.

    Relies on ``RayAppMaster.shutdownRay``, as ``raydp.stop_spark`` does.
    """
    driver_jvm(spark).org.apache.spark.deploy.raydp.RayAppMaster.shutdownRay()


def is_stopped_under(query: "StreamingQuery") -> bool:
    """Tell whether the Spark session of a query was stopped; relies on ``StreamingQuery._jsq``."""
    java_query: Any = query._jsq
    return bool(java_query.sparkSession().sparkContext().isStopped())


def driver_jvm(spark: "SparkSession") -> Any:
    """Return Py4J's view of the driver's JVM; relies on ``SparkSession._jvm``."""
    return spark._jvm


def captured_message(error: Any) -> str | None:
    """Return the message of the first cause of a Spark exception; None for any other exception.

    Relies on ``desc`` and ``cause`` of ``CapturedException``, which in PySpark 4 begin with an underscore.
    """
    text: str | None = None
    while error is not None and (described := getattr(error, "desc", getattr(error, "_desc", None))) is not None:
        text, error = described, getattr(error, "cause", getattr(error, "_cause", None))
    return text


# ------------------------------------------------------------------ DataFrames


def column_types(df: "DataFrame") -> list[tuple[str, str]]:
    """Return the names and types of columns, including types unknown to PySpark; relies on ``DataFrame._jdf``."""
    return [(field.name(), field.dataType().simpleString()) for field in df._jdf.schema().fields()]


def partition_count(df: "DataFrame") -> int:
    """Return the number of partitions that Spark plans; relies on ``DataFrame._jdf``.

    The public ``df.rdd`` would plan again.
    """
    return int(df._jdf.queryExecution().toRdd().getNumPartitions())


def collected_batches(df: "DataFrame") -> list[Any]:
    """Compute a DataFrame and return its Arrow record batches in order; relies on ``DataFrame._collect_as_arrow``."""
    return list(df._collect_as_arrow())


def arrow_schema_stream(df: "DataFrame") -> bytes:
    """Return the Arrow schema of a DataFrame's cached blocks, as an Arrow IPC message.

    Relies on RayDP's ``ObjectStoreWriter.toArrowSchema`` and on Spark's Arrow classes.

    Raises:
        py4j.protocol.Py4JError: Arrow has no type for a column.
    """
    jvm = driver_jvm(df.sparkSession)
    stream = jvm.java.io.ByteArrayOutputStream()
    channel = jvm.org.apache.arrow.vector.ipc.WriteChannel(jvm.java.nio.channels.Channels.newChannel(stream))
    schema = _writer(df.sparkSession).toArrowSchema(df._jdf)
    jvm.org.apache.arrow.vector.ipc.message.MessageSerializer.serialize(channel, schema)
    return bytes(stream.toByteArray())


def dataframe_of_tables(
    spark: "SparkSession", tables: Any, write: Callable[[Any, Any], None], schema_json: str
) -> "DataFrame":
    """Return a DataFrame of Arrow tables; the rows pass the driver.

    Relies on ``SparkContext._serialize_to_jvm``, ``SparkSession._jsparkSession`` and ``PythonSQLUtils``, as PySpark's
    ``createDataFrame`` does for pandas.

    Args:
        spark: the session.
        tables: the tables.
        write: writes the tables as an Arrow IPC stream to the file or socket that the JVM reads.
        schema_json: the Spark schema of the rows, as JSON.
    """
    from pyspark.sql import DataFrame

    jvm, context = driver_jvm(spark), _any(spark.sparkContext)
    read: Callable[[str], Any] = jvm.PythonSQLUtils.readArrowStreamFromFile
    batches = context._serialize_to_jvm(tables, SimpleNamespace(dump_stream=write), read, jvm.ArrowIteratorServer)
    return DataFrame(jvm.PythonSQLUtils.toDataFrame(batches, schema_json, _any(spark)._jsparkSession), spark)


# ------------------------------------------------------------------ Spark's cache


def cache_as_arrow(df: "DataFrame") -> Any:
    """Compute a DataFrame into the cache as Arrow batches; return RayDP's description of it.

    Relies on ``ObjectStoreWriter.prepareRecoverableRDD`` and ``SparkContext._getJavaStorageLevel``. The description has
    ``rddId()``, ``schemaJson()``, ``driverAgentUrl()`` and ``locations()``.

    Raises:
        py4j.protocol.Py4JError: Spark could not compute the DataFrame.
    """
    from pyspark import StorageLevel

    level = _any(df.sparkSession.sparkContext)._getJavaStorageLevel(StorageLevel.MEMORY_AND_DISK)
    return _writer(df.sparkSession).prepareRecoverableRDD(df._jdf, level)


def drop_cached(spark: "SparkSession", rdd: int) -> None:
    """Drop the cached RDD with this number; relies on ``ObjectStoreWriter.releaseRecoverableRDD``."""
    _writer(spark).releaseRecoverableRDD(rdd)


def drop_cached_at(spark: "SparkSession", site: str) -> None:
    """Drop the RDDs that were marked to be cached at a call site; relies on ``SparkContext._jsc``."""
    for rdd in list(_any(spark.sparkContext)._jsc.getPersistentRDDs().values()):
        if rdd.rdd().getCreationSite() == site:
            rdd.unpersist(False)


def is_determinate(spark: "SparkSession", rdd: int) -> bool:
    """Tell whether recomputing a cached RDD would give the same rows; relies on ``SparkContext._jsc``."""
    cached = _any(spark.sparkContext)._jsc.getPersistentRDDs().get(rdd).rdd()
    return str(cached.outputDeterministicLevel().toString()) != "INDETERMINATE"


# ------------------------------------------------------------------ Ray objects


def rdd_of_objects(spark: "SparkSession", names: Sequence[bytes], owners: Sequence[bytes]) -> Any:
    """Return a Java RDD with one Ray object for each partition, which the executors read.

    Relies on RayDP's ``RayDatasetRDD``, which needs the binary name of each object and its owner's address.
    """
    classes = driver_jvm(spark).org.apache.spark.rdd
    return classes.RayDatasetRDD(_any(spark)._jsc, list(names), list(owners))


def dataframe_of_rdd(spark: "SparkSession", rdd: Any, schema_json: str) -> "DataFrame":
    """Return the DataFrame of an RDD from `rdd_of_objects`; relies on RayDP's ``ObjectStoreReader``."""
    from pyspark.sql import DataFrame

    reader = driver_jvm(spark).org.apache.spark.sql.raydp.ObjectStoreReader
    return DataFrame(reader.RayDatasetToDataFrame(_any(spark)._jsparkSession, rdd, schema_json), spark)


def _writer(spark: "SparkSession") -> Any:
    return driver_jvm(spark).org.apache.spark.sql.raydp.ObjectStoreWriter


def _any(value: Any) -> Any:
    return value
