"""The changes of a Postgres database: a copy of its tables, then each transaction, over crashes."""

import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

import tidewheel as tw
from tests.kit.connectors.postgres_fixtures import database, postgres
from tests.kit.connectors.postgres_server import PostgresServer, drop_slots, execute
from tests.kit.messages import raises
from tidewheel.connectors.postgres import PostgresChanges, PostgresError, postgres_changes, table_copy
from tidewheel.connectors.postgres.pgoutput import lsn_of
from tidewheel.testing import check_source

__all__ = ["database", "postgres"]

SEED = 5
_TIMEOUT_S = 30.0


@dataclass
class Reading:
    """An open source, its records and its place."""

    source: PostgresChanges
    iterator: Iterator[Any]
    place: Any = None
    records: list[Any] = field(default_factory=list)
    units: list[list[Any]] = field(default_factory=lambda: [[]])

    def read_until(self, condition: Callable[[], object]) -> None:
        """Read until a condition holds behind a whole unit."""
        until_s = time.monotonic() + _TIMEOUT_S
        while True:
            yielded = next(self.iterator)
            if isinstance(yielded, tw.Fetched):
                self.records += yielded.batch
                self.units[-1] += yielded.batch
                self.place = yielded.position
                if yielded.is_whole:
                    if condition():
                        return
                    if self.units[-1]:
                        self.units.append([])
            assert time.monotonic() < until_s, f"it has read {self.records!r:.500} only"

    @property
    def rows(self) -> dict[Any, Any]:
        """The rows by key, as a collection has them."""
        return {key: row for key, row in dict(self.records).items() if row is not None}


@contextmanager
def opened(source: PostgresChanges, place: Any = None) -> Iterator[Reading]:
    """Open a source behind a place."""
    (partition,) = source.partitions()
    iterator = source.open(partition, place)
    try:
        yield Reading(source, iterator, place)
    finally:
        iterator.close()  # type: ignore[attr-defined]


@pytest.fixture
def tides(database: str) -> Iterator[str]:
    """A database with a table `tides` of two rows, published under the name of its schema; its slot is dropped."""
    schema = name_of(database)
    execute(
        database,
        "CREATE TABLE tides (hour int PRIMARY KEY, height text)",
        "INSERT INTO tides VALUES (1, 'low'), (2, NULL)",
        f"CREATE PUBLICATION {schema} FOR TABLES IN SCHEMA {schema}",
    )
    yield database
    drop_slots(database)


def name_of(conninfo: str) -> str:
    """Return the schema that a connection searches first."""
    return str(execute(conninfo, "SELECT current_schema()")[0][0])


def changes(conninfo: str) -> PostgresChanges:
    return PostgresChanges(conninfo, name_of(conninfo))


def rows_of(conninfo: str) -> dict[Any, Any]:
    """Return the rows by key, as a collection should have them."""
    schema = name_of(conninfo)
    return {(f"{schema}.tides", row[0]): row for row in execute(conninfo, "SELECT * FROM tides")}


def again(place: Any) -> Any:
    """Return a place as a snapshot has it."""
    return pickle.loads(pickle.dumps(place))


def fetched_of(iterator: Iterator[Any]) -> Iterator[Any]:
    """Yield what is no pause."""
    return (one for one in iterator if isinstance(one, tw.Fetched))


def following(conninfo: str, folder: Path) -> Any:
    """Start a job whose collection has the rows of the tables."""
    flow = tw.Dataflow("tides")
    flow.source("tides", changes(conninfo)).as_collection(upserts=True).changes().probe("read").capture("rows")
    return tw.run(flow, workers=2, engine="local", snapshots=tw.Snapshots(folder, every_s=1e9))


def run_until(job: Any, condition: Callable[[], object], rounds: int | None = None) -> None:
    """Run a local job until a condition holds, or so many rounds."""
    until_s = time.monotonic() + _TIMEOUT_S
    while not condition() and rounds != 0:
        rounds = None if rounds is None else rounds - 1
        if not job.run_round():
            threading.Event().wait(0.002)
        assert time.monotonic() < until_s, "the job does not come to it"


def collected(job: Any) -> dict[Any, Any]:
    """Return the rows of the collection by key."""
    counts: Counter[Any] = Counter()
    for captured in job.captured("rows") if job.probe("read").has_completed(0) else ():
        for record, difference in captured.batch:
            counts[record] += difference
    assert set(counts.values()) <= {0, 1}
    return {key: row for (key, row), count in counts.items() if count}


