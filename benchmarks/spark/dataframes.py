"""DataFrames into a dataflow and out of it, beside RayDP's own conversions and beside PySpark through its driver.

In: ``from_spark`` into a dataflow on two workers that counts rows, from the call to the end of the job, the start of
its actors included; RayDP's ``from_spark_recoverable`` and touching every batch of its dataset; ``toPandas`` by Arrow.
The start of a job that has nothing to read is told apart. Out: ``to_spark`` of Arrow tables, and RayDP's
``ray_dataset_to_spark_dataframe`` of the same tables, put into Ray's object store; each until Spark has aggregated
them. All take turns. The DataFrame is cached in Spark before: long, double, string, timestamp.

Then: how much of a DataFrame in time order had been read when its first epoch was complete; and a round trip through a
dataflow, compared with where it began as multisets of rows, column types included.
"""

import gc
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray
import ray.data
from pyspark.sql import functions
from raydp.spark.dataset import from_spark_recoverable, ray_dataset_to_spark_dataframe, release_spark_recoverable

import tidewheel as tw
from benchmarks.measuring.measurement import Report, alternate, arguments
from tidewheel.spark_bridge import from_spark, session, to_spark
from tidewheel.spark_bridge.java import find_java, java_environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, QUICK_ROWS = 10_000_000, 200_000
PARTITIONS, QUICK_PARTITIONS = 32, 8
ROUNDS, QUICK_ROUNDS = 5, 2
WARM_ROUNDS = 2
WORKERS = 2
TABLES = 16
EPOCHS = 30
COLUMNS = (
    "cast(id as int) as number",
    "id / 3 as ratio",
    "concat('row ', cast(id % 1000 as string)) as name",
    "timestamp_micros(1700000000000000 + id * 1000003) as at",
)
MOST_IN, MOST_OUT, MOST_READ = 1.25, 0.7, 1 / 3
SEED = 1
STORE_BYTES = 4 << 30
DEADLINE_S = 600.0


def main() -> None:
    options = arguments("Measure how DataFrames get into dataflows and out of them.")
    rows, partitions, rounds = (
        (QUICK_ROWS, QUICK_PARTITIONS, QUICK_ROUNDS) if options.quick else (ROWS, PARTITIONS, ROUNDS)
    )
    report = Report()
    with spark_on_ray() as spark:
        df = spark.range(rows, numPartitions=partitions).selectExpr(*COLUMNS).cache()
        df.count()
        measure_in(report, df, rows, rounds)
        measure_out(report, spark, table_of(df), rounds)
        measure_first(report, df, rows, rounds)
        round_trip(report, spark, df, rows)
        report.finish(options.json)


@contextmanager
def spark_on_ray() -> "Iterator[SparkSession]":
    """Start a Ray that has CPUs beside those of the executor, which RayDP's tasks need, and Spark on it."""
    warnings.simplefilter("ignore")  # RayDP uses what PySpark has deprecated
    with java_environment(find_java()):
        ray.init(
            num_cpus=6, object_store_memory=STORE_BYTES, include_dashboard=False, log_to_driver=False,
            namespace="tidewheel", logging_level=logging.ERROR,
        )  # fmt: skip
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    configs = {"spark.driver.memory": "2g", "spark.sql.execution.arrow.pyspark.enabled": True}
    try:
        with session(
            "benchmark", cores=2, memory="4g", configs={**configs, "spark.sql.shuffle.partitions": 8}
        ) as spark:
            yield spark
    finally:
        ray.shutdown()


def timed(call: Callable[[], object]) -> Callable[[], float]:
    """Return what makes a call, and returns how many seconds it took."""

    def measure() -> float:
        gc.collect()
        begin = perf_counter()
        call()
        return perf_counter() - begin

    return measure


def measure_in(report: Report, df: "DataFrame", rows: int, rounds: int) -> None:
    """Compare the ways in."""

    def ours() -> None:
        require(rows, count_in_dataflow(df))

    def raydps() -> None:
        dataset = from_spark_recoverable(df)
        found = sum(batch.num_rows for batch in dataset.iter_batches(batch_format="pyarrow", batch_size=None))
        release_spark_recoverable(df)
        require(rows, found)

    def pandas() -> None:
        require(rows, len(df.toPandas()))

    def nothing() -> None:
        flow = tw.Dataflow("nothing")
        flow.source("rows", tw.IterableSource([[]])).map_batches(count_batch).capture("count")
        with tw.run(flow, workers=WORKERS) as job:
            job.wait(DEADLINE_S)

    contestants = {"from_spark": ours, "RayDP": raydps, "toPandas": pandas, "a job without rows": nothing}
    took = take_turns({name: timed(call) for name, call in contestants.items()}, rounds)
    what = f"in, {rows:,} rows"
    for name, seconds in took.items():
        report.add(f"{what}, {name}", seconds, "s")
    whole = [own / other for own, other in zip(took["from_spark"], took["RayDP"], strict=True)]
    report.expect(f"{what}, from_spark by RayDP", report.add(f"{what}, from_spark by RayDP", whole, ""), MOST_IN)
    driver = [own / other for own, other in zip(took["from_spark"], took["toPandas"], strict=True)]
    report.add(f"{what}, from_spark by toPandas", driver, "")


