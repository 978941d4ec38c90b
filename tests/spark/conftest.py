"""One Spark session on Ray for all tests that need a real one: starting it takes some 15 seconds."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tidewheel.spark_bridge import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAST_START = {f"spark.{jvm}.extraJavaOptions": "-XX:TieredStopAtLevel=1" for jvm in ("driver", "executor")}


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Start Spark on Ray, with one executor of one core; a Ray that was not there before goes again afterwards."""
    import ray

    ray_was_there = ray.is_initialized()
    with session("tidewheel-tests", configs={"spark.sql.shuffle.partitions": 2, **FAST_START}) as started:
        yield started
    if not ray_was_there:
        ray.shutdown()