def follows(job: Any, rows: dict[Any, Any]) -> bool:
    """Tell whether the collection has just these rows."""
    return collected(job) == rows


def change(conninfo: str, random: Random) -> None:
    """Insert, update, delete and move rows, some of them in one transaction."""
    with psycopg.connect(conninfo) as connection:
        for _ in range(random.randint(1, 4)):
            hour, other = random.randint(0, 30), random.randint(0, 30)
            connection.execute("INSERT INTO tides VALUES (%s, %s) ON CONFLICT DO NOTHING", (hour, str(random.random())))
            connection.execute("UPDATE tides SET height = %s WHERE hour = %s", (str(random.random()), other))
            connection.execute("DELETE FROM tides WHERE hour = %s", (random.randint(0, 30),))
            connection.execute("DELETE FROM tides WHERE hour = %s", (other + 40,))
            connection.execute("UPDATE tides SET hour = hour + 40 WHERE hour = %s", (other,))


def test_a_copy_and_then_the_changes(tides: str) -> None:
    """Inserts, updates, deletes and other keys; a transaction is one unit."""
    name = f"{name_of(tides)}.tides"
    with opened(changes(tides)) as reading:
        reading.read_until(lambda: reading.records)
        assert reading.records == [((name, 1), (1, "low")), ((name, 2), (2, None))]
        execute(
            tides, "INSERT INTO tides VALUES (3, 'high'), (4, 'high')", "UPDATE tides SET height = 'low' WHERE hour = 3"
        )
        execute(tides, "DELETE FROM tides WHERE hour = 1", "UPDATE tides SET hour = 5 WHERE hour = 4")
        reading.read_until(lambda: len(reading.records) == 8)
        assert reading.records[2:] == [
            ((name, 3), (3, "high")),
            ((name, 4), (4, "high")),
            ((name, 3), (3, "low")),
            ((name, 1), None),
            ((name, 4), None),
            ((name, 5), (5, "high")),
        ]
        assert reading.rows == rows_of(tides)


def test_each_change_comes_once(postgres: PostgresServer) -> None:
    """Whichever calls of the source a crash precedes or follows."""
    databases: dict[Path, str] = {}

    def make(folder: Path) -> tw.Source[Any]:
        drop_slots(postgres.conninfo())
        databases[folder] = conninfo = postgres.new_schema()
        name = name_of(conninfo)
        execute(
            conninfo,
            "CREATE TABLE tides (hour int PRIMARY KEY)",
            "INSERT INTO tides VALUES (10), (11)",
            f"CREATE PUBLICATION {name} FOR TABLE tides",
        )
        return Numbers(conninfo, name)

    def grow(folder: Path) -> None:
        execute(databases[folder], "INSERT INTO tides VALUES (1), (2)", "INSERT INTO tides VALUES (3)")

    class Numbers(PostgresChanges):
        def partitions(self) -> list[Any]:
            return ["slot"]

        def open(self, partition: Any, position: Any) -> Iterator[Any]:
            for yielded in super().open(partition, position):
                if isinstance(yielded, tw.Fetched):
                    yield tw.Fetched([key[1] for key, _ in yielded.batch], yielded.position, is_whole=yielded.is_whole)
                else:
                    yield yielded

    check_source(make, {"slot": [10, 11, 1, 2, 3]}, grow=grow)
    drop_slots(postgres.conninfo())