def count_batch(batch: Any) -> list[int]:
    """Return how many rows a batch has."""
    return [len(batch)]


def count_in_dataflow(df: "DataFrame") -> int:
    """Return how many rows a dataflow counts."""
    flow = tw.Dataflow("count")
    from_spark(flow, "rows", df).map_batches(count_batch).capture("count")
    with tw.run(flow, workers=WORKERS) as job:
        job.wait(DEADLINE_S)
        return sum(count for entry in job.captured("count") for count in entry.batch)


def measure_out(report: Report, spark: "SparkSession", table: pa.Table, rounds: int) -> None:
    """Compare the ways out."""
    step = -(-table.num_rows // TABLES)
    tables = [table.slice(start, step) for start in range(0, table.num_rows, step)]
    messages = [Message(0, part) for part in tables]

    def check(df: "DataFrame") -> None:
        found = df.selectExpr("count(*)", "sum(number)", "sum(length(name))").first()
        require(table.num_rows, None if found is None else found[0])

    def ours() -> None:
        check(to_spark(spark, messages))

    def raydps() -> None:
        check(ray_dataset_to_spark_dataframe(spark, table.schema, [ray.put(part) for part in tables]))

    took = take_turns({"to_spark": timed(ours), "RayDP": timed(raydps)}, rounds)
    what = f"out, {table.num_rows:,} rows"
    for name, seconds in took.items():
        report.add(f"{what}, {name}", seconds, "s")
    ratios = [own / other for own, other in zip(took["to_spark"], took["RayDP"], strict=True)]
    report.expect(f"{what}, to_spark by RayDP", report.add(f"{what}, to_spark by RayDP", ratios, ""), MOST_OUT)


class Message:
    """A batch at a time."""

    def __init__(self, time: int, batch: pa.Table) -> None:
        self.time = time
        self.batch = batch


def measure_first(report: Report, df: "DataFrame", rows: int, rounds: int) -> None:
    """Tell which share of the reading of a DataFrame in time order was over when first records came to an operator."""

    def share() -> float:
        flow = tw.Dataflow("first")
        ordered = from_spark(flow, "rows", df, time=lambda given: (given.number * EPOCHS / rows).cast("int"))
        ordered.map_batches(clock).capture("clock")
        with tw.run(flow, workers=WORKERS) as job:
            begin = monotonic()
            job.wait(DEADLINE_S)
            times: list[float] = [at for entry in job.captured("clock") for at in entry.batch]
        return max(0.0, min(times) - begin) / (max(times) - begin)

    what = f"in order of time, {rows:,} rows, first records after this share of the reading"
    report.expect(what, report.add(what, [share() for _ in range(rounds)], ""), MOST_READ)


def clock(_batch: Any) -> list[float]:
    """Return the time, by the clock that all processes of a machine share."""
    return [monotonic()]


def round_trip(report: Report, spark: "SparkSession", df: "DataFrame", rows: int) -> None:
    """Send rows through a dataflow and back, and compare them with what they were."""
    flow = tw.Dataflow("round trip")
    from_spark(flow, "rows", df).capture("rows")
    begin = perf_counter()
    with tw.run(flow, workers=WORKERS) as job:
        job.wait(DEADLINE_S)
        back = to_spark(spark, job.captured("rows"), time=None)
    require(rows, back.count())
    report.add(f"round trip of {rows:,} rows, both counted", [perf_counter() - begin], "s")
    require(df.schema.simpleString(), back.schema.simpleString())
    begin = perf_counter()
    signed = df.selectExpr("*", "1 as sign").unionAll(back.selectExpr("*", "-1 as sign"))
    differing = signed.groupBy(*df.columns).agg(functions.sum("sign").alias("more")).where("more != 0").count()
    report.add(f"round trip of {rows:,} rows, compared", [perf_counter() - begin], "s")
    report.expect(f"round trip of {rows:,} rows, rows that differ", differing, 0)


def table_of(df: "DataFrame") -> pa.Table:
    """Return all rows as a table."""
    return pa.Table.from_pandas(df.toPandas(), preserve_index=False)


def take_turns(contestants: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return how long each took in each round, after some that do not count."""
    alternate(contestants, WARM_ROUNDS)
    return alternate(contestants, rounds, Random(SEED))


def require(expected: object, found: object) -> None:
    """Raise RuntimeError unless something is what it should be."""
    if found != expected:
        raise RuntimeError(f"found {found!r} instead of {expected!r}")


if __name__ == "__main__":
    main()
