"""A program that bridges a Spark session without RayDP, run by a test in a process of its own, as Spark needs one.

Its standard output is one JSON object of what it saw. With the argument ``connect`` the session is of Spark Connect.
RayDP cannot be imported in it, nor can the private parts of PySpark 4 be used that move rows.
"""

import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import tidewheel as tw
from tests.spark.conftest import FAST_START
from tests.spark.micro_batches import add_file, reading
from tests.spark.sources import KeepsSource, messages, read
from tests.spark.test_round_trip import COLUMNS, same_rows
from tidewheel.spark_bridge import BridgeError, feed, from_spark, jvm, session, to_spark
from tidewheel.spark_bridge.java import find_java, java_environment
from tidewheel.spark_bridge.spark_release import installed


class Notes(logging.Handler):
    """Keeps the warnings that are logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        self.lines.append(record.getMessage())


def close_private_doors() -> None:
    """Have RayDP not be found, and the private ways of rows not be used."""
    sys.modules["raydp"] = None  # type: ignore[assignment]

    def refused(*_: Any) -> Any:
        raise AssertionError("rows took a private way")

    doors: Any = jvm
    for name in ("column_types", "collected_batches", "dataframe_of_tables", "driver_jvm"):
        if installed().converts_arrow:
            setattr(doors, name, refused)


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
    }


def fed(spark: SparkSession, folder: Path, engine: Any) -> Any:
    """Feed a job with a file of each micro-batch, and return what it received."""
    for number in range(3):
        add_file(folder / "in", number, [number, 10 * number])
    flow = tw.Dataflow("fed")
    flow.input("rows").capture("rows")
    with tw.run(flow, workers=2, engine=engine) as job:
        try:
            with feed(
                job.input("rows"),
                reading(spark, folder / "in"),
                checkpoint=folder / "c",
                trigger={"availableNow": True},
            ) as feeding:
                feeding.wait(60)
        except BridgeError as error:
            job.stop()
            return str(error)
        job.wait(60)
        return sorted((one.time, one.batch["n"].to_pylist()) for one in job.captured("rows"))


def start(kind: str) -> SparkSession:
    """Start a session of Spark."""
    if kind == "connect":
        return SparkSession.builder.remote("local[1]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", **FAST_START}
    builder = SparkSession.builder.master("local[1]").appName("plain").config("spark.log.level", "ERROR")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(kind: str = "classic") -> None:
    """Print what was seen."""
    notes = Notes()
    logging.getLogger("tidewheel").addHandler(notes)
    logging.getLogger("tidewheel").setLevel(logging.INFO)
    close_private_doors()
    with java_environment(find_java()), tempfile.TemporaryDirectory() as folder:
        spark = start(kind)
        try:
            seen = look(spark)
            seen["fed"] = fed(spark, Path(folder), "local")
            seen["session"] = kind == "classic" and refusal(session("late").__enter__)
        finally:
            spark.stop()
    seen["warnings"] = notes.lines
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
