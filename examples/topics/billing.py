"""Bills that are stored exactly once, though who stores them dies again and again, each time at the worst moment."""

import sqlite3
import tempfile
from pathlib import Path

import tidewheel as tw

EPOCHS = 12


class Crash(Exception):  # noqa: N818 - it names what happens
    """What an outage would be: the bills of an epoch are stored, and nobody has been told."""


def store(topic: str, database: sqlite3.Connection, crashes_after: int) -> None:
    """Store what comes until the topic ends, but for a crash after so many epochs."""
    with tw.subscribe(topic, timeout_s=60, durable=tw.Durable("billing", ack="manual"), start="earliest") as bills:
        for count, epoch in enumerate(bills.epochs(timeout_s=60), start=1):
            with database:  # the epoch and its bills, in one transaction
                is_new = database.execute("INSERT OR IGNORE INTO epochs VALUES (?)", [epoch.time]).rowcount
                if is_new:
                    database.executemany("INSERT INTO bills VALUES (?, ?)", epoch.records)
            if count == crashes_after:
                raise Crash
            bills.acknowledge(epoch)


def billed(folder: Path) -> tuple[int, int, int]:
    """Publish bills and store them; return how many there are, what they sum up to, and how often it crashed."""
    flow = tw.Dataflow("bills")
    orders = flow.input("orders")
    orders.map(lambda order: (order, 3 * order)).publish("bills", log=tw.Log(folder / "log"))
    database = sqlite3.connect(folder / "bills.db")
    with database:
        database.execute("CREATE TABLE epochs (time INTEGER PRIMARY KEY)")
        database.execute("CREATE TABLE bills (customer INTEGER, cents INTEGER)")
    crashes = 0
    with tw.run(flow, workers=2) as job:
        with job.input("orders") as feed:
            for epoch in range(EPOCHS):
                feed.send(list(range(epoch * 10, epoch * 10 + 10)))
                feed.advance_to(epoch + 1)
        while True:
            try:
                store("bills", database, crashes_after=4)
            except Crash:
                crashes += 1
            else:
                break
    count, cents = database.execute("SELECT count(*), sum(cents) FROM bills").fetchone()
    database.close()
    return count, cents, crashes


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        count, cents, crashes = billed(Path(folder))
    print(f"{count} bills of {cents} cents in all, after {crashes} crashes")
