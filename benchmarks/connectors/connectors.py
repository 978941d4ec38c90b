"""The time in which a job on the local engine reads files, beside the readers of pyarrow alone.

Both count the rows, with as many threads as pyarrow takes by itself. The time of the job has its start and its end. The
files are in memory, so that no disk is measured. ``--store s3://bucket/prefix`` names an object store. By default the
program starts moto's S3 server on this machine. Its rows have no limit, because they mostly show the speed of moto.
"""

import argparse
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
from pyarrow import csv

import tidewheel as tw
from benchmarks.measuring.file_systems import memory_folder
from benchmarks.measuring.measurement import Report, alternate, parser
from benchmarks.measuring.object_stores import store
from tidewheel.storage.object_store import RemoteFolder

LIMIT = 1.3
"""How much longer the job may take than pyarrow alone."""

FILES = 4
STORED_ROWS = 100_000


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
    report.finish(options.json)


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
