"""The rows a second that a model in a pool of actors takes, by `map_actors` and by `map_batches` of Ray Data.

Both read the same Ray Dataset, whose blocks are in the object store, and call the same model with as many actors, which
reserve no CPU. The model is a network of two layers in NumPy. It notes when each call begins and ends. The rate is that
of the calls which begin when all actors have made one, until the last one ends. So no start of a process counts.
"""

import logging
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import ray
import ray.data

import tidewheel as tw
from benchmarks.measuring.measurement import Report, alternate, arguments
from tidewheel.connectors.datasets import from_dataset

SHARE = 0.77
"""The least share of the rate of Ray Data that the pool has to reach."""

ACTORS = 4
BATCH_ROWS = 1024
BLOCK_ROWS = 16 * BATCH_ROWS
FEATURES, HIDDEN = 64, 256
BLOCKS, QUICK_BLOCKS = 60, 20
CPUS = 2
STORE_BYTES = 1 << 30
DEADLINE_S = 120.0


class Call(NamedTuple):
    """One call of a model: in which process, when, and for how many rows."""

    pid: int
    began_s: float
    ended_s: float
    rows: int


class Network:
    """Scores rows, and notes the moments of its calls."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self._first = random.standard_normal((FEATURES, HIDDEN), dtype=np.float32)
        self._second = random.standard_normal(HIDDEN, dtype=np.float32)

    def __call__(self, rows: pa.Table) -> pa.Table:
        began_s = time.time()
        column = rows.column("features").combine_chunks()
        features = column.flatten().to_numpy().reshape(-1, FEATURES)
        scores = np.maximum(features @ self._first, 0) @ self._second
        count = rows.num_rows
        noted = {"pid": os.getpid(), "began_s": began_s, "ended_s": time.time()}
        return pa.table({"score": scores, **{name: np.full(count, value) for name, value in noted.items()}})


def main() -> None:
    options = arguments("Measure a pool of actors beside map_batches of Ray Data.")
    blocks, rounds = (QUICK_BLOCKS, 3) if options.quick else (BLOCKS, 7)
    report = Report()
    ray.init(
        num_cpus=CPUS, object_store_memory=STORE_BYTES, include_dashboard=False, log_to_driver=False,
        namespace="tidewheel", logging_level=logging.ERROR,
    )  # fmt: skip
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        rows = blocks * BLOCK_ROWS
        stored: list[Any] = [ray.put(block(number)) for number in range(blocks)]
        dataset = ray.data.from_arrow_refs(stored)
        contestants: dict[str, Callable[[], float]] = {
            "job": partial(job_rate, dataset, rows),
            "map_batches": partial(map_batches_rate, dataset, rows),
        }
        for contestant in contestants.values():
            contestant()  # warm
        rates = alternate(contestants, rounds)
    finally:
        ray.shutdown()
    what = f"{rows:,} rows of {FEATURES} features, {ACTORS} actors"
    peer = report.add(f"{what}, map_batches of Ray Data", rates["map_batches"], "1/s")
    own = report.add(f"{what}, map_actors", rates["job"], "1/s")
    report.expect("the rate of map_batches over that of map_actors", peer / own, 1 / SHARE)
    report.finish(options.json)


def block(number: int) -> pa.Table:
    features = np.random.default_rng(number).standard_normal(BLOCK_ROWS * FEATURES, dtype=np.float32)
    return pa.table({"features": pa.FixedSizeListArray.from_arrays(features, FEATURES)})


def calls(results: pa.Table) -> list[Call]:
    """Return the calls of a table of results."""
    made = results.group_by(["pid", "began_s", "ended_s"]).aggregate([("score", "count")])
    return [
        Call(*row)
        for row in zip(*(made[name].to_pylist() for name in ("pid", "began_s", "ended_s", "score_count")), strict=True)
    ]


def rate(found: list[Call], expected: int) -> float:
    """Return the rows a second, from when all actors have made a call to the last."""
    rows = sum(call.rows for call in found)
    assert rows == expected, f"{rows} rows instead of {expected}"
    firsts = {pid: min(call.began_s for call in found if call.pid == pid) for pid in {call.pid for call in found}}
    assert len(firsts) == ACTORS, f"{len(firsts)} actors instead of {ACTORS}"
    began_s = max(firsts.values())
    counted = [call for call in found if call.began_s >= began_s]
    return sum(call.rows for call in counted) / (max(call.ended_s for call in counted) - began_s)


def job_rate(dataset: ray.data.Dataset, rows: int) -> float:
    flow = tw.Dataflow("inference")
    read = from_dataset(flow, "rows", dataset)
    read.map_actors(Network, replicas=ACTORS, batch_size=BATCH_ROWS).capture("scores")
    with tw.run(flow) as job:
        job.wait(timeout_s=DEADLINE_S)
        return rate([one for captured in job.captured("scores") for one in calls(captured.batch)], rows)


def map_batches_rate(dataset: ray.data.Dataset, rows: int) -> float:
    scored = dataset.map_batches(Network, concurrency=ACTORS, num_cpus=0, batch_size=BATCH_ROWS, batch_format="pyarrow")
    batches: Any = scored.iter_batches(batch_size=None, batch_format="pyarrow")
    return rate([one for batch in list(batches) for one in calls(batch)], rows)


if __name__ == "__main__":
    main()
