"""The time in which a job reads files, beside the readers of pyarrow alone, and a Ray Dataset, beside `iter_batches`.

The files are read on the local engine.
Both count the rows, with as many threads as pyarrow takes by itself. The time of the job has its start and its end. The
files are in memory, so that no disk is measured. ``--store s3://bucket/prefix`` names an object store. By default the
program starts moto's S3 server on this machine. Its rows have no limit, because they mostly show the speed of moto.

The dataset is lazy: Ray Data reads Parquet files as its rows are asked for. Two workers on Ray count them, and reserve
no CPU. The time of the job begins when its workers have started; the time in which they start is told apart.
"""

import argparse
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import ray
import ray.data
from pyarrow import csv

import tidewheel as tw
from benchmarks.measuring.file_systems import memory_folder
from benchmarks.measuring.measurement import Report, alternate, parser
from benchmarks.measuring.object_stores import store
from tidewheel.connectors.datasets import from_dataset
from tidewheel.storage.object_store import RemoteFolder

LIMIT = 1.3
"""How much longer the job may take than pyarrow alone."""

FILES = 4
STORED_ROWS = 100_000

DATASET_ROWS, QUICK_DATASET_ROWS = 10_000_000, 2_000_000
DATASET_FILES = 8
CPUS = 2
WORKERS = 2
STORE_BYTES = 2 << 30
DEADLINE_S = 120.0


def main() -> None:
    options = arguments()
    rows, rounds = (500_000, 5) if options.quick else (2_000_000, 9)
    report = Report()
    with TemporaryDirectory(prefix="connectors-", dir=memory_folder(2 << 30)) as folder:
        for kind, write, alone in KINDS:
            paths = written(Path(folder), kind, write, rows)
            contestants: dict[str, Callable[[], float]] = {
                "job": partial(timed, partial(job_rows, f"file://{folder}/*.{kind}"), rows * FILES),
                "alone": partial(timed, partial(alone, paths), rows * FILES),
            }
            for contestant in contestants.values():
                contestant()  # warm
            times = alternate(contestants, rounds)
            alone_s = report.add(f"{kind} of {FILES} files, pyarrow alone: {alone.__name__}", times["alone"], "s")
            job_s = report.add(f"{kind} of {FILES} files, a job with FileSource", times["job"], "s")
            report.add(f"{kind}: rows a second", [rows * FILES / job_s], "1/s")
            report.expect(f"{kind}: the time of the job over that of pyarrow alone", job_s / alone_s, LIMIT)
        with store(options.store, "files") as url:
            remote(report, Path(folder), url, 3 if options.quick else 7)
    with TemporaryDirectory(prefix="connectors-", dir=memory_folder(2 << 30)) as folder:
        rows = QUICK_DATASET_ROWS if options.quick else DATASET_ROWS
        measure_dataset(report, Path(folder), rows, 3 if options.quick else 7)
    report.finish(options.json)


