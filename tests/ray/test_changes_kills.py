"""A table of Postgres whose changes a job follows into another table: workers die, and both stay equal.

For other kills, or to repeat those of a run (both figures are in a failure)::

    TIDEWHEEL_KILLS=50 TIDEWHEEL_KILLS_SEED=1234 python -m pytest -s tests/ray/test_changes_kills.py -m long
"""

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

import tidewheel as tw
from tests.kit.connectors.postgres_fixtures import database, postgres
from tests.kit.connectors.postgres_server import drop_slots, execute
from tests.kit.seeds import seed_of
from tests.ray.pipeline import say
from tests.ray.worker_killer import WorkerKiller
from tests.waiting import eventually
from tidewheel.connectors.postgres import Deleted, PostgresChanges, PostgresSink

__all__ = ["database", "postgres"]

pytestmark = [pytest.mark.ray]

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
DEADLINE_S = 120.0
_CHANGES_AT_ONCE = 40
_LONGEST_HELD_S = 60.0
_SLOT = "berths"
_WAL = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
_HELD = f"SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = 'tidewheel_{_SLOT}'"


@dataclass(frozen=True)
class Size:
    """A form of the test."""

    rows: int
    changes_per_s: int
    kills: int
    idle_s: float


SHORT = Size(rows=2_000, changes_per_s=400, kills=2, idle_s=0)
LONG = Size(rows=100_000, changes_per_s=2_000, kills=int(os.environ.get("TIDEWHEEL_KILLS") or 10), idle_s=75)


def row_or_deleted(pair: tuple[Any, tuple[int, str, int] | None]) -> tuple[int, str, int] | Deleted:
    """Return what the sink does for a key of ``("schema.berths", number)``."""
    (_, number), row = pair
    return Deleted(number) if row is None else row


class Harbour(threading.Thread):
    """Changes the table, so many rows a second in transactions, until `end`; `paused` holds the changes back.

    Attributes:
        changes: how many it has made.
    """

    def __init__(self, conninfo: str, size: Size, random: Random) -> None:
        super().__init__(name="harbour")
        self._conninfo, self._size, self._random = conninfo, size, random
        self._is_enough = threading.Event()
        self.paused = threading.Lock()
        self.changes = 0
        self.raised: BaseException | None = None
        self.start()

    def run(self) -> None:
        began_s = time.monotonic()
        try:
            with psycopg.connect(self._conninfo) as connection:
                while not self._is_enough.wait(0.001):
                    if self.changes > (time.monotonic() - began_s) * self._size.changes_per_s:
                        continue
                    with self.paused:
                        self._change(connection)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.raised = error

    def _change(self, connection: psycopg.Connection[Any]) -> None:
        numbers = [self._random.randrange(self._size.rows) for _ in range(_CHANGES_AT_ONCE)]
        third = len(numbers) // 3
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("DELETE FROM berths WHERE number = ANY (%s)", (numbers[:third],))
            cursor.execute(
                "UPDATE berths SET tons = tons + 1, ship = ship || '.' WHERE number = ANY (%s)",
                (numbers[third : 2 * third],),
            )
            cursor.execute(
                "INSERT INTO berths SELECT n, 'ship ' || n, 0 FROM unnest(%s::int[]) AS n ON CONFLICT (number) "
                "DO UPDATE SET ship = excluded.ship, tons = berths.tons + 1",
                (list(set(numbers[2 * third :])),),
            )
        self.changes += len(numbers)

    def end(self) -> None:
        """Make no more changes. Idempotent."""
        self._is_enough.set()
        self.join()


