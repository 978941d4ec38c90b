"""A sink of Postgres stores each epoch once and whole, and says clearly what it cannot store."""

import pickle
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.connectors.postgres_fixtures import database, postgres
from tests.kit.connectors.postgres_server import PostgresServer, execute
from tests.kit.messages import raises
from tidewheel.connectors.postgres import Deleted, PostgresError, PostgresSink
from tidewheel.testing import check_sink

__all__ = ["database", "postgres"]

TIDES = "CREATE TABLE tides (hour int PRIMARY KEY, height float NOT NULL, epoch int)"


def stored(conninfo: str) -> list[tuple[Any, ...]]:
    return execute(conninfo, "SELECT * FROM tides ORDER BY hour")


def store(sink: tw.Sink, epochs: list[list[Any]]) -> None:
    for epoch, batches in enumerate(epochs):
        sink.commit(epoch, [sink.prepare(epoch, batch) for batch in batches])


def test_each_epoch_is_stored_once(postgres: PostgresServer) -> None:
    """Whichever call a crash precedes or follows. Rows are inserted: merged twice they would look the same."""
    databases: dict[Path, str] = {}

    def make(folder: Path) -> tw.Sink:
        databases[folder] = postgres.new_schema()
        execute(databases[folder], TIDES)
        return PostgresSink(databases[folder], "tides")

    def read(folder: Path) -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = defaultdict(list)
        for row in stored(databases[folder]):
            found[row[2]].append(row)
        return found

    check_sink(make, read, [[(0, 0.5, 0), (1, 0.5, 0)], [(2, 1.5, 1)]])


def test_the_last_row_of_a_key_counts(database: str) -> None:
    """In an epoch and over epochs; a deleted key is gone, unless a later record has it again."""
    execute(database, TIDES)
    sink = PostgresSink(database, "tides", key="hour")
    first = [(1, 0.5, 0), (2, 0.5, 0), (1, 0.75, 0), (3, 1.0, 0), Deleted(2)]
    store(sink, [[first], [[Deleted(3), {"hour": 4, "height": 2.0}], [Deleted(1), (1, 9.0, 1)]], [[Deleted((4,))]]])
    assert stored(database) == [(1, 9.0, 1)]


def test_an_epoch_that_is_stored_changes_nothing(database: str) -> None:
    """Nor does an earlier one: a worker that seemed dead may have been faster."""
    execute(database, TIDES)
    sink = PostgresSink(database, "tides")
    assert sink.last_committed() is None
    store(sink, [[[(1, 0.5, 0)]], [[(2, 0.5, 1)]]])
    store(PostgresSink(database, "tides"), [[[(3, 0.5, 0)]], [[(4, 0.5, 1)]]])
    assert [row[0] for row in stored(database)] == [1, 2]
    assert sink.last_committed() == 1


def test_sinks_of_one_table_have_names(database: str) -> None:
    """Each has its own last epoch."""
    schema = execute(database, TIDES, "SELECT current_schema()")[0][0]
    one, other = (PostgresSink(database, f"{schema}.tides", name=name) for name in ("one", "other"))
    store(one, [[[(1, 0.5, 0)]]])
    assert (one.last_committed(), other.last_committed()) == (0, None)


def test_arrow_tables_are_stored(database: str) -> None:
    """As text where Postgres reads what Arrow writes, else value by value; a null is no empty text."""
    execute(
        database, "CREATE TABLE kinds (a bigint, b text, c timestamptz, d numeric, e bytea, f float, g bool, h int[])"
    )
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
    columns = {
        "b": ["", None, 'a "quoted", \\text\n'],
        "a": [1, None, 3],
        "c": pa.array([noon, None, noon], pa.timestamp("us", "UTC")),
        "d": [Decimal("1.5"), None, Decimal("2.5")],
        "f": [1.5, None, float("inf")],
        "g": [True, None, False],
    }
    sink = PostgresSink(database, "kinds")
    store(sink, [[pa.table(columns)], [pa.table({**columns, "e": [b"\0\n", None, b""], "h": [[1, None], None, []]})]])
    whole = [
        (1, "", noon, Decimal("1.5"), None, 1.5, True, None),
        (None,) * 8,
        (3, 'a "quoted", \\text\n', noon, Decimal("2.5"), None, float("inf"), False, None),
    ]
    found = execute(database, "SELECT * FROM kinds")
    assert found[:3] == whole
    assert [(row[4], row[7]) for row in found[3:]] == [(b"\0\n", [1, None]), (None, None), (b"", [])]


