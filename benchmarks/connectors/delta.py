"""`DeltaSink` compared with `write_deltalake`, and `DeltaSource` compared with a scan by pyarrow.

Sink and library append the same Arrow tables to a new table in memory, one commit for each. The job runs on the local
engine; its time includes start and end. Source and scan then read that table.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import tidewheel as tw
from benchmarks.measuring.file_systems import memory_folder
from benchmarks.measuring.measurement import Report, alternate, parser
from tidewheel.connectors.delta import DeltaSink, DeltaSource

LIMIT = 1.3
"""How much longer a job may take than the library alone."""

_TIMEOUT_S = 120.0
_FOLDERS = count()


def main() -> None:
    options = parser("Measure how fast epochs are appended to a table of Delta Lake, and read.").parse_args()
    rows, rounds = (200_000, 5) if options.quick else (1_000_000, 9)
    report = Report()
    with TemporaryDirectory(prefix="delta-", dir=memory_folder(2 << 30)) as folder:
        for epochs in (1, 20):
            tables = [table(rows // epochs, seed) for seed in range(epochs)]
            contestants: dict[str, Callable[[], float]] = {
                "job": partial(timed, Path(folder), partial(store, tables), rows),
                "alone": partial(timed, Path(folder), partial(write, tables), rows),
            }
            for contestant in contestants.values():
                contestant()  # warm
            times = alternate(contestants, rounds)
            what = f"{rows:,} rows in {epochs} commits"
            alone_s = report.add(f"{what}: write_deltalake alone", times["alone"], "s")
            job_s = report.add(f"{what}: a job with DeltaSink", times["job"], "s")
            report.expect(f"{what}: the time of the job over that of write_deltalake", job_s / alone_s, LIMIT)
        read(report, Path(folder), rows, rounds)
    report.finish(options.json)


def table(rows: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(rows),
            "price": random.random(rows),
            "name": pa.array([f"customer {number % 1000}" for number in range(rows)], pa.string()),
            "amount": random.integers(0, 100, rows, dtype=np.int32),
        }
    )


def timed(folder: Path, act: Callable[[str], None], rows: int) -> float:
    """Return the seconds of an act on a new table."""
    path = str(folder / f"table-{next(_FOLDERS)}")
    DeltaTable.create(path, table(0, 0).schema)
    began_s = time.perf_counter()
    act(path)
    took_s = time.perf_counter() - began_s
    assert DeltaTable(path).count() == rows
    return took_s


def store(tables: list[pa.Table], path: str) -> None:
    flow = tw.Dataflow("orders")
    orders = flow.source("orders", tw.IterableSource([list(enumerate(tables))]))
    orders.sink(DeltaSink(path, name="orders"), visible="epoch")
    with tw.run(flow, engine="local") as job:
        job.wait(_TIMEOUT_S)


def write(tables: list[pa.Table], path: str) -> None:
    handle = DeltaTable(path)
    for one in tables:
        write_deltalake(handle, one, mode="append")


def read(report: Report, folder: Path, rows: int, rounds: int) -> None:
    path = str(folder / "read")
    DeltaTable.create(path, table(0, 0).schema)
    write([table(rows // 20, seed) for seed in range(20)], path)
    contestants: dict[str, Callable[[], float]] = {
        "job": lambda: seconds(lambda: job_rows(path), rows),
        "alone": lambda: seconds(lambda: DeltaTable(path).to_pyarrow_dataset().to_table().num_rows, rows),
    }
    for contestant in contestants.values():
        contestant()  # warm
    times = alternate(contestants, rounds)
    report.add(f"{rows:,} rows of 20 versions: a scan by pyarrow alone", times["alone"], "s")
    job_s = report.add(f"{rows:,} rows of 20 versions: a job with DeltaSource, each an epoch", times["job"], "s")
    report.add("DeltaSource: rows a second", [rows / job_s], "1/s")


def job_rows(path: str) -> int:
    flow = tw.Dataflow("orders")
    orders = flow.source("orders", DeltaSource(path, version=0, bounded=True))
    orders.map_batches(lambda batch: [len(batch)]).capture("rows")
    with tw.run(flow, engine="local") as job:
        job.wait(_TIMEOUT_S)
        return sum(record for captured in job.captured("rows") for record in captured.batch)


def seconds(act: Callable[[], int], rows: int) -> float:
    began_s = time.perf_counter()
    assert act() == rows
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
