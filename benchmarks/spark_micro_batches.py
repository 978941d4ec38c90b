"""Whether memory stays flat while Spark feeds a dataflow: 1,000 micro-batches, as fast as they come.

After a warm-up, which is a fifth of them, the memory of each process is compared between the first and the second half
of the rest, by medians: what the driver, the executor, RayDP's master and the workers have for themselves (USS), what
of the heap of the driver's JVM is left after a collection, and what Ray's object store holds. Heaps have their size
from the beginning, and the lists that Spark keeps of past executions, jobs and stages, of 1,000 each by default, are
short, so that both are full when the warm-up is over. ``--batches N`` for how many; after the 50 of ``--quick`` the
executor's JVM is still coming to its size.
"""

import argparse
import gc
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import psutil

import tidewheel as tw
from measurement import Report
from soak import compare
from tidewheel.runtime.ray_job import RayJob
from tidewheel.spark_bridge import feed, session

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
MOST_STORED_MIB = 2.0
"""Some ten micro-batches."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure whether memory stays flat while Spark feeds a dataflow.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} micro-batches")
    parser.add_argument("--batches", type=int, metavar="N", help=f"how many; {LONG:,} by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    report = Report()
    with session("micro-batches", memory=HEAP, configs=CONFIGS) as spark, tempfile.TemporaryDirectory() as folder:
        measure(report, spark, folder, options.batches or (QUICK if options.quick else LONG))
    report.finish(options.json)


def measure(report: Report, spark: "SparkSession", folder: str, batches: int) -> None:
    """Feed a job, and compare what was sampled meanwhile."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    flow = tw.Dataflow("micro-batches")
    flow.input("rows").map_batches(lambda batch: batch).probe("done")
    samples: dict[str, list[float]] = {}
    with tw.run(flow, workers=WORKERS) as job:
        with feed(job.input("rows"), rows, checkpoint=folder):
            job.probe("done").wait_until(1, DEADLINE_S)
            sizes = sizes_of(job, spark)
            begin_s = monotonic()
            for sample in range(1, SAMPLES + 1):
                at = max(1, sample * batches // SAMPLES)
                job.probe("done").wait_until(at, DEADLINE_S)
                for name, size in sizes.items():
                    samples.setdefault(name, []).append(size())
                if at % EVERY == 0:
                    figures = {name: (found[-1], "MiB") for name, found in samples.items()}
                    report.add_several(f"after {at:,} micro-batches", figures)
            report.add("micro-batches", [batches / (monotonic() - begin_s)], "a second")
        job.wait(DEADLINE_S)
    stored = samples.pop("object store")
    for name, found in samples.items():
        compare(report, name, found)
    last = report.add("object store: what it holds in the last tenth", stored[-len(stored) // 10 :], "MiB")
    report.expect("object store: what it holds in the end, MiB", last, MOST_STORED_MIB)


def sizes_of(job: tw.Job, spark: "SparkSession") -> Mapping[str, Callable[[], float]]:
    """Return what tells how many MiB each process has, by name."""
    assert isinstance(job, RayJob)
    driver, raylet = psutil.Process(), psutil.Process(job.pids[0]).parent()
    assert raylet is not None
    javas = sorted((one for one in raylet.children() if one.name() == "java"), key=psutil.Process.create_time)
    (submitted,) = (one for one in driver.children() if one.name() == "java")
    assert len(javas) == 2, "RayDP's master, which is started first, and the executor"
    processes = {"driver": driver, "driver's JVM": submitted, "RayDP's master": javas[0], "executor": javas[1]}
    processes |= {f"worker {number}": psutil.Process(pid) for number, pid in enumerate(job.pids)}
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
