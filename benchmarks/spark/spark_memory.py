"""The memory while Spark feeds a dataflow, and while the results of a dataflow become DataFrames.

1,000 micro-batches come as fast as they can, then to_spark is called 1,000 times, each with a count of the rows. After
a warm-up, which is a fifth of them, the memory of each process is compared between the first and the second half of the
rest, by medians: what the driver, the executor, RayDP's master and the workers have for themselves (USS), what of the
heap of the driver's JVM is left after a collection, and what Ray's object store holds. Heaps have their size from the
beginning, and the lists that Spark keeps of past executions, jobs and stages, of 1,000 each by default, are short, so
that both are full when the warm-up is over. ``--times N`` for how many; after the 50 of ``--quick`` the executor's JVM
is still coming to its size.
"""

import argparse
import gc
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

import psutil
import pyarrow as pa

import tidewheel as tw
from benchmarks.measuring.job_processes import compare_halves
from benchmarks.measuring.measurement import Report
from tidewheel.runtime.engines.ray_job import RayJob
from tidewheel.spark_bridge import feed, session, to_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS = 2
ROWS = 10_000
HEAP = "512m"
RETAINED = 50
CONFIGS = {
    "spark.driver.memory": HEAP,
    "spark.driver.extraJavaOptions": f"-Xms{HEAP} -XX:+AlwaysPreTouch",
    "spark.sql.ui.retainedExecutions": RETAINED,
    "spark.ui.retainedJobs": RETAINED,
    "spark.ui.retainedStages": RETAINED,
    "spark.ui.retainedTasks": RETAINED,
}
SAMPLES = 50
DEADLINE_S = 120.0
LONG, QUICK = 1000, 50
EVERY = 100
MIB = 2**20
MOST_STORED_IN_MIB, MOST_STORED_OUT_MIB = 2.0, 40.0
"""Some ten micro-batches; the blocks of 200 DataFrames, after which the JVM is asked which it has dropped."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure whether memory stays flat while rows come and go to Spark.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} of each")
    parser.add_argument("--times", type=int, metavar="N", help=f"how many of each; {LONG:,} by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    times = options.times or (QUICK if options.quick else LONG)
    report = Report()
    with session("memory", memory=HEAP, configs=CONFIGS) as spark, tempfile.TemporaryDirectory() as folder:
        sizes = measure_in(report, spark, folder, times)
        measure_out(report, spark, sizes, times)
    report.finish(options.json)


Sizes: TypeAlias = Mapping[str, Callable[[], float]]
"""Functions that return the MiB of each process, by name."""


def measure_in(report: Report, spark: "SparkSession", folder: str, batches: int) -> Sizes:
    """Feed a job with micro-batches, and return what tells the sizes of the processes that go on after it."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    flow = tw.Dataflow("micro-batches")
    flow.input("rows").map_batches(lambda batch: batch).probe("done")
    with tw.run(flow, workers=WORKERS) as job:
        assert isinstance(job, RayJob)
        kept = sizes_of(job, spark)
        workers = {f"worker {number}": uss_of(psutil.Process(pid)) for number, pid in enumerate(job.pids)}
        with feed(job.input("rows"), rows, checkpoint=folder):
            job.probe("done").wait_until(1, DEADLINE_S)
            reached = lambda at: job.probe("done").wait_until(at, DEADLINE_S)  # noqa: E731
            stored = sample(report, "micro-batches", {**kept, **workers}, batches, reached)
            report.expect("micro-batches: object store: what it holds in the end, MiB", stored, MOST_STORED_IN_MIB)
        job.wait(DEADLINE_S)
    return kept


def measure_out(report: Report, spark: "SparkSession", sizes: Sizes, calls: int) -> None:
    """Make DataFrames of messages, and count their rows."""
    table = pa.table({"n": range(ROWS), "twice": range(0, 2 * ROWS, 2)})
    made = 0

    def reached(at: int) -> None:
        nonlocal made
        while made < at:
            made += 1
            if to_spark(spark, [Message(made, table)]).count() != ROWS:
                raise RuntimeError(f"rows were lost in call {made}")

    stored = sample(report, "calls of to_spark", sizes, calls, reached)
    report.expect("calls of to_spark: object store: what it holds in the end, MiB", stored, MOST_STORED_OUT_MIB)


class Message:
    """A batch at a time."""

    def __init__(self, time: int, batch: pa.Table) -> None:
        self.time = time
        self.batch = batch


def sample(report: Report, what: str, sizes: Sizes, times: int, reached: Callable[[int], None]) -> float:
    """Compare the memory of processes while something happens many times; ``reached`` returns when it has so often.

    Returns how many MiB the object store holds in the end.
    """
    samples: dict[str, list[float]] = {}
    begin_s = monotonic()
    for number in range(1, SAMPLES + 1):
        at = max(1, number * times // SAMPLES)
        reached(at)
        for name, size in sizes.items():
            samples.setdefault(name, []).append(size())
        if at % EVERY == 0:
            figures = {name: (found[-1], "MiB") for name, found in samples.items()}
            report.add_several(f"after {at:,} {what}", figures)
    report.add(what, [times / (monotonic() - begin_s)], "a second")
    stored = samples.pop("object store")
    for name, found in samples.items():
        compare_halves(report, f"{what}: {name}", found)
    return report.add(f"{what}: object store: what it holds in the last tenth", stored[-len(stored) // 10 :], "MiB")


def sizes_of(job: RayJob, spark: "SparkSession") -> Sizes:
    """Return what tells the sizes of what is there before a job and after it."""
    driver, raylet = psutil.Process(), psutil.Process(job.pids[0]).parent()
    assert raylet is not None
    javas = sorted((one for one in raylet.children() if one.name() == "java"), key=psutil.Process.create_time)
    (submitted,) = (one for one in driver.children() if one.name() == "java")
    assert len(javas) == 2, "RayDP's master, which is started first, and the executor"
    processes = {"driver": driver, "driver's JVM": submitted, "RayDP's master": javas[0], "executor": javas[1]}
    sizes: dict[str, Callable[[], float]] = {name: uss_of(process) for name, process in processes.items()}
    return sizes | {"driver's heap": lambda: heap_mib(spark), "object store": store_mib}


def uss_of(process: psutil.Process) -> Callable[[], float]:
    return lambda: process.memory_full_info().uss / MIB


def heap_mib(spark: "SparkSession") -> float:
    """Return what lives in the heap of the driver's JVM."""
    gc.collect()  # Java keeps what Python refers to
    jvm: Any = spark._jvm
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / MIB


def store_mib() -> float:
    """Return what Ray's object store holds, as Ray last said."""
    import ray

    name = "object_store_memory"
    return float(ray.cluster_resources()[name] - ray.available_resources().get(name, 0.0)) / MIB


if __name__ == "__main__":
    main()
