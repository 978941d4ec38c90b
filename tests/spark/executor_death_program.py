"""A program that kills the executor, and then stops Spark, while jobs read from it, run in a process of its own.

It starts Spark with RayDP itself, as a program may that has used RayDP before.

Its standard output is one JSON object of what it saw.
"""

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import raydp

import tidewheel as tw
from tests.spark.conftest import FAST_START
from tests.spark.sources import KeepsSource, messages
from tidewheel.spark_bridge import feed, from_spark, ray_cluster, session, to_spark
from tidewheel.spark_bridge.java import find_java, java_environment, process_environment
from tidewheel.spark_bridge.spark_configuration import spark_configuration
from tidewheel.spark_bridge.structured_streaming.feed_query import StreamingFeed

BLOCKS = 40
ROWS = 4_000


def executor(spark: Any) -> int:
    """Return the number of the process that is Spark's executor: the parent of its Python workers."""

    def find(_rows: Iterator[int]) -> Iterator[int]:
        yield next(process.pid for process in psutil.Process().parents() if "java" in process.name())

    (pid,) = spark.sparkContext.parallelize([0], 1).mapPartitions(find).collect()
    return int(pid)


def slowly(batch: Any) -> Any:
    """Take a while over a batch."""
    threading.Event().wait(0.05)
    return batch


def read(spark: Any, name: str, strike: Any) -> str:
    """Read a DataFrame in a job, strike when it has read a little, and say how it ended."""
    df = spark.range(ROWS, numPartitions=BLOCKS).selectExpr("id", f"cast(id div {ROWS // BLOCKS} as int) as epoch")
    flow = tw.Dataflow(name)
    rows = from_spark(flow, "rows", df, time="epoch", partitions=BLOCKS).map_batches(slowly)
    rows.probe("read")
    rows.capture("rows")
    try:
        with tw.run(flow, workers=2) as job:
            job.probe("read").wait_until(3, timeout_s=60)
            strike()
            job.wait(timeout_s=200)
            found = sorted(n for entry in job.captured("rows") for n in entry.batch["id"].to_pylist())
    except tw.JobError as error:
        return str(error)
    return "all" if found == list(range(ROWS)) else f"{len(found)} rows, {len(set(found))} of them different"


@contextmanager
def fed(spark: Any) -> Iterator[StreamingFeed]:
    """Have a job that is fed once a second."""
    flow = tw.Dataflow("fed")
    flow.input("rows").probe("done")
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    job = tw.run(flow, workers=1)
    with tempfile.TemporaryDirectory() as checkpoint:
        feeding = feed(job.input("rows"), rows, checkpoint=checkpoint, trigger={"processingTime": "1 second"})
        job.probe("done").wait_until(1, timeout_s=60)
        yield feeding
        job.stop()


def main() -> None:
    """Print what was seen."""
    with java_environment(find_java()), process_environment(PYSPARK_PYTHON=sys.executable):
        ray_cluster.connect()
        started = raydp.init_spark("mortal", 1, 1, "512m", configs=spark_configuration(FAST_START))
    with session("other", executors=2) as spark:
        is_adopted = spark is started
        pid = executor(spark)
        killed = read(spark, "killed", lambda: os.kill(pid, signal.SIGKILL))
    with session("other again") as spark:
        again = to_spark(spark, messages(from_spark(KeepsSource(), "again", spark.range(50), partitions=3))).count()
        with fed(spark) as feeding:
            stopped, left = read(spark, "stopped", raydp.stop_spark), "it goes on"
            try:
                feeding.wait(60)
            except tw.JobError as error:
                left = str(error)
    seen = {"killed": killed, "again": again, "stopped": stopped, "left": left, "adopted": is_adopted}
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
