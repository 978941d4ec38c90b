"""A program that stores a topic in a Spark table: ``python -m tests.spark.pipeline_table_program FOLDER``.

`write_epochs` puts the topic into FOLDER/rows. A query of Structured Streaming, on a Spark of this program's own,
stores these rows in the table FOLDER/table. At the end, what a reader finds in the table goes to FOLDER/table.json. The
program connects to the cluster that RAY_ADDRESS names. It may be killed. Started again, it goes on where it was.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import tidewheel as tw
from tests.ray.pipeline_program import TOPIC, Totals, say
from tests.spark.conftest import FAST_START
from tidewheel.spark_bridge import write_epochs
from tidewheel.spark_bridge.java import find_java, java_environment

SCHEMA = pa.schema({"account": pa.int64(), "cents": pa.int64()})
_DELAY_S = 0.2
_LOOK_EVERY_S = 1
_FOUND_WITHIN_S = 1.0


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    with java_environment(find_java()):
        builder = SparkSession.builder.master("local[1]").config("spark.log.level", "ERROR")
        for name, value in {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": 1, **FAST_START}.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        yield spark
        spark.stop()


def storing(spark: SparkSession, folder: Path) -> StreamingQuery:
    """Start the query that stores rows in the table."""
    rows = spark.readStream.schema("account long, cents long, epoch long").parquet(str(folder / "rows"))
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "query"))
    return writer.trigger(processingTime="200 milliseconds").start(str(folder / "table"))


def write_rows(folder: Path, query: StreamingQuery) -> None:
    """Write the topic until it ends, whichever job publishes it; raise what ends the query."""
    while True:
        options = {"checkpoint": folder / "written", "schema": SCHEMA, "time": "epoch", "timeout_s": _FOUND_WITHIN_S}
        try:
            with write_epochs(TOPIC, folder / "rows", max_delay_s=_DELAY_S, **options) as writer:
                while not writer.has_ended:
                    query.awaitTermination(_LOOK_EVERY_S)
                writer.wait()
        except (tw.errors.UnknownTopic, tw.errors.PublisherLost) as error:
            say(f"begins again: {error}")
            query.awaitTermination(_LOOK_EVERY_S)
        else:
            return


def stored_batches(folder: Path) -> int:
    """Return how many times the query has committed rows."""
    commits = folder / "table" / "_spark_metadata"
    return sum(not file.name.startswith(".") for file in commits.glob("*"))


def in_table(folder: Path) -> Totals:
    """Return what a reader has found in the table."""
    found: Totals = {}
    for epoch, account, cents in json.loads((folder / "table.json").read_text(encoding="utf-8")):
        found.setdefault(epoch, Counter())[account, cents] += 1
    return found


def main() -> None:
    """Store the topic."""
    folder = Path(sys.argv[1])
    (folder / "rows").mkdir(exist_ok=True)
    with spark_session() as spark:
        query = storing(spark, folder)
        write_rows(folder, query)
        query.processAllAvailable()
        query.stop()
        table = spark.read.parquet(str(folder / "table")).collect()
        found = sorted([row["epoch"], row["account"], row["cents"]] for row in table)
        (folder / "table.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