def test_a_copy_goes_on_behind_the_last_row(tides: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that have changed since the slot was made are right once the unit has ended, also those copied before."""
    monkeypatch.setattr(table_copy, "_MOST_ROWS", 2)
    execute(tides, "INSERT INTO tides SELECT generate_series(3, 9), 'high'")
    with opened(changes(tides)) as first:
        yielded = next(one for one in first.iterator if isinstance(one, tw.Fetched))
        assert ([key[1] for key, _ in yielded.batch], yielded.is_whole) == ([1, 2], False)
    execute(tides, "DELETE FROM tides WHERE hour IN (1, 9)", "UPDATE tides SET height = 'low' WHERE hour IN (2, 5)")
    execute(tides, "INSERT INTO tides VALUES (0, 'low'), (10, 'low')")
    with opened(changes(tides), again(yielded.position)) as second:
        second.records += yielded.batch
        second.read_until(lambda: True)
        assert second.rows == rows_of(tides)
        assert len(second.units) == 1


def test_a_long_transaction_is_one_unit_that_is_read_in_parts(tides: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its records comes once, also if a reader goes on in the middle."""
    monkeypatch.setattr(postgres_changes, "_MOST_RECORDS", 3)
    with opened(changes(tides)) as reading:
        reading.read_until(lambda: reading.records)
        execute(
            tides, "INSERT INTO tides VALUES (3, 'low')", "INSERT INTO tides SELECT generate_series(10, 20), 'high'"
        )
        execute(tides, "DELETE FROM tides WHERE hour = 3")
        parts = [one for one in islice(fetched_of(reading.iterator), 3) if one.batch]
    assert not any(part.is_whole for part in parts)
    with opened(changes(tides), again(parts[-1].position)) as rest:
        rest.read_until(lambda: rest.records[-1][1] is None)
        records = [record for part in parts for record in part.batch] + rest.records
    assert [key[1] for key, _ in records] == [3, *range(10, 21), 3]


@pytest.mark.parametrize("fault", ["dropped", "anew", "moved", "older", "server", "plugin"])
def test_a_slot_that_lacks_changes_is_refused(tides: str, fault: str) -> None:
    """What was dropped, made anew or moved has lost some; a server that was restored has never had them."""
    slot = f"tidewheel_{name_of(tides)}"
    with opened(changes(tides)) as reading:
        reading.read_until(lambda: reading.records)
        place = reading.place
    end = execute(tides, "INSERT INTO tides VALUES (3, 'high')", "SELECT pg_current_wal_insert_lsn()")[0][0]
    if fault == "moved":
        execute(tides, f"SELECT pg_replication_slot_advance('{slot}', '{end}')")
    elif fault in ("dropped", "anew", "plugin"):
        drop_slots(tides)
        plugin = "test_decoding" if fault == "plugin" else "pgoutput"
        if fault != "dropped":
            execute(tides, f"SELECT pg_create_logical_replication_slot('{slot}', '{plugin}')")
    elif fault == "older":
        place = replace(place, lsn=place.lsn + (1 << 40))
    else:
        place = replace(place, copied=replace(place.copied, system=1))
    with raises(PostgresError), opened(changes(tides), place) as reading:
        reading.read_until(lambda: False)


def test_saved_places_move_the_slot(tides: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the tables are idle: the server keeps no log for them. An earlier place changes nothing."""
    monkeypatch.setattr(postgres_changes, "_MOVES_EVERY_S", 0.0)
    monkeypatch.setattr(postgres_changes, "_BEATS_EVERY_S", 0.0)
    slot = f"tidewheel_{name_of(tides)}"
    query = f"SELECT restart_lsn, confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'"
    with opened(changes(tides)) as reading:
        reading.read_until(lambda: reading.records)
        early = reading.place
        before = reading.source.behind("slot", early)
        end = lsn_of(
            execute(tides, "CREATE TABLE apart AS SELECT generate_series(1, 9)", "SELECT pg_current_wal_lsn()")[0][0]
        )
        behind = reading.source.behind("slot", early)
        assert before is not None and behind is not None  # noqa: PT018
        assert 0 <= before["bytes"] < behind["bytes"]
        reading.read_until(lambda: reading.place.lsn > end)
        assert len(reading.records) == 2

        def has_moved() -> bool:
            execute(tides, "CHECKPOINT")  # as a busy server does by itself, at least once in 15 s
            reading.source.saved("slot", reading.place)
            return lsn_of(execute(tides, query)[0][0]) > end

        reading.read_until(has_moved)
        moved = execute(tides, query)
        reading.source.saved("slot", early)
        assert execute(tides, query) == moved


def test_the_log_behind_an_idle_table_is_soon_let_go(
    tides: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not others write: by heartbeats and snapshots, the slot passes each place of the log within seconds.

    With the usual intervals of 10 s that takes less than a minute, as the long form of `test_changes_kills.py` shows.
    """
    monkeypatch.setattr(postgres_changes, "_MOVES_EVERY_S", 0.05)
    monkeypatch.setattr(postgres_changes, "_BEATS_EVERY_S", 0.05)
    source = changes(tides)
    (slot,) = source.partitions()
    flow = tw.Dataflow("idle")
    flow.source("tides", source).probe("read").capture("tides")

    def confirmed() -> int:
        query = f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'"
        found = execute(tides, query)
        return lsn_of(found[0][0]) if found and found[0][0] else 0

    with tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path, every_s=0.05)) as job:

        def runs_until(condition: Callable[[], bool]) -> None:
            until_s = time.monotonic() + _TIMEOUT_S
            while not condition():
                job.run_round()  # type: ignore[attr-defined]
                assert time.monotonic() < until_s, "the slot does not move"

        runs_until(lambda: job.probe("read").has_completed(0))
        for writes in (False, True, False, True):
            if writes:
                execute(tides, "SELECT pg_logical_emit_message(false, 'others', repeat('x', 100000))")
            [(end,)] = execute(tides, "SELECT pg_current_wal_insert_lsn()")
            runs_until(lambda end=end: confirmed() > lsn_of(end))  # type: ignore[misc]
        job.stop()


