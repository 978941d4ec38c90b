"""The dependency graph of Debian, from Spark through a loop on Ray to a live subscriber, and back to Spark.

Spark reads the graph and numbers its packages; the edges go, eight sections of the archive an epoch, to a dataflow on
two workers that keeps connected components and the hops from one package up to date; another process prints each
epoch's changes as they come; the final table returns to Spark. Run it with ``make demo``.
"""

import os
import subprocess
import sys
import time

import ray

import tidewheel as tw
from examples.parts.connectivity import changes
from examples.parts.debian import numbered
from tidewheel.spark_bridge import from_spark, session, to_spark

START = "gnome"
# For a program of a minute: compile fast rather than well, and shuffle into few partitions.
FAST_START = {f"spark.{jvm}.extraJavaOptions": "-XX:TieredStopAtLevel=1" for jvm in ("driver", "executor")}
CONFIGS = FAST_START | {"spark.sql.shuffle.partitions": 4}


def main() -> None:
    """Run all stages and say how long each took."""
    stages, last = {}, time.perf_counter()

    def done(stage: str) -> None:
        nonlocal last
        stages[stage], last = time.perf_counter() - last, time.perf_counter()

    with session("dependencies", configs=CONFIGS) as spark:
        done("Spark started on Ray")
        packages, edges = numbered(spark)
        start = packages.where(packages.name == START).collect()[0]["node"]
        epochs = edges.selectExpr("max(epoch) + 1").collect()[0][0]
        done("packages numbered by Spark")
        flow = tw.Dataflow("dependencies")
        stream = from_spark(flow, "edges", edges, time="epoch")
        done("DataFrame handed to the dataflow")
        changes(stream, start).publish("components").capture("components").probe("done")
        with tw.run(flow, workers=2, paused=True) as job:
            address = {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
            watch = [sys.executable, "-m", "examples.topics.watch_components"]
            watcher = subprocess.Popen(watch, env=os.environ | address)
            job.topic("components").wait_for_subscribers(1, timeout_s=60)
            done("workers and subscriber started")
            job.start()
            for epoch in range(1, epochs + 1):
                job.probe("done").wait_until(epoch, timeout_s=60)
                print(f"epochs completed: {epoch} of {epochs}", flush=True)
            job.wait(timeout_s=60)
            done("dataflow run to its end")
            to_spark(spark, job.captured("components"), time="epoch").createOrReplaceTempView("changes")
        watcher.wait(timeout=60)
        final = spark.sql("""SELECT node, max_by(component, epoch) AS component, max_by(hops, epoch) AS hops
                             FROM changes GROUP BY node""").cache()
        final.join(packages, "node").orderBy("hops", "name", ascending=[False, True]).select("name", "hops").show(5)
        sizes = final.groupBy("component").count().withColumnRenamed("component", "node")
        largest = sizes.join(packages, "node").orderBy("count", "name", ascending=[False, True])
        largest.selectExpr("count AS packages", "name AS first").show(5)
        done("final table back in Spark")
    for name, seconds in stages.items():
        print(f"{seconds:8.2f} s  {name}")


if __name__ == "__main__":
    main()
