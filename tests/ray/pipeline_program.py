"""The programs of a pipeline that tests kill: a job, and a store of its results in SQLite.

``python -m tests.ray.pipeline_program job FOLDER STORES VISIBLE`` runs the job: journals in FOLDER go through a loop
with state to a topic that waits for so many stores. ``... database FOLDER`` stores the topic in FOLDER/totals.db. Both
connect to the cluster that RAY_ADDRESS names. Started again, each goes on where it was.
"""

import json
import os
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import tidewheel as tw

TOPIC = "totals"
WORKERS = 2
JOURNALS = 2
SNAPSHOTS_EVERY_S = 0.3
RESTARTS = 100
AGAIN_S = 0.2
_LOOK_EVERY_S = 0.02
_MOST_PASSED_ON = 100

Payment: TypeAlias = tuple[int, int]
"""An account, and cents."""

Totals: TypeAlias = dict[int, Counter[Payment]]
"""The accounts of each epoch, each with its total after a round of the loop."""


def journal(folder: Path, number: int) -> Path:
    return folder / f"journal-{number}"


class Journals(tw.Source[Payment]):
    """A source of files that grow by a line of payments for each epoch, until a line is ``null``."""

    says_epochs = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def partitions(self) -> list[int]:
        return list(range(JOURNALS))

    def open(self, partition: str | int, position: tuple[int, int] | None) -> Iterator[tw.Fetched[Payment] | tw.Pause]:
        """Read a journal; the position is the next epoch, and the place of its line."""
        (epoch, place), line = position or (0, 0), ""
        with journal(self._folder, int(partition)).open(encoding="utf-8") as file:
            file.seek(place)
            while True:
                line += file.readline()
                if not line.endswith("\n"):
                    yield tw.Pause(_LOOK_EVERY_S)
                    continue
                payments = json.loads(line)
                if payments is None:
                    return
                behind = epoch + 1, file.tell()
                yield tw.Fetched([(account, cents) for account, cents in payments], behind, epoch)
                epoch, line = epoch + 1, ""


def account_of(payment: Payment) -> int:
    return payment[0]


def added(total: int, payment: Payment) -> int:
    return total + payment[1]


def passed_on(total: Payment) -> Payment:
    """Return the payment to the parent of an account, which depends on the state of this account."""
    account, cents = total
    return account // 2, cents % _MOST_PASSED_ON


def is_payment(payment: Payment) -> bool:
    return payment[0] > 0


def up(payments: tw.Stream[Payment]) -> tuple[tw.Stream[Payment], tw.Stream[Payment]]:
    """Have each account pass a part of its total on to its parent, once for each round in which it is paid."""
    totals = payments.accumulate(account_of, start=int, add=added, name="totals")
    return totals.map(passed_on).filter(is_payment), totals


def described(folder: Path, stores: int, visible: Literal["epoch", "snapshot"]) -> tw.Dataflow:
    flow = tw.Dataflow("payments")
    totals = flow.source("payments", Journals(folder)).rebalance().iterate(up)
    rows = totals.rebalance().map(lambda total: {"account": total[0], "cents": total[1]})
    rows.publish(TOPIC, log=tw.Log(folder / "log"), wait_for=stores, visible=visible)
    return flow


def batch_totals(epochs: Sequence[Sequence[Payment]]) -> Totals:
    """Return what the dataflow has to publish, by plain Python."""
    balances: Counter[int] = Counter()
    found: Totals = {}
    for epoch, first in enumerate(epochs):
        payments = list(first)
        while payments:
            for account, cents in payments:
                balances[account] += cents
            totals = [(account, balances[account]) for account in {account for account, _ in payments}]
            found.setdefault(epoch, Counter()).update(totals)
            payments = list(filter(is_payment, map(passed_on, totals)))
    return found


def running(pid: int) -> str:
    """Return the line of a job that has been deployed: from then on it survives the death of an actor."""
    return f"process {pid} runs the job"


def run_job(folder: Path, stores: int, visible: Literal["epoch", "snapshot"]) -> None:
    """Run the job to its end."""
    snapshots = tw.Snapshots(folder / "snapshots", every_s=SNAPSHOTS_EVERY_S, restarts=RESTARTS)
    with tw.run(described(folder, stores, visible), workers=WORKERS, snapshots=snapshots) as job:
        say(running(os.getpid()))
        job.wait()


def connected(folder: Path) -> "closing[sqlite3.Connection]":
    database = sqlite3.connect(folder / "totals.db", timeout=60)
    database.execute("PRAGMA synchronous = OFF")  # processes die in tests, and power does not fail
    database.execute("CREATE TABLE IF NOT EXISTS epochs (epoch INTEGER PRIMARY KEY)")
    database.execute("CREATE TABLE IF NOT EXISTS totals (epoch INTEGER, account INTEGER, cents INTEGER)")
    return closing(database)


def store_all(folder: Path) -> None:
    """Store each epoch and its time in one transaction, until the topic ends, whichever job publishes it."""
    with connected(folder) as database:
        while True:
            try:
                with tw.subscribe(
                    TOPIC, timeout_s=None, durable=tw.Durable("database", ack="manual"), start="earliest"
                ) as topic:
                    for epoch in topic.epochs():
                        store(database, epoch)
                        topic.acknowledge(epoch)
            except tw.errors.PublisherLost as error:
                say(f"subscribes again: {error}")
                threading.Event().wait(AGAIN_S)
            else:
                return


def store(database: sqlite3.Connection, epoch: tw.types.Epoch) -> None:
    """Store an epoch; one that is there already has to be the same."""
    rows = [(epoch.time, row["account"], row["cents"]) for row in cast(list[dict[str, Any]], epoch.records)]
    with database:
        if database.execute("INSERT OR IGNORE INTO epochs VALUES (?)", [epoch.time]).rowcount:
            database.executemany("INSERT INTO totals VALUES (?, ?, ?)", rows)
            return
    stored = database.execute("SELECT * FROM totals WHERE epoch = ?", [epoch.time]).fetchall()
    assert Counter(stored) == Counter(rows), f"epoch {epoch.time} comes again with other records: {stored}, {rows}"


def in_database(folder: Path) -> Totals:
    """Return what is stored."""
    with connected(folder) as database:
        found: Totals = {epoch: Counter() for (epoch,) in database.execute("SELECT epoch FROM epochs")}
        for epoch, account, cents in database.execute("SELECT * FROM totals"):
            found[epoch][account, cents] += 1
    return found


def epochs_in_database(folder: Path) -> int:
    with connected(folder) as database:
        (count,) = database.execute("SELECT count(*) FROM epochs").fetchone()
    return int(count)


def say(text: str) -> None:
    """Write a line for whoever reads the output of this program."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """Do what the command line says."""
    what, folder, *rest = sys.argv[1:]
    if what == "database":
        store_all(Path(folder))
    else:
        stores, visible = rest
        run_job(Path(folder), int(stores), cast(Literal["epoch", "snapshot"], visible))


if __name__ == "__main__":
    main()
