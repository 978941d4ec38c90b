"""A pipeline both ways: Spark streams flights into a loop, hour by hour, and streams out how late each might leave.

Structured Streaming replays the worst day of 2013 in New York. Each micro-batch is an hour, and an epoch of the
dataflow, where planes and airports hand on their delays until nothing changes; what flights of earlier hours came to is
all they know. The result is a live topic: this program reads along, while Spark reads it as a streaming DataFrame and
joins it with its tables of airlines, airports and planes. Each hour arrives exactly once, there and back.
"""

import argparse
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

import tidewheel as tw
from examples.parts.delay_propagation import expected
from examples.parts.flight_hours import YEAR, flight_hours, write_hours
from examples.parts.flight_tables import FLIGHT, counts, named
from tidewheel.spark_bridge import feed, session, write_epochs

BEGIN = datetime(2013, 3, 8)  # noqa: DTZ001 - New York's time; it snowed
LATE = 15
# For a program of a minute: compile fast rather than well, and shuffle nothing.
CONFIGS: dict[str, Any] = {f"spark.{jvm}.extraJavaOptions": "-XX:TieredStopAtLevel=1" for jvm in ("driver", "executor")}
CONFIGS["spark.sql.shuffle.partitions"] = 1


def tell(live: tw.types.Subscription) -> None:
    """Print, as hours come, how many of their flights are expected to be late, and how many then were."""
    print(f"Flights that leave New York, by hour of plan; late is {LATE} minutes or more", flush=True)
    for epoch in live.epochs(timeout_s=60):
        flights = epoch.records
        hour = YEAR + timedelta(minutes=flights[0]["planned"])
        late = [flight["expected"] >= LATE for flight in flights if flight["left_late"] >= LATE]
        soon = sum(flight["expected"] >= LATE for flight in flights)
        minutes = sum(flight["expected"] for flight in flights)
        print(
            f"{hour:%-d %B %H:00}  {len(flights):2} flights: {soon:2} expected to be late, by {minutes:5,} minutes "
            f"in all; {len(late):2} were, {sum(late):2} of them as expected",
            flush=True,
        )


def pipeline(spark: SparkSession, folder: Path, hours: int, workers: int) -> None:
    write_hours(flight_hours(BEGIN, hours), folder / "hours")
    flights = spark.readStream.schema(FLIGHT).option("maxFilesPerTrigger", 1).parquet(f"{folder}/hours")
    flow = tw.Dataflow("flights")
    expected(flow.input("flights")).publish("expected", log=tw.Log(folder / "log"))
    with tw.run(flow, workers=workers) as job:
        with (
            tw.subscribe("expected") as live,
            write_epochs("expected", folder / "expected", checkpoint=folder / "written") as writer,
        ):
            back = spark.readStream.schema(f"{FLIGHT}, expected long").parquet(writer.path)
            query = named(spark, back, folder / "tables").writeStream.format("memory").queryName("named").start()
            options: Any = {"trigger": {"availableNow": True}, "commit_after": job.topic("expected")}
            feed(job.input("flights"), flights, checkpoint=folder / "fed", **options)
            tell(live)
            writer.wait(timeout_s=60)
        job.wait(timeout_s=60)
    query.processAllAvailable()
    query.stop()
    for by in ("airline", "destination", "model"):
        counts(spark.table("named"), by, LATE).show(4, truncate=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="how many workers; 2 by default")
    parser.add_argument("--hours", type=int, default=19, metavar="N", help="how many hours; a day, which is 19 of them")
    chosen = parser.parse_args()
    with TemporaryDirectory() as folder, session("flights", configs=CONFIGS) as spark:
        pipeline(spark, Path(folder), chosen.hours, chosen.workers)


if __name__ == "__main__":
    main()
