"""A Spark session whose executors are actors of a Ray cluster.

RayDP has fixed names for its actors, and PySpark has one SparkContext. So a process, and a Ray namespace, can have only
one session. This module starts a session with all its needs (Java, Python, Ray, resources for the executors), and
restores the process's environment afterwards.
"""

import atexit
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidewheel.spark_bridge import jvm, spark_configuration
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.java import find_java, java_environment, process_environment
from tidewheel.spark_bridge.spark_release import installed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from raydp.spark import SparkCluster

_logger = logging.getLogger(__name__)
_only_one = threading.Lock()


@contextmanager
def session(
    app_name: str,
    *,
    executors: int = 1,
    cores: int = 1,
    memory: str = "1g",
    configs: Mapping[str, object] | None = None,
) -> "Iterator[SparkSession]":
    """Start Spark on Ray, yield its ``SparkSession``, and stop Spark at the end of the ``with`` block.

    The session uses the Ray to which this process is connected, or starts Ray in the namespace ``tidewheel``. It never
    stops Ray, since a job may still use it; a Ray started here ends with the process. A stream of ``from_spark`` that
    no job has read outlives the block; DataFrames, including those of ``to_spark``, do not. A job that is still reading
    fails.

    During the block, the session takes ``executors * cores`` CPUs of the cluster, and sets ``JAVA_HOME``, ``PATH`` and
    ``PYSPARK_PYTHON`` of this process for Spark. Spark logs errors only. Starting takes 10 to 20 seconds.

    If the program has started a session with ``raydp.init_spark``, this yields that session, ignores the arguments, and
    does not stop it afterwards.

    Args:
        app_name: the name of the Spark application.
        executors: the number of Spark executors, each a Ray actor.
        cores: the CPUs of each executor.
        memory: the heap of each executor, as Spark writes it (``"512m"``, ``"1g"``).
        configs: more Spark settings; Java options are added to those that RayDP needs.

    Raises:
        BridgeError: RayDP is not installed, or does not fit this Spark; there is no Java 17, or the cluster has too few
            free resources; this process or namespace has another session, or the process uses Ray Client; RayDP could
            not start, or the program's own session lacks settings that conversions need.
    """
    installed().check_raydp()
    from tidewheel.spark_bridge import ray_cluster

    if cores < 1:
        raise BridgeError(f"a Spark executor needs one core or more, not cores={cores!r}")
    settings = spark_configuration.spark_configuration(configs)
    demand = ray_cluster.executor_demand(executors, spark_configuration.executor_cpus(settings, cores), memory)
    if not _only_one.acquire(blocking=False):
        raise BridgeError(f"this process already has a Spark session, and can have one: leave it before {app_name!r}")
    try:
        running = running_session()
        if running is not None:
            yield running
            return
        _refuse_foreign_session()
        with java_environment(find_java()), process_environment(PYSPARK_PYTHON=sys.executable):
            ray_cluster.connect()
            ray_cluster.require_free_name()
            ray_cluster.await_room(demand)
            with _started(app_name, executors, cores, memory, settings) as spark:
                yield spark
    finally:
        _only_one.release()


def running_session() -> "SparkSession | None":
    """Return RayDP's session in this process; None if there is none.

    Raises:
        BridgeError: the session lacks settings that conversions need.
    """
    running = jvm.raydp_session()
    if running is None:
        return None
    spark = running.spark
    if jvm.was_stopped(spark):
        raise BridgeError(
            "RayDP's Spark session of this process was stopped by spark.stop(), which leaves its actors running: call "
            "raydp.stop_spark() before another session"
        )
    if not running.is_connected:
        raise BridgeError(
            f"the Spark session {spark.sparkContext.appName!r} was started without a connection from its JVM to Ray: "
            "call raydp.init_spark(..., fault_tolerant_mode=True), which is the default"
        )
    closed = _closed_to_ray(spark)
    if closed:
        raise BridgeError(
            f"the Spark session {spark.sparkContext.appName!r} was started without Java options that Ray's "
            f"serialiser needs on Java 17 ({', '.join(closed)}), so its actors would die. Pass "
            "configs=tidewheel.spark_bridge.spark_configuration.spark_configuration({...}) to raydp.init_spark, "
            "or let tidewheel.spark_bridge.session start Spark"
        )
    _logger.info("using the Spark session %r that this process runs, as it is", spark.sparkContext.appName)
    return spark