class Gauge(threading.Thread):
    """Looks once a second at how long ago the log was written that the slot still holds, until `end`.

    Attributes:
        longest_s: the longest time.
    """

    def __init__(self, conninfo: str) -> None:
        super().__init__(name="gauge")
        self._conninfo = conninfo
        self._is_enough = threading.Event()
        self._written: deque[tuple[float, int]] = deque()
        self.longest_s = 0.0
        self.start()

    def run(self) -> None:
        while not self._is_enough.wait(1):
            self._written.append((time.monotonic(), int(execute(self._conninfo, _WAL)[0][0])))
            for (held,) in execute(self._conninfo, _HELD):
                while len(self._written) > 1 and self._written[1][1] <= held:
                    self._written.popleft()
                self.longest_s = max(self.longest_s, time.monotonic() - self._written[0][0])

    def end(self) -> None:
        """Look no more. Idempotent."""
        self._is_enough.set()
        self.join()


@pytest.fixture
def tables(database: str) -> Iterator[str]:
    """A database with a published table `berths` and a table `copies` with the same columns."""
    columns = "number int PRIMARY KEY, ship text NOT NULL, tons bigint NOT NULL"
    execute(
        database,
        f"CREATE TABLE berths ({columns})",
        f"CREATE TABLE copies ({columns})",
        "CREATE TABLE apart (line text)",
        f"CREATE PUBLICATION {_SLOT} FOR TABLE berths",
    )
    yield database
    execute(database, f"DROP PUBLICATION {_SLOT}")
    drop_slots(database)


def following(conninfo: str) -> tw.Dataflow:
    flow = tw.Dataflow("harbour")
    berths = flow.source("berths", PostgresChanges(conninfo, _SLOT)).as_collection(upserts=True)
    berths.upserts().map(row_or_deleted).sink(PostgresSink(conninfo, "copies", key="number")).probe("copied")
    return flow


def differences(conninfo: str) -> int:
    """Return how many rows are in one of the tables only."""
    query = "SELECT count(*) FROM ((TABLE berths EXCEPT TABLE copies) UNION ALL (TABLE copies EXCEPT TABLE berths)) d"
    return int(execute(conninfo, query)[0][0])


@pytest.mark.parametrize("size", [SHORT, pytest.param(LONG, marks=pytest.mark.long)], ids=["short", "long"])
@pytest.mark.usefixtures("ray_cluster")
def test_the_copy_equals_the_table_at_each_point(size: Size, tables: str, tmp_path: Path) -> None:
    """Whenever the changes pause, also between kills; and the slot lets the log go, also while the table is idle."""
    say(f"TIDEWHEEL_KILLS={size.kills} TIDEWHEEL_KILLS_SEED={SEED}")
    random = Random(SEED)
    execute(tables, f"INSERT INTO berths SELECT n, 'ship ' || n, n FROM generate_series(0, {size.rows - 1}) AS n")
    harbour, killer = Harbour(tables, size, Random(random.random())), WorkerKiller(random)
    gauge = None
    snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=1, restarts=size.kills + 1)
    try:
        with tw.run(following(tables), workers=2, snapshots=snapshots) as job:
            job.probe("copied").wait_until(0, timeout_s=DEADLINE_S)
            gauge = Gauge(tables)
            for _ in range(size.kills):
                threading.Event().wait(random.random() * 3)
                killer.strike()
                with harbour.paused:
                    assert eventually(lambda: differences(tables) == 0, DEADLINE_S), "the copy differs"
                    say(f"equal after {harbour.changes} changes and {len(killer.killed)} kills")
            harbour.end()
            assert harbour.raised is None
            assert eventually(lambda: differences(tables) == 0, DEADLINE_S), "the copy differs"
            until_s = time.monotonic() + size.idle_s
            while time.monotonic() < until_s:
                execute(tables, "INSERT INTO apart SELECT repeat('x', 1000) FROM generate_series(1, 100)")
                threading.Event().wait(0.2)
            gauge.end()
            say(f"the slot held {gauge.longest_s:.0f} s of log at most")
            assert gauge.longest_s < _LONGEST_HELD_S
            job.stop()
    except BaseException as error:
        error.add_note(f"TIDEWHEEL_KILLS={size.kills} TIDEWHEEL_KILLS_SEED={SEED}")
        raise
    finally:
        harbour.end()
        if gauge is not None:
            gauge.end()
