"""A program that feeds an exactly-once topic from Spark, and may kill itself at the worst moment.

``python -m tests.spark.feed_kill_program FOLDER MOMENT EPOCH``, in a process group of its own, which has its JVM, too.
At EPOCH, once its micro-batch was sent, and before Spark commits it, the whole group is killed: at once if MOMENT is
``sent``, when its records are in FOLDER/read, where a subscriber writes them, if it is ``read``, and if it is
``durable`` when the log has them. With ``never`` it ends when all files are read. The ids of micro-batches that are
delivered go to FOLDER/delivered.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

import tidewheel as tw
from tests.ray.topics.durable_program import append
from tests.spark.conftest import FAST_START
from tests.spark.micro_batches import reading
from tests.waiting import eventually
from tidewheel.spark_bridge import feed
from tidewheel.spark_bridge.java import find_java, java_environment
from tidewheel.spark_bridge.structured_streaming.micro_batch import deliver

TOPIC = "fed-and-killed"
DELIVER = "tidewheel.spark_bridge.structured_streaming.feed_query.deliver"
DEADLINE_S = 60.0


def dying(folder: Path, moment: str, epoch: int, job: tw.types.Job) -> Any:
    """Return ``deliver``, but that it dies after a micro-batch."""

    def deliver_and_die(batch_id: int, rows: Any, input: Any) -> Any:
        with (folder / "delivered").open("a", encoding="utf-8") as file:
            append(file, batch_id)
        delivered = deliver(batch_id, rows, input)
        if batch_id == epoch and moment != "never":
            if moment != "sent":
                job.topic(TOPIC).wait_until(epoch + 1, DEADLINE_S)
            if moment == "read":
                assert eventually(lambda: f", {epoch}, [" in (folder / "read").read_text(), DEADLINE_S)
            os.killpg(0, signal.SIGKILL)
        return delivered

    return deliver_and_die


def main() -> None:
    """Feed the topic."""
    folder, moment, epoch = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    flow = tw.Dataflow("killed")
    numbers = flow.input("rows").flat_map(lambda row: [row["n"]])
    numbers.publish(TOPIC, log=tw.Log(folder / "log"))
    with java_environment(find_java()):
        builder = SparkSession.builder.master("local[1]").config("spark.log.level", "ERROR")
        for name, value in {"spark.ui.enabled": "false", **FAST_START}.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        rows = reading(spark, folder / "in")
        with tw.run(flow, workers=2) as job, patch(DELIVER, dying(folder, moment, epoch, job)):
            feeding = feed(
                job.input("rows"),
                rows,
                checkpoint=folder / "checkpoint",
                trigger={"availableNow": True},
                commit_after=job.topic(TOPIC),
            )
            feeding.wait(DEADLINE_S)
            job.wait(DEADLINE_S)
        spark.stop()


if __name__ == "__main__":
    main()
