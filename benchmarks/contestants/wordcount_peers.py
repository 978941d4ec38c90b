"""The peers of `records/wordcount.py`, each in a process of its own, which may be another Python's.

``python -m benchmarks.contestants.wordcount_peers NAME ARGUMENT...`` says that it is ready, by an empty line, and
counts the words in a folder for each line that it reads with the folder's name; then it writes how many there were, and
how many different ones.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measuring.wordcount_text import blocks_of, files_of

Count = tuple[int, int]
"""The number of words, and the number of different words."""


def main() -> None:
    name, *rest = sys.argv[1:]
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what libraries print is no answer
        count = PEERS[name](*rest)
        print(flush=True, file=answers)
        for folder in sys.stdin:
            print(*count(Path(folder.strip())), flush=True, file=answers)


def counter() -> Callable[[Path], Count]:
    """Python's own Counter, in one thread."""

    def count(folder: Path) -> Count:
        counts: Counter[str] = Counter()
        for file in files_of(folder):
            for block in blocks_of(file):
                counts.update(block.decode().split())
        return counts.total(), len(counts)

    return count


def arrow() -> Callable[[Path], Count]:
    """Arrow's kernels, in one thread."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def count(folder: Path) -> Count:
        parts = []
        for file in files_of(folder):
            for block in blocks_of(file):
                words = pc.list_flatten(pc.ascii_split_whitespace(pa.array([block], pa.string())))
                parts.append(
                    pa.table({"word": words}).group_by("word", use_threads=False).aggregate([([], "count_all")])
                )
        counts = pa.concat_tables(parts).group_by("word", use_threads=False).aggregate([("count_all", "sum")])
        counts = counts.filter(pc.not_equal(counts["word"], ""))
        return pc.sum(counts["count_all_sum"]).as_py(), counts.num_rows

    return count


def bytewax(process: str, *addresses: str) -> Callable[[Path], Count]:
    """Bytewax: one of several processes, or the only one if there are no addresses."""
    import bytewax.operators as op
    from bytewax.connectors.files import DirSource
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, cluster_main, run_main

    def count(folder: Path) -> Count:
        counts: list[tuple[str, int]] = []
        flow = Dataflow("wordcount")
        lines = op.input("lines", flow, DirSource(folder, batch_size=10_000))
        words = op.flat_map("split", lines, str.split)
        op.output("counts", op.count_final("count", words, lambda word: word), TestingSink(counts))
        if addresses:
            cluster_main(flow, list(addresses), int(process))
        else:
            run_main(flow)
        return sum(number for _, number in counts), len(counts)

    return count


def pathway(threads: str) -> Callable[[Path], Count]:
    """Pathway."""
    os.environ["PATHWAY_THREADS"] = threads
    import logging

    import pathway as pw

    logging.disable(logging.WARNING)

    def count(folder: Path) -> Count:
        pw.internals.parse_graph.G.clear()
        lines = pw.io.plaintext.read(folder, mode="static")
        words = lines.select(word=pw.udf(split)(pw.this.data)).flatten(pw.this.word)
        counts = words.groupby(pw.this.word).reduce(pw.this.word, count=pw.reducers.count())
        totals = counts.reduce(words=pw.reducers.sum(pw.this.count), different=pw.reducers.count())
        told: list[Count] = []

        def keep(key: Any, row: Any, time: Any, is_addition: bool) -> None:
            if is_addition:
                told.append((row["words"], row["different"]))

        pw.io.subscribe(totals, on_change=keep)
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        return told[-1]

    return count


def split(line: str) -> list[str]:
    return line.split()


def spark(threads: str) -> Callable[[Path], Count]:
    """Spark SQL."""
    from tidewheel.spark_bridge.java import find_java, java_environment

    with java_environment(find_java()):
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as f

        builder = SparkSession.builder.master(f"local[{threads}]").appName("wordcount")
        for name, value in (("ui.enabled", "false"), ("ui.showConsoleProgress", "false"), ("driver.memory", "2g")):
            builder = builder.config(f"spark.{name}", value)
        session = builder.config("spark.sql.shuffle.partitions", threads).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")

    def count(folder: Path) -> Count:
        lines = session.read.text(str(folder))
        words = lines.select(f.explode(f.split("value", " ")).alias("word")).where("word != ''")
        ((number, different),) = words.groupBy("word").count().agg(f.sum("count"), f.count("*")).collect()
        return number or 0, different

    return count


PEERS: dict[str, Callable[..., Callable[[Path], Count]]] = {
    "counter": counter,
    "arrow": arrow,
    "bytewax": bytewax,
    "pathway": pathway,
    "spark": spark,
}


if __name__ == "__main__":
    main()
