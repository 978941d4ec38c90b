"""A program that bridges a Spark session without RayDP, run by a test in a process of its own, as Spark needs one.

Its standard output is one JSON object of what it saw.
"""

import json
import logging
import sys
from typing import Any

from pyspark.sql import SparkSession

import tidewheel as tw
from tests.spark.conftest import FAST_START
from tests.spark.sources import KeepsSource, messages, read
from tests.spark.test_round_trip import COLUMNS, same_rows
from tidewheel.spark_bridge import BridgeError, from_spark, session, to_spark
from tidewheel.spark_bridge.java import find_java, java_environment


class Notes(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        self.lines.append(record.getMessage())


def refusal(call: Any) -> str:
    """Return why something cannot be done."""
    try:
        call()
    except BridgeError as error:
        return str(error)
    return "it can"


def look(spark: SparkSession) -> dict[str, Any]:
    """Send rows there and back."""
    kinds = [kind for kind in COLUMNS if kind != "map"]
    values = [f"if((id + {at}) % 7 = 0, null, {COLUMNS[kind]}) as `{kind}`" for at, kind in enumerate(kinds)]
    df = spark.range(3_000).selectExpr(*values, "cast(id % 5 as int) as epoch")
    source = from_spark(KeepsSource(), "values", df, time="epoch", partitions=3)
    back = to_spark(spark, messages(source), time=None)
    maps = spark.range(50).selectExpr(f"{COLUMNS['map']} as m")
    days = spark.range(5_000).selectExpr("id", "cast(id % 9 as int) as day")
    flow = tw.Dataflow("through")
    from_spark(flow, "rows", days, time="day").exchange(lambda row: row["id"]).capture("rows")
    with tw.run(flow, workers=1) as job:
        job.wait()
        captured = job.captured("rows")
    through = to_spark(spark, captured, time="time")
    empty = from_spark(KeepsSource(), "empty", spark.range(0))
    return {
        "columns": back.schema.simpleString() == df.schema.simpleString(),
        "rows": same_rows(df, back),
        "differing": [name for name in df.columns if not same_rows(df[[name]], back[[name]])],
        "blocks": len(source.blocks),
        "epochs": [[time for time, _ in part] for part in read(source)],
        "maps": same_rows(maps, to_spark(spark, messages(from_spark(KeepsSource(), "maps", maps)), time=None)),
        "through": same_rows(through.where("time = day").drop("time"), days),
        "empty": [len(empty.blocks), empty.blocks.schema.names],
        "nothing": to_spark(spark, [], schema=empty.blocks.schema).count(),
        "foreign": refusal(lambda: from_spark(KeepsSource(), "spans", spark.sql("select interval 1 month as a"))),
        "session": refusal(session("late").__enter__),
    }


def main() -> None:
    """Print what was seen."""
    notes = Notes()
    logging.getLogger("tidewheel").addHandler(notes)
    logging.getLogger("tidewheel").setLevel(logging.INFO)
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", **FAST_START}
    with java_environment(find_java()):
        builder = SparkSession.builder.master("local[1]").appName("plain").config("spark.log.level", "ERROR")
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            seen = look(spark)
        finally:
            spark.stop()
    seen["notes"] = notes.lines
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
