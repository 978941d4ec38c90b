"""One Spark session on Ray for all tests that need a real one: starting it takes some 15 seconds."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tidewheel.spark_bridge import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAST_START = {f"spark.{jvm}.extraJavaOptions": "-XX:TieredStopAtLevel=1" for jvm in ("driver", "executor")}


@pytest.fixture(scope="session")
def spark(ray_cluster: str) -> "Iterator[SparkSession]":
    """Start Spark, with one executor of one core, on the Ray that all tests share."""
    with session("tidewheel-tests", configs={"spark.sql.shuffle.partitions": 2, **FAST_START}) as started:
        yield started