def measure_dataset(report: Report, folder: Path, rows: int, rounds: int) -> None:
    """Report the time in which a job reads a dataset of three columns, and that of `iter_batches`."""
    columns = table(rows // DATASET_FILES, 0).drop_columns("name")
    for number in range(DATASET_FILES):
        write_parquet(columns, folder / f"{number}.parquet")
    ray.init(
        num_cpus=CPUS, object_store_memory=STORE_BYTES, include_dashboard=False, log_to_driver=False,
        namespace="tidewheel", logging_level=logging.ERROR,
    )  # fmt: skip
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        started: list[float] = []
        contestants: dict[str, Callable[[], float]] = {
            "job": partial(dataset_job_s, folder, rows, started),
            "iter_batches": partial(timed, partial(iterated_rows, folder), rows),
        }
        for contestant in contestants.values():
            contestant()  # warm
        started.clear()
        times = alternate(contestants, rounds)
    finally:
        ray.shutdown()
    what = f"a Dataset of {rows:,} rows of {columns.num_columns} columns"
    alone_s = report.add(f"{what}, iter_batches", times["iter_batches"], "s")
    job_s = report.add(f"{what}, a job on {WORKERS} workers", times["job"], "s")
    report.add(f"{what}, the start of the job's workers", started, "s")
    report.expect(f"{what}: the time of the job over that of iter_batches", job_s / alone_s, LIMIT)


def dataset_job_s(folder: Path, rows: int, started: list[float]) -> float:
    """Return the seconds in which a job counts the rows of a dataset; add those of its start to ``started``."""
    began_s = time.perf_counter()
    flow = tw.Dataflow("dataset")
    from_dataset(flow, "rows", ray.data.read_parquet(str(folder))).map_batches(rows_of).capture("rows")
    with tw.run(flow, workers=WORKERS) as job:
        started_s = time.perf_counter()
        started.append(started_s - began_s)
        job.wait(timeout_s=DEADLINE_S)
        took_s = time.perf_counter() - started_s
        found = sum(number for captured in job.captured("rows") for number in captured.batch)
    assert found == rows, f"{found} rows instead of {rows}"
    return took_s


def iterated_rows(folder: Path) -> int:
    """Count the rows of a dataset by `iter_batches`, block by block."""
    dataset = ray.data.read_parquet(str(folder))
    batches: Iterator[Any] = iter(dataset.iter_batches(batch_size=None, batch_format="pyarrow"))
    return sum(batch.num_rows for batch in batches)


def arguments() -> argparse.Namespace:
    options = parser("Measure how fast a job reads files, beside the readers of pyarrow alone.")
    options.add_argument("--store", metavar="URL", help="an empty prefix of a store, such as s3://bucket/prefix")
    return options.parse_args()


def remote(report: Report, folder: Path, url: str, rounds: int) -> None:
    """Report the time of the same in an object store, and of write_files there."""
    target = RemoteFolder(url, 60, OSError)
    for kind, write, _ in KINDS:
        for path in written(folder, f"small.{kind}", write, STORED_ROWS):
            target.write(f"in/{path.name}", [memoryview(path.read_bytes())])
        rows = STORED_ROWS * FILES
        read = alternate({"job": partial(timed, partial(job_rows, f"{url}/in/*.{kind}"), rows)}, rounds)["job"]
        report.add(f"{kind} of {FILES} files with {rows:,} rows, from the store", read, "s")
    for number, kind in enumerate(("parquet", "csv")):
        wrote = [timed(partial(write_rows, f"{url}/out{number}-{turn}", kind), STORED_ROWS) for turn in range(rounds)]
        report.add(f"{kind}: an epoch of {STORED_ROWS:,} rows, into the store", wrote, "s")


def table(rows: int, number: int) -> pa.Table:
    random = np.random.default_rng(number)
    return pa.table(
        {
            "id": np.arange(rows) + number * rows,
            "price": random.random(rows),
            "name": [f"customer {n % 1000}" for n in range(rows)],
            "amount": random.integers(0, 100, rows),
        }
    )


def written(folder: Path, kind: str, write: Callable[[pa.Table, Path], object], rows: int) -> list[Path]:
    """Write the files of a kind; return their paths."""
    paths = [folder / f"{number}.{kind}" for number in range(FILES)]
    for number, path in enumerate(paths):
        write(table(rows, number), path)
    return paths


def timed(count: Callable[[], int], expected: int) -> float:
    """Return the seconds in which rows are counted."""
    began_s = time.perf_counter()
    found = count()
    took_s = time.perf_counter() - began_s
    assert found == expected, f"{found} rows instead of {expected}"
    return took_s


def job_rows(pattern: str) -> int:
    """Count rows in a job."""
    flow = tw.Dataflow("files")
    flow.source("files", tw.FileSource(pattern)).map_batches(rows_of).capture("rows")
    with tw.run(flow, engine="local") as job:
        job.wait()
        return sum(rows for captured in job.captured("rows") for rows in captured.batch)


def rows_of(batch: Any) -> list[int]:
    return [batch.num_rows]


def write_rows(url: str, kind: Any) -> int:
    """Write an epoch; return its number of rows."""
    flow = tw.Dataflow("files")
    source = tw.RecordSource(table(STORED_ROWS, 0), batch_size=STORED_ROWS)
    flow.source("rows", source).write_files(url, kind).capture("written")
    with tw.run(flow, engine="local") as job:
        job.wait()
        return sum(epoch.records for captured in job.captured("written") for epoch in captured.batch)


def dataset(paths: list[Path]) -> int:
    """Count rows by `pyarrow.dataset`."""
    return sum(batch.num_rows for batch in ds.dataset(list(map(str, paths))).to_batches())


def open_csv(paths: list[Path]) -> int:
    """Count rows by `pyarrow.csv.open_csv`."""

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with csv.open_csv(path) as reader:
                yield from reader

    return sum(batch.num_rows for batch in batches())


def write_parquet(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, row_group_size=1 << 17)


def write_csv(rows: pa.Table, path: Path) -> None:
    csv.write_csv(rows, path)


KINDS: tuple[tuple[str, Callable[[pa.Table, Path], None], Callable[[list[Path]], int]], ...] = (
    ("parquet", write_parquet, dataset),
    ("csv", write_csv, open_csv),
)

if __name__ == "__main__":
    main()
