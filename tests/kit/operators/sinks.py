"""Sinks into SQLite: a correct one, and wrong ones that `check_sink` has to refuse."""

import fcntl
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import tidewheel as tw
from tidewheel.batches.batches import Batch
from tidewheel.progress import Time


class Table(tw.Sink):
    """Stores the records of an epoch, and its time, in one transaction."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)

    def connect(self) -> "closing[sqlite3.Connection]":
        database = sqlite3.connect(self.path, timeout=60)
        database.execute("PRAGMA synchronous = OFF")  # processes die in tests, and power does not fail
        database.execute("CREATE TABLE IF NOT EXISTS epochs (epoch INTEGER PRIMARY KEY)")
        database.execute("CREATE TABLE IF NOT EXISTS records (epoch INTEGER, record INTEGER)")
        return closing(database)

    def commit(self, epoch: Time, parts: list[Any]) -> None:
        with self.connect() as database, database:
            if database.execute("INSERT OR IGNORE INTO epochs VALUES (?)", (epoch,)).rowcount:
                self.insert(database, epoch, parts)

    def insert(self, database: sqlite3.Connection, epoch: Time, parts: list[Any]) -> None:
        rows = [(epoch, record) for part in parts for record in part]
        database.executemany("INSERT INTO records VALUES (?, ?)", rows)

    def last_committed(self) -> Time | None:
        with self.connect() as database:
            return database.execute("SELECT max(epoch) FROM epochs").fetchone()[0]


def read_table(path: str | Path) -> Mapping[Time, Iterable[int]]:
    """Return the records of each epoch."""
    found: dict[Time, list[int]] = {}
    with Table(path).connect() as database:
        for epoch, record in database.execute("SELECT epoch, record FROM records"):
            found.setdefault(epoch, []).append(record)
    return found


class CommitsTwice(Table):
    """It does not look whether an epoch is there already."""

    def commit(self, epoch: Time, parts: list[Any]) -> None:
        with self.connect() as database, database:
            database.execute("INSERT OR IGNORE INTO epochs VALUES (?)", (epoch,))
            self.insert(database, epoch, parts)


class LosesPrepared(Table):
    """It keeps what it has prepared in the object."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.kept: dict[Time, list[Any]] = {}

    def prepare(self, epoch: Time, records: Batch) -> None:
        self.kept.setdefault(epoch, []).append(records)

    def commit(self, epoch: Time, parts: list[Any]) -> None:
        super().commit(epoch, self.kept.pop(epoch, []))


class ShowsPrepared(Table):
    """It stores what it prepares where a reader sees it."""

    def prepare(self, epoch: Time, records: Batch) -> None:
        with self.connect() as database, database:
            self.insert(database, epoch, [records])


class KeepsOpen(Table):
    """Its parts are connections."""

    def prepare(self, epoch: Time, records: Batch) -> Any:
        return self.connect()


class SaysTooMuch(Table):
    """Its last epoch is the last one that is prepared."""

    def prepare(self, epoch: Time, records: Batch) -> Any:
        Path(self.path).with_suffix(".last").write_text(str(epoch))
        return records

    def last_committed(self) -> Time | None:
        last = Path(self.path).with_suffix(".last")
        return int(last.read_text()) if last.exists() else None


class SaysNothing(Table):
    """It keeps its last epoch in the object."""

    last: Time | None = None

    def commit(self, epoch: Time, parts: list[Any]) -> None:
        super().commit(epoch, parts)
        self.last = epoch

    def last_committed(self) -> Time | None:
        return self.last


class Locks(Table):
    """It is correct: the object that commits keeps others out as long as it lives."""

    lock: IO[str] | None = None

    def commit(self, epoch: Time, parts: list[Any]) -> None:
        if self.lock is None:
            self.lock = Path(f"{self.path}.lock").open("w")  # noqa: SIM115 - it stays open as long as this object lives
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        super().commit(epoch, parts)
