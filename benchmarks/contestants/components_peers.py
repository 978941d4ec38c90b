"""The peers of `loops/components.py`, each in a process of its own, which may be another Python's.

``python -m benchmarks.contestants.components_peers NAME`` says that it is ready, by an empty line, when it has solved a
small graph. For each line that it reads, with the names of two files and a number of seconds, it finds the connected
components of the edges in the first, writes labels to the second, and says how many seconds it took from edges in
memory to labels in memory. If that takes longer than so many seconds, it says so and ends.
"""

import os
import sys
from collections.abc import Callable
from threading import Timer
from time import perf_counter
from typing import Any, TextIO, TypeAlias

import numpy as np
import numpy.typing as npt

Nodes: TypeAlias = npt.NDArray[np.int64]

Solve: TypeAlias = Callable[[Nodes, Nodes], tuple[float, Nodes, Nodes]]
"""Takes the ends of edges; returns seconds, nodes, and a label for each, the least node of its component."""

THREADS = 2
LONGER = "longer"


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    solve = PEERS[sys.argv[1]]()
    solve(np.arange(1, 5), np.arange(4))
    print(flush=True, file=answers)
    for line in sys.stdin:
        edges, labels, deadline_s = line.split()
        source, target = np.load(edges)
        watch = Timer(float(deadline_s), give_up, [answers])
        watch.start()
        seconds, *found = solve(source, target)
        watch.cancel()
        np.save(labels, np.stack(found))
        print(seconds, flush=True, file=answers)


def give_up(answers: TextIO) -> None:
    print(LONGER, flush=True, file=answers)
    os._exit(0)  # whatever goes on meanwhile cannot be stopped


def scipy() -> Solve:
    """The limit: a compiled search in one thread, from edges to labels."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    def solve(source: Nodes, target: Nodes) -> tuple[float, Nodes, Nodes]:
        began = perf_counter()
        size = int(max(source.max(), target.max())) + 1
        matrix = csr_matrix((np.ones(len(source), np.int8), (source, target)), shape=(size, size))
        count, component = connected_components(matrix, directed=False)
        least = np.full(count, size)
        np.minimum.at(least, component, np.arange(size))
        labels = least[component]
        seconds = perf_counter() - began
        nodes = np.union1d(source, target)
        return seconds, nodes, labels[nodes]

    return solve


def pathway() -> Solve:
    """Pathway's ``iterate``: labels spread along the edges until nothing changes."""
    os.environ["PATHWAY_THREADS"] = str(THREADS)
    import logging
    import warnings

    import pandas as pd
    import pathway as pw

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")

    def step(vertices: Any, arcs: Any) -> dict[str, Any]:
        offers = arcs.select(arcs.v, label=vertices.ix(arcs.u).label)
        least = offers.groupby(id=offers.v).reduce(label=pw.reducers.min(offers.label))
        return {"vertices": least.with_universe_of(vertices), "arcs": arcs}

    def solve(source: Nodes, target: Nodes) -> tuple[float, Nodes, Nodes]:
        nodes = np.union1d(source, target)
        pw.internals.parse_graph.G.clear()
        # An arc from each node to itself offers it its own label, too.
        ends = {"u": np.concatenate([source, target, nodes]), "v": np.concatenate([target, source, nodes])}
        arcs = pw.debug.table_from_pandas(pd.DataFrame(ends))
        arcs = arcs.select(u=arcs.pointer_from(arcs.u), v=arcs.pointer_from(arcs.v))
        names = pw.debug.table_from_pandas(pd.DataFrame({"node": nodes}))
        names = names.with_id_from(names.node)
        vertices = pw.iterate(step, vertices=names.select(label=names.node), arcs=arcs).vertices
        labels: dict[int, int] = {}
        pw.io.subscribe(
            names.select(names.node, label=vertices.restrict(names).label),
            on_change=lambda key, row, time, is_addition: labels.update(
                {row["node"]: row["label"]} if is_addition else {}
            ),
        )
        began = perf_counter()
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        seconds = perf_counter() - began
        return seconds, nodes, np.array([labels[node] for node in nodes.tolist()])

    return solve


def spark() -> Solve:
    """A loop over Spark DataFrames, which cuts the plan in each round."""
    from tidewheel.spark_bridge.java import find_java, java_environment

    with java_environment(find_java()):
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as f

        builder = SparkSession.builder.master(f"local[{THREADS}]").appName("components")
        for name, value in SPARK_SETTINGS.items():
            builder = builder.config(f"spark.{name}", value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def solve(source: Nodes, target: Nodes) -> tuple[float, Nodes, Nodes]:
        import pandas as pd

        ends = {"node": np.concatenate([source, target]), "to": np.concatenate([target, source])}
        arcs = session.createDataFrame(pd.DataFrame(ends)).repartition("node").sortWithinPartitions("node").cache()
        arcs.count()
        began = perf_counter()
        own = f.col("label").alias("own")
        labels = arcs.select("node", f.col("node").alias("label")).distinct().localCheckpoint()
        while True:
            offers = arcs.join(labels, "node").select(f.col("to").alias("node"), "label", f.lit(None).alias("own"))
            offered = labels.select("node", "label", own).union(offers).groupBy("node")
            labels = offered.agg(f.min("label").alias("label"), f.max("own").alias("own")).localCheckpoint()
            if not labels.where("label < own").limit(1).count():
                break
            labels = labels.drop("own")
        seconds = perf_counter() - began
        rows: Any = labels.toPandas()
        session.catalog.clearCache()
        return seconds, rows["node"].to_numpy(), rows["label"].to_numpy()

    return solve


SPARK_SETTINGS = {
    "driver.memory": "3g",
    "sql.adaptive.enabled": "false",  # small plans, run again and again: planning them anew takes longer
    "sql.execution.arrow.pyspark.enabled": "true",
    "sql.shuffle.partitions": str(THREADS),
    "ui.enabled": "false",
    "ui.showConsoleProgress": "false",
}

PEERS: dict[str, Callable[[], Solve]] = {"scipy": scipy, "pathway": pathway, "spark": spark}


if __name__ == "__main__":
    main()