def test_the_last_row_of_a_key_in_an_arrow_table_counts(database: str) -> None:
    """As with other records."""
    execute(database, TIDES)
    table = pa.table({"hour": [1, 2, 1], "height": [0.5, 0.6, 0.7]})
    sink = PostgresSink(database, "tides", key=["hour"])
    store(sink, [[table], [table.to_batches()[0].slice(1)]])
    assert stored(database) == [(1, 0.7, None), (2, 0.6, None)]


def test_a_generated_column_is_no_column_of_a_record(database: str) -> None:
    """The server computes it."""
    execute(database, "CREATE TABLE tides (hour int PRIMARY KEY, next int GENERATED ALWAYS AS (hour + 12) STORED)")
    store(PostgresSink(database, "tides", key="hour"), [[[(1,), (2,)]]])
    assert stored(database) == [(1, 13), (2, 14)]


@pytest.mark.parametrize(
    ("table", "key"), [("waves", None), ("tides", "tide"), ("tides", "height")], ids=["table", "column", "index"]
)
def test_a_table_that_does_not_fit_is_refused(database: str, table: str, key: str | None) -> None:
    """Before the first epoch."""
    execute(database, TIDES)
    with raises(PostgresError):
        PostgresSink(database, table, key=key).last_committed()


@pytest.mark.parametrize(
    "record",
    [(1, 0.5), "low", {"hour": 1, "tide": "low"}, {"height": 0.5}, Deleted((1, 2)), ("one", 0.5, 0), (1, None, 0)],
    ids=["short", "text", "column", "key", "deleted", "type", "null"],
)
def test_a_record_that_does_not_fit_is_refused(database: str, record: Any) -> None:
    """With the name of the table and column; nothing of the epoch is stored."""
    execute(database, TIDES)
    sink = PostgresSink(database, "tides", key="hour")
    with raises(PostgresError):
        store(sink, [[[(7, 0.5, 0)], [record]]])
    assert stored(database) == []
    assert sink.last_committed() is None


TOWNS = (
    "CREATE TABLE tides (hour int PRIMARY KEY CHECK (hour < 24), town varchar(5) NOT NULL, "
    "height float NOT NULL DEFAULT 1, twice int GENERATED ALWAYS AS (2 * hour) STORED)"
)
GOOD: list[Any] = [{"hour": 4, "town": "Brest"}, {"hour": 5, "town": "Dover"}]
BAD: list[Any] = [
    {"hour": 6, "town": "Ostend"},
    {"hour": 30, "town": "Brest"},
    {"hour": 7, "town": None},
    {"hour": "seven", "town": "Brest"},
    {"hour": 2**40, "town": "Brest"},
    {"hour": 8, "town": "a\0"},
    {"hour": 9, "town": object()},
    {"hour": 9, "city": "Brest"},
    (1,),
    17,
]


@pytest.mark.parametrize("key", [None, "hour"])
def test_records_that_do_not_fit_are_found(database: str, key: str | None) -> None:
    """By the server: types, lengths, nulls and checks; other columns have values of their own. Nothing is stored."""
    execute(database, TOWNS)
    sink = PostgresSink(database, "tides", key=key)
    assert sink.refused(GOOD) == {}
    records = [*GOOD, *BAD, *GOOD]
    assert sorted(sink.refused(records)) == list(range(2, 2 + len(BAD)))
    table = pa.table({"hour": [4, 30, 5], "town": ["Brest", "Brest", "Ostend"]})
    assert sorted(sink.refused(table)) == [1, 2]
    assert stored(database) == []


def test_a_table_that_is_away_is_no_fault_of_a_record(database: str) -> None:
    """No record is set aside for it."""
    execute(database, TOWNS)
    sink = PostgresSink(database, "tides")
    assert sink.refused(GOOD) == {}
    execute(database, "DROP TABLE tides")
    with raises(PostgresError):
        sink.refused(GOOD)


def test_a_dataflow_sets_aside_what_does_not_fit(database: str) -> None:
    """And stores the rest of the epoch."""
    execute(database, TOWNS)
    flow = tw.Dataflow("tides")
    letters = flow.dead_letters()
    tides = flow.source("tides", tw.RecordSource([*GOOD, *BAD[:2]], batch_size=10))
    tides.sink(PostgresSink(database, "tides"), dead_letters=letters)
    letters.map(lambda letter: (letter.error, letter.record["hour"])).capture("letters")
    with tw.run(flow, engine="local") as job:
        job.wait(timeout_s=30)
        found = sorted(letter for captured in job.captured("letters") for letter in captured.batch)
    assert found == [("CheckViolation", 30), ("StringDataRightTruncation", 6)]
    assert [row[:2] for row in stored(database)] == [(4, "Brest"), (5, "Dover")]


def test_records_of_one_key_from_two_workers_are_refused(database: str) -> None:
    """Which was last is not known."""
    execute(database, TIDES)
    with raises(PostgresError):
        store(PostgresSink(database, "tides", key="hour"), [[[(1, 0.5, 0)], [(1, 0.6, 0)]]])


