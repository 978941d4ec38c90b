"""A source of a table that deletes what is saved, on Ray: each row is stored once while workers are killed."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.operators.sinks import Table, read_table
from tests.kit.seeds import seed_of
from tests.links.link_kind import Task
from tests.ray.leftovers import nothing_left
from tests.ray.worker_killer import WorkerKiller
from tests.waiting import eventually
from tidewheel.host.retry import Retry
from tidewheel.runtime.engines import recovery

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 120.0
SEED = seed_of("TIDEWHEEL_KILLS_SEED")


class Messages(tw.Source[int]):
    """Reads messages of some queues in SQLite; a saved one is deleted, and a queue may have an end."""

    look_every_s = None
    retry = tw.Retry(within_s=60, on=sqlite3.OperationalError)

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def connect(self) -> "closing[sqlite3.Connection]":
        database = sqlite3.connect(self.path, timeout=60)
        database.execute("PRAGMA synchronous = OFF")
        database.execute("CREATE TABLE IF NOT EXISTS messages (queue INTEGER, number INTEGER, body INTEGER)")
        return closing(database)

    def partitions(self) -> list[int]:
        return [0, 1, 2]

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        last = -1 if position is None else position
        with self.connect() as database:
            while True:
                found = database.execute(
                    "SELECT number, body FROM messages WHERE queue = ? AND number > ? ORDER BY number LIMIT 3",
                    (partition, last),
                ).fetchall()
                bodies = [body for _, body in found if body is not None]
                if found:
                    last = found[-1][0]
                    yield bodies, last
                if len(bodies) < len(found):
                    return
                if not found:
                    yield tw.Pause(0.02)

    def saved(self, partition: str | int, position: Any) -> None:
        with self.connect() as database, database:
            database.execute("DELETE FROM messages WHERE queue = ? AND number <= ?", (partition, position))

    def send(self, queue: int, number: int, body: int | None) -> None:
        with self.connect() as database, database:
            database.execute("INSERT INTO messages VALUES (?, ?, ?)", (queue, number, body))


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.long)])
def test_each_message_is_stored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int) -> None:
    """Whichever worker is killed, and whenever; in the end all messages are deleted."""
    monkeypatch.setattr(recovery, "_AGAIN", Retry(first_pause_s=0.2, factor=1.0))  # it would pause for 30 s
    messages, table, killer = Messages(tmp_path / "messages"), tmp_path / "db", WorkerKiller(Random(SEED))
    sent = [0, 0, 0]

    def feed() -> None:
        for _ in range(kills + 1):
            for queue in range(3):
                for _ in range(10):
                    messages.send(queue, sent[queue], 1000 * queue + sent[queue])
                    sent[queue] += 1
            known = Table(table).last_committed()
            assert eventually(lambda known=known: Table(table).last_committed() != known, DEADLINE_S)  # type: ignore[misc]
            if len(killer.killed) < kills:
                killer.strike()
        for queue in range(3):
            messages.send(queue, sent[queue], None)

    flow = tw.Dataflow("messages")
    flow.source("messages", messages, epoch_every_s=0.1).rebalance().sink(Table(table))
    snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=0.2, restarts=10 * kills)
    try:
        with nothing_left(), tw.run(flow, workers=2, snapshots=snapshots) as job:
            feeding = Task(feed)
            job.wait(DEADLINE_S)
            feeding.join(DEADLINE_S)
        assert len(killer.killed) == kills
        stored = sorted(body for bodies in read_table(table).values() for body in bodies)
        assert stored == sorted(1000 * queue + number for queue in range(3) for number in range(sent[queue]))
        with messages.connect() as database:
            assert database.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    except BaseException as error:
        error.add_note(f"TIDEWHEEL_KILLS_SEED={SEED}")
        raise
