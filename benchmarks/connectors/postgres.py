"""The time in which `PostgresSink` stores an epoch, beside the same COPY and MERGE by hand; how fast changes are read.

Both store the same rows, half of them with keys that the table has, in a server of this machine that does not wait for
its disk. The job has the epoch, prepares and commits it on the local engine, with its start and its end.
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import psycopg
import pyarrow as pa
from pyarrow import csv

import tidewheel as tw
from benchmarks.measuring.measurement import Report, alternate, parser
from tests.kit.connectors.postgres_server import binaries, drop_slots, execute, postgres_server
from tidewheel.connectors.postgres import PostgresChanges, PostgresSink

LIMIT = 1.3
"""How much longer a job may take than the same statements by hand."""

COLUMNS = "id bigint PRIMARY KEY, price float, name text, amount int"
MERGE = (
    "MERGE INTO orders AS old USING new ON old.id = new.id WHEN MATCHED THEN UPDATE SET price = new.price, "
    "name = new.name, amount = new.amount WHEN NOT MATCHED THEN INSERT (id, price, name, amount) "
    "VALUES (new.id, new.price, new.name, new.amount)"
)
_EPOCHS = count()
_TIMEOUT_S = 120.0


def main() -> None:
    options = parser("Measure how fast an epoch is stored in Postgres, and its changes are read.").parse_args()
    programs = binaries()
    if programs is None:
        sys.exit("no Postgres server is installed: apt-get install postgresql")
    rows, rounds = (100_000, 5) if options.quick else (200_000, 9)
    report = Report()
    with postgres_server(programs) as server:
        conninfo = server.conninfo()
        execute(conninfo, f"CREATE TABLE orders ({COLUMNS})")
        for kind, batch, by_hand in (
            ("tuples", tuples(rows), copy_rows),
            ("an Arrow table", table(rows), copy_csv),
        ):
            contestants: dict[str, Callable[[], float]] = {
                "job": partial(timed, conninfo, rows, partial(store, conninfo, batch)),
                "hand": partial(timed, conninfo, rows, partial(by_hand, conninfo, batch)),
            }
            for contestant in contestants.values():
                contestant()  # warm
            times = alternate(contestants, rounds)
            hand_s = report.add(f"{rows:,} rows, {kind}: COPY and MERGE by hand", times["hand"], "s")
            job_s = report.add(f"{rows:,} rows, {kind}: a job with PostgresSink", times["job"], "s")
            report.expect(f"{kind}: the time of the job over that by hand", job_s / hand_s, LIMIT)
        read(report, conninfo, rows)
    report.finish(options.json)


def tuples(rows: int) -> list[tuple[int, float, str, int]]:
    return [(number, number / 7, f"customer {number % 1000}", number % 100) for number in range(rows)]


def table(rows: int) -> pa.Table:
    names = ("id", "price", "name", "amount")
    return pa.table(dict(zip(names, map(list, zip(*tuples(rows), strict=True)), strict=True)))


def timed(conninfo: str, rows: int, act: Callable[[], object]) -> float:
    """Return the seconds of a store into a table that has half of the keys."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("TRUNCATE orders")
        half = "INSERT INTO orders SELECT id, 0, '', 0 FROM generate_series(0, %s, 2) AS id"
        connection.execute(half, (rows - 1,))
    execute(conninfo, "VACUUM ANALYZE orders", "CHECKPOINT")
    began_s = time.perf_counter()
    act()
    took_s = time.perf_counter() - began_s
    assert execute(conninfo, "SELECT count(*) FROM orders WHERE name <> ''") == [(rows,)]
    return took_s


def store(conninfo: str, batch: Any) -> None:
    flow = tw.Dataflow("orders")
    sink = PostgresSink(conninfo, "orders", key="id", name=f"run {next(_EPOCHS)}")
    flow.source("orders", tw.IterableSource([[(0, batch)]])).sink(sink, visible="epoch")
    with tw.run(flow, engine="local") as job:
        job.wait(_TIMEOUT_S)


def copy_rows(conninfo: str, batch: Any) -> None:
    with psycopg.connect(conninfo) as connection:
        connection.execute("CREATE TEMPORARY TABLE new (LIKE orders) ON COMMIT DROP")
        with connection.cursor() as cursor, cursor.copy("COPY new FROM STDIN") as copy:
            for row in batch:
                copy.write_row(row)
        connection.execute(MERGE)


def copy_csv(conninfo: str, batch: Any) -> None:
    with psycopg.connect(conninfo) as connection:
        connection.execute("CREATE TEMPORARY TABLE new (LIKE orders) ON COMMIT DROP")
        written = pa.BufferOutputStream()
        csv.write_csv(batch, written, csv.WriteOptions(include_header=False))
        with connection.cursor() as cursor, cursor.copy("COPY new FROM STDIN (FORMAT csv)") as copy:
            copy.write(memoryview(written.getvalue()))
        connection.execute(MERGE)


def read(report: Report, conninfo: str, rows: int) -> None:
    """Report how fast the source copies a table, and then reads as many changes, of 100 each transaction."""
    execute(conninfo, "CREATE PUBLICATION orders FOR TABLE orders")
    yielded = PostgresChanges(conninfo, "orders").open("slot", None)
    report.add("PostgresChanges: rows a second of the copy", [read_rows(yielded, rows)], "1/s")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for first in range(0, rows, 100):
            connection.execute("UPDATE orders SET price = 0 WHERE id BETWEEN %s AND %s", (first, first + 99))
    report.add("PostgresChanges: changes a second", [read_rows(yielded, rows)], "1/s")
    yielded.close()  # type: ignore[attr-defined]
    drop_slots(conninfo)


def read_rows(yielded: Iterator[Any], rows: int) -> float:
    began_s, found = time.perf_counter(), 0
    for one in yielded:
        if isinstance(one, tw.Fetched):
            found += len(list(one.batch))
            if found >= rows and one.is_whole:
                break
        assert time.perf_counter() - began_s < _TIMEOUT_S, f"it has read {found} records only"
    return rows / (time.perf_counter() - began_s)


if __name__ == "__main__":
    main()