def test_what_no_epoch_could_have_is_refused(database: str) -> None:
    """Keys of rows to delete, texts that are no Unicode, and keys that Python cannot compare; the rest is stored."""
    execute(database, "CREATE TABLE tides (hour int PRIMARY KEY, name text)")
    sink = PostgresSink(database, "tides", key="hour")
    batch = [Deleted("noon"), (1, "high"), (2, "\ud800"), Deleted(7), ([3], "low"), Deleted([4])]
    refused = sink.refused(batch)
    assert sorted(refused) == [0, 2, 4, 5]
    store(sink, [[[record for place, record in enumerate(batch) if place not in refused]]])
    assert stored(database) == [(1, "high")]


def test_a_password_is_not_pickled_or_shown(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read from the environment where a worker connects; a wrong one is refused at once."""
    execute(postgres.conninfo(), "CREATE ROLE guarded LOGIN PASSWORD 'sea-horse'")
    conninfo = postgres.conninfo(user="guarded")
    sink = PostgresSink(conninfo, "pg_class", password=tw.Secret("TIDES_PASSWORD"))
    monkeypatch.setenv("TIDES_PASSWORD", "sea-horse")
    assert sink.last_committed() is None
    assert b"sea-horse" not in pickle.dumps(sink)
    assert "sea-horse" not in repr(sink)
    monkeypatch.setenv("TIDES_PASSWORD", "sea-urchin")
    with raises(PostgresError) as refused:
        sink.last_committed()
    assert "sea-urchin" not in str(refused.value)


@pytest.mark.parametrize(
    "conninfo", ["host=db password=sea-horse", "postgresql://me:sea-horse@db/tides", "db sea-horse"]
)
def test_a_password_in_the_connection_string_is_refused(conninfo: str) -> None:
    """It would be pickled; the error does not have it."""
    with raises(tw.errors.ConfigError) as refused:
        PostgresSink(conninfo, "tides")
    assert "sea-horse" not in str(refused.value)


@pytest.mark.parametrize("arguments", [("a.b.c",), ("",), ("tides", ())], ids=["names", "none", "key"])
def test_wrong_arguments_are_refused(arguments: tuple[Any, ...]) -> None:
    """When the dataflow is described."""
    with raises(tw.errors.ConfigError):
        PostgresSink("dbname=tides", arguments[0], key=arguments[1] if arguments[1:] else None)


def test_a_server_that_is_away_is_waited_for(postgres: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    """With a log line for each attempt, and an end."""
    sink = PostgresSink(f"host={postgres.folder} port=5 dbname=tides", "tides")
    sink.retry = tw.Retry(within_s=0.02, first_pause_s=0.001, factor=1, on=psycopg.OperationalError)
    with raises(PostgresError):
        sink.last_committed()
    assert "waits for the server" in caplog.text


def test_an_error_that_passes_loses_nothing(database: str, caplog: pytest.LogCaptureFixture) -> None:
    """Such as a lock that another transaction has for too long."""
    execute(database, TIDES)
    sink = PostgresSink(database.replace("-c ", "-c statement_timeout=200 -c "), "tides")
    sink.last_committed()
    part = sink.prepare(0, [(1, 0.5, 0)])
    sink.retry = tw.Retry(within_s=30, first_pause_s=0.001, on=psycopg.OperationalError)
    with psycopg.connect(database) as other:
        other.execute("LOCK TABLE tides")
        released = iter([True])

        def release(_: Any) -> bool:
            if next(released, False):
                other.rollback()
            return True

        caplog.handler.addFilter(release)
        sink.commit(0, [part])
        caplog.handler.removeFilter(release)
    assert stored(database) == [(1, 0.5, 0)]


def test_a_dataflow_stores_through_it(database: str) -> None:
    """Totals by customer, of which the table has the last one."""
    execute(database, "CREATE TABLE totals (customer text PRIMARY KEY, cents bigint)")
    flow = tw.Dataflow("billing")
    orders = flow.input("orders")
    totals = orders.accumulate(lambda order: order[0], start=int, add=lambda total, order: total + order[1])
    totals.sink(PostgresSink(database, "totals", key="customer"), visible="epoch").probe("stored")
    with tw.run(flow, workers=2, engine="local") as job, job.input("orders") as feed:
        for epoch, batch in enumerate([[("ann", 5), ("bob", 1)], [("ann", 2)]]):
            feed.send(batch)
            feed.advance_to(epoch + 1)
        feed.close()
        job.wait(timeout_s=30)
    assert execute(database, "SELECT * FROM totals ORDER BY 1") == [("ann", 7), ("bob", 1)]
