"""A Spark session that the program has started itself with ``raydp.init_spark``, and the bridge uses as it is."""

import logging
import os
from typing import TYPE_CHECKING

from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.jvm import raydp_session, was_stopped
from tidewheel.spark_bridge.spark_configuration import JAVA_OPTIONS_SETTINGS, OPENED_PACKAGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)


def running_session() -> "SparkSession | None":
    """Return the session that RayDP runs in this process, None if it runs none.

    Raises:
        BridgeError: it was started without what conversions need.
    """
    running = raydp_session()
    if running is None:
        return None
    spark = running.spark
    if was_stopped(spark):
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
    """Return the settings that do not open the packages of the JDK which Ray's serialiser looks into."""
    everywhere = os.environ.get("JDK_JAVA_OPTIONS", "")
    configuration = spark.sparkContext.getConf()

    def opens(options: str) -> bool:
        return all(f"{package}=ALL-UNNAMED" in options for package in OPENED_PACKAGES)

    settings = {name: str(configuration.get(name, "")) for name in JAVA_OPTIONS_SETTINGS}
    return [name for name, options in settings.items() if not opens(f"{everywhere} {options}")]