def test_a_slot_has_one_reader(tides: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one waits, since the one before may have died a moment ago, and is then refused."""
    with opened(changes(tides)) as one, opened(changes(tides)) as other:
        one.read_until(lambda: one.records)
        monkeypatch.setattr(postgres_changes, "_WAITS_S", 0.2)
        assert isinstance(next(other.iterator), tw.Pause)
        with raises(PostgresError):
            other.read_until(lambda: False)
    monkeypatch.undo()
    with opened(changes(tides), one.place) as after:
        execute(tides, "DELETE FROM tides WHERE hour = 1")
        after.read_until(lambda: after.records)


def test_a_slot_waits_for_open_transactions(tides: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """With a log line that says so; a job that ends meanwhile need not wait."""
    monkeypatch.setattr(postgres_changes, "_TELLS_AFTER_S", 0.0)
    with psycopg.connect(tides) as writer:
        writer.execute("INSERT INTO tides VALUES (3, 'high')")
        with opened(changes(tides)) as reading:
            assert {type(next(reading.iterator)) for _ in range(2)} == {tw.Pause}
            assert "waits" in caplog.text
        with opened(changes(tides)) as reading:
            next(reading.iterator)
            writer.commit()
            reading.read_until(lambda: reading.records)
            assert reading.rows == rows_of(tides)


def test_a_new_column_and_a_new_table_are_left_out(tides: str, caplog: pytest.LogCaptureFixture) -> None:
    """A log line says so, once."""
    with opened(changes(tides)) as reading:
        reading.read_until(lambda: reading.records)
        execute(tides, "ALTER TABLE tides ADD COLUMN moon text", "INSERT INTO tides VALUES (3, 'high', 'full')")
        execute(tides, "CREATE TABLE waves (number int PRIMARY KEY)", "INSERT INTO waves VALUES (1)")
        execute(tides, "DELETE FROM tides WHERE hour = 1")
        reading.read_until(lambda: len(reading.records) == 4)
        assert isinstance(next(reading.iterator), tw.Pause)
    assert [row for _, row in reading.records[2:]] == [(3, "high"), None]
    new = [str(record.args[-1]) for record in caplog.records if isinstance(record.args, tuple)]
    assert sorted(name.rpartition(".")[2] for name in new) == ["moon", "waves"]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE tides DROP COLUMN height",
        "ALTER TABLE tides ALTER COLUMN height TYPE varchar(9)",
        "TRUNCATE tides",
    ],
)
def test_a_change_that_no_record_can_follow_is_refused(tides: str, change: str) -> None:
    """With the table, the column and the way on."""
    with opened(changes(tides)) as reading:
        reading.read_until(lambda: reading.records)
        execute(tides, change, "INSERT INTO tides (hour) VALUES (3)")
        with raises(PostgresError):
            reading.read_until(lambda: False)


@pytest.mark.parametrize(
    "publication",
    [
        "DROP PUBLICATION {0}",
        "DROP TABLE tides",
        "ALTER PUBLICATION {0} SET (publish = 'insert')",
        "ALTER TABLE tides REPLICA IDENTITY NOTHING",
        "ALTER TABLE tides DROP CONSTRAINT tides_pkey",
    ],
    ids=["missing", "empty", "inserts", "nothing", "key"],
)
def test_a_publication_that_does_not_do_is_refused(tides: str, publication: str) -> None:
    """Before a slot is made."""
    execute(tides, publication.format(name_of(tides)))
    with raises(PostgresError), opened(changes(tides)) as reading:
        next(reading.iterator)
    assert not execute(tides, f"SELECT 1 FROM pg_replication_slots WHERE slot_name = 'tidewheel_{name_of(tides)}'")


def test_columns_and_rows_of_a_publication(database: str) -> None:
    """A row that does not fit any more is deleted."""
    name = name_of(database)
    execute(
        database,
        "CREATE TABLE tides (place text, hour int, secret text, PRIMARY KEY (hour, place))",
        "INSERT INTO tides VALUES ('Brest', 1, 'x'), ('Dover', 30, 'x'), ('Dover', 1, 'x')",
        f"CREATE PUBLICATION {name} FOR TABLE tides (hour, place) WHERE (hour < 24)",
    )
    with opened(changes(database)) as reading:
        reading.read_until(lambda: reading.records)
        execute(database, "UPDATE tides SET hour = hour + 23 WHERE place = 'Dover' AND hour = 1")
        reading.read_until(lambda: len(reading.records) == 3)
    table = f"{name}.tides"
    assert reading.records == [
        ((table, 1, "Brest"), ("Brest", 1)),
        ((table, 1, "Dover"), ("Dover", 1)),
        ((table, 1, "Dover"), None),
    ]
    drop_slots(database)


def test_values_of_each_type_are_the_same_in_copy_and_log(database: str) -> None:
    """Those of psycopg; a long value that an update leaves as it was is there under REPLICA IDENTITY FULL."""
    name = name_of(database)
    kinds = "a bigint, b numeric, c timestamptz, d mood, e hour, f int[], g bytea, h jsonb, i float, j date"
    execute(
        database,
        "CREATE TYPE mood AS ENUM ('calm', 'rough')",
        "CREATE DOMAIN hour AS int CHECK (VALUE < 24)",
        f"CREATE TABLE kinds (id int PRIMARY KEY, {kinds}, k text, l int GENERATED ALWAYS AS (id + 1) STORED)",
        "ALTER TABLE kinds REPLICA IDENTITY FULL, ALTER COLUMN k SET STORAGE EXTERNAL",
        f"CREATE PUBLICATION {name} FOR TABLE kinds",
    )
    values = (
        "-9, 1.50, '2026-06-01 12:00+02', 'rough', 5, '{1,NULL}', '\\x00ff', '{\"a\": [1]}', 0.1, '2026-06-01', "
        "repeat('x', 9000)"
    )
    execute(database, f"INSERT INTO kinds VALUES (1, {values})", "INSERT INTO kinds VALUES (2)")
    with opened(changes(database)) as reading:
        reading.read_until(lambda: reading.records)
        execute(database, f"INSERT INTO kinds VALUES (3, {values})", "UPDATE kinds SET id = 4 WHERE id = 3")
        reading.read_until(lambda: len(reading.records) == 5)
    noon = datetime(2026, 6, 1, 10, tzinfo=UTC)
    row = (-9, Decimal("1.50"), noon, "rough", 5, [1, None], b"\0\xff", {"a": [1]}, 0.1, date(2026, 6, 1), "x" * 9000)
    assert [found for _, found in reading.records] == [(1, *row), (2, *[None] * 11), (3, *row), None, (4, *row)]
    drop_slots(database)


@pytest.mark.parametrize("slot", ["Tides", "", "a" * 41, "tides'; DROP"])
def test_a_wrong_name_of_a_slot_is_refused(slot: str) -> None:
    """When the dataflow is described."""
    with raises(tw.errors.ConfigError):
        PostgresChanges("dbname=tides", slot)


def test_a_collection_follows_the_tables_over_crashes(postgres: PostgresServer, tides: str, tmp_path: Path) -> None:
    """Of the job and of the server: at each compared point it has the rows of the table."""
    random = Random(SEED)
    for number in range(6):
        with following(tides, tmp_path) as job:
            for _ in range(3):
                change(tides, random)
                if random.random() < 0.5:
                    run_until(job, lambda: False, rounds=random.randint(1, 200))
            if number == 3:
                postgres.stop()
                postgres.start()
            if number % 2:
                run_until(job, partial(follows, job, rows_of(tides)))
            if random.random() < 0.7:
                job.snapshot(_TIMEOUT_S)
            job.stop()
    with following(tides, tmp_path) as job:
        run_until(job, partial(follows, job, rows_of(tides)))
        job.stop()