def _closed_to_ray(spark: "SparkSession") -> list[str]:
    everywhere = os.environ.get("JDK_JAVA_OPTIONS", "")
    configuration = spark.sparkContext.getConf()

    def opens(options: str) -> bool:
        return all(f"{package}=ALL-UNNAMED" in options for package in spark_configuration.OPENED_PACKAGES)

    settings = {name: str(configuration.get(name, "")) for name in spark_configuration.JAVA_OPTIONS_SETTINGS}
    return [name for name, options in settings.items() if not opens(f"{everywhere} {options}")]


def _refuse_foreign_session() -> None:
    """Raise if PySpark already runs in this process: RayDP would get that SparkContext instead of its own."""
    context = jvm.active_context()
    if context is not None:
        raise BridgeError(
            f"this process already runs Spark ({context.appName!r} on {context.master}), and can run only one. "
            "Stop that session first, or pass it to from_spark and to_spark: its rows go through the driver"
        )


@contextmanager
def _started(
    app_name: str, executors: int, cores: int, memory: str, settings: dict[str, str]
) -> "Iterator[SparkSession]":
    """Start a session, yield it, and stop it, at the latest when the process ends.

    This does not use ``raydp.init_spark``, since RayDP would stop its session by a call to Ray even after Ray's
    shutdown.
    """
    from raydp.spark import SparkCluster

    from tidewheel.spark_bridge import ray_cluster
    from tidewheel.spark_bridge.dataframe_blocks import CACHED
    from tidewheel.spark_bridge.dataframe_sink import LEASES

    _logger.info("starting Spark %r on Ray: %d executor(s) of %d core(s)", app_name, executors, cores)
    with tempfile.TemporaryDirectory(prefix="tidewheel-") as folder, ExitStack() as undo:
        log = Path(folder, "log4j2.properties")  # the driver's JVM reads it when it starts, and logs errors only
        log.write_text(spark_configuration.DRIVER_LOG_CONFIGURATION, encoding="utf-8")
        settings.setdefault(spark_configuration.DRIVER_LOG_SETTING, str(log))
        try:
            cluster = SparkCluster(app_name, executors, cores, memory, enable_hive=False, configs=settings)
            undo.callback(cluster.stop, cleanup_data=True)
            with jvm.errors_without(ray_cluster.NOISE):
                spark: SparkSession = cluster.get_spark_session()
            cluster.connect_spark_driver_to_ray()
        except Exception as error:
            raise BridgeError(f"RayDP could not start Spark {app_name!r} on Ray: {error}") from error
        undo.pop_all()
    spark.sparkContext.setLogLevel("ERROR")
    stop = partial(_stop, spark, cluster)
    atexit.register(stop)  # a program may end without leaving the block
    try:
        yield spark
    finally:
        atexit.unregister(stop)
        stop()
        LEASES.clear()
        CACHED.clear()


def _stop(spark: "SparkSession", cluster: "SparkCluster") -> None:
    import ray

    from tidewheel.spark_bridge.dataframe_blocks import CACHED
    from tidewheel.spark_bridge.ray_cluster import await_free_name

    if not ray.is_initialized():
        _logger.warning("Ray was shut down before the Spark session that ran on it ended")
        jvm.disconnect_from_ray(spark)
        spark.stop()  # without the cluster's own stop(), which would call an actor, and so start another Ray
        return
    try:
        CACHED.store_unread()
    finally:
        jvm.disconnect_from_ray(spark)
        cluster.stop(cleanup_data=True)
    if not await_free_name():
        _logger.warning("the actors of the Spark session have not ended yet: their CPUs will be free later")
