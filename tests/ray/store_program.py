"""A job that has all of its places in one object store, for tests that kill its processes.

``python -m tests.ray.store_program URL`` reads payments from files in URL/in as they come, writes the totals of each
epoch to URL/out, publishes them with a log in URL/log, and keeps its snapshots in URL/snapshots. It connects to the
cluster that RAY_ADDRESS names. Started again, it goes on where it was; it ends once there is URL/enough.
"""

import json
import sys
import threading
from collections import Counter
from typing import TypeAlias

import tidewheel as tw
from tidewheel.storage.object_store import RemoteFolder
from tidewheel.storage.stored_files import FileFinder, opened

TOPIC = "totals of a store"
WORKERS = 2
ENOUGH = "enough"
SNAPSHOTS_EVERY_S = 0.5
RESTARTS = 100
LOOKS_EVERY_S = 0.2
_ASKS_EVERY_S = 0.3

Totals: TypeAlias = dict[str, Counter[int]]
"""Of each epoch the cents of each account; a payment counts under -1, too, for their number."""


def folder_at(url: str) -> RemoteFolder:
    return RemoteFolder(url, 30, OSError)


def account_of(payment: dict[str, int]) -> int:
    return payment["account"]


def added(total: tuple[int, int], payment: dict[str, int]) -> tuple[int, int]:
    cents, payments = total
    return cents + payment["cents"], payments + 1


def row_of(total: tuple[int, tuple[int, int]]) -> dict[str, int]:
    account, (cents, payments) = total
    return {"account": account, "cents": cents, "payments": payments}


def totals_of(flow: tw.Dataflow, url: str, looks_every_s: float = LOOKS_EVERY_S) -> tw.Stream[dict[str, int]]:
    """Return the totals of each epoch, which are written to the store."""
    source = tw.FileSource(f"{url}/in/*.jsonl", watch_every_s=looks_every_s)
    payments = flow.source("payments", source).rebalance()
    totals = payments.aggregate(account_of, start=lambda: (0, 0), add=added, name="totals").map(row_of)
    totals.write_files(f"{url}/out", "jsonl", name="written")
    return totals


def described(url: str) -> tw.Dataflow:
    flow = tw.Dataflow("store")
    totals_of(flow, url).publish(TOPIC, log=tw.Log(f"{url}/log"), wait_for=1, visible="snapshot")
    return flow


def written(url: str) -> Totals:
    """Return what readers of the output see."""
    found: Totals = {}
    for file in FileFinder("out", f"{url}/out", OSError).find():
        with opened(file) as reader:
            rows = [json.loads(line) for line in reader.read().splitlines()]
        add_rows(found.setdefault(file.path.split("/")[-2], Counter()), rows)
    return found


def epochs_in(url: str) -> int:
    """Return how many epochs readers of the output see."""
    return len({file.path.split("/")[-2] for file in FileFinder("out", f"{url}/out", OSError).find()})


def add_rows(totals: Counter[int], rows: list[dict[str, int]]) -> None:
    for row in rows:
        totals[row["account"]] += row["cents"]
        totals[-1] += row["payments"]


def total(epochs: Totals) -> Counter[int]:
    return sum(epochs.values(), Counter())


def main() -> None:
    (url,) = sys.argv[1:]
    snapshots = tw.Snapshots(f"{url}/snapshots", every_s=SNAPSHOTS_EVERY_S, restarts=RESTARTS)
    with tw.run(described(url), workers=WORKERS, snapshots=snapshots) as job:
        sys.stdout.write("runs\n")
        sys.stdout.flush()
        while folder_at(url).read(ENOUGH) is None:
            threading.Event().wait(_ASKS_EVERY_S)
        job.stop(snapshot=True)


if __name__ == "__main__":
    main()
