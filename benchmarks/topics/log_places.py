"""The time until a batch of an exactly-once topic is kept: in a folder, and in an object store.

A batch is handed to the group commit of a log, as a publisher does, and the next one once that is kept. Then many
batches are handed over at once, and share requests.

With ``--store s3://bucket/prefix`` the store is that one. By default it is moto's server on this machine, a floor of
what requests cost without a network; it needs moto.
"""

import argparse
import queue
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring.file_systems import disk_folder
from benchmarks.measuring.measurement import Report
from benchmarks.measuring.object_stores import store
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.log.group_commit import GroupCommit
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.log.opening import open_log
from tidewheel.storage.log_records import Entry

SIZES = {1024: "1 KB", 64 * 1024: "64 KB", 1024 * 1024: "1 MB"}
DEADLINE_S = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how long a batch takes to be kept, by the place of the log.")
    parser.add_argument("--quick", action="store_true", help="fewer batches: ends within a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--store", metavar="URL", help="an empty prefix of a store, such as s3://bucket/prefix")
    options = parser.parse_args()
    batches = 20 if options.quick else 200
    report = Report()
    with TemporaryDirectory(prefix="log-places-", dir=disk_folder()) as folder, store(options.store, "logs") as url:
        for size, name in SIZES.items():
            for place, where in ((f"{folder}/{size}", "folder"), (f"{url}/{size}", "store")):
                measure(report, place, f"{where}, batches of {name}", bytes(size), batches)
    report.finish(options.json)


def measure(report: Report, place: str, what: str, payload: bytes, batches: int) -> None:
    """Report the time of batches one after the other, and the throughput of many at once."""
    kept: queue.SimpleQueue[int | LogError] = queue.SimpleQueue()
    with closing(open_log(place, LogIdentity("batches", 0, 1, "integers"), b"state")) as log:
        commit = GroupCommit(log)
        times = []
        for tick in range(batches):
            began_s = time.perf_counter()
            commit.submit([Entry(tick, 1, (payload,))], kept.put)
            check(kept.get(timeout=DEADLINE_S))
            times.append((time.perf_counter() - began_s) * 1e3)
        report.add(f"{what}: until one is kept", times, "ms")
        began_s = time.perf_counter()
        waiting = 0
        for tick in range(batches, 3 * batches):
            while not commit.submit([Entry(tick, 1, (payload,))], kept.put):
                check(kept.get(timeout=DEADLINE_S))
                waiting -= 1
            waiting += 1
        for _ in range(waiting):
            check(kept.get(timeout=DEADLINE_S))
        report.add(
            f"{what}: many at once", [2 * batches * len(payload) / 1e6 / (time.perf_counter() - began_s)], "MB/s"
        )
        commit.close(DEADLINE_S)


def check(outcome: int | LogError) -> None:
    """Raise the error of a batch, if it has one."""
    if isinstance(outcome, LogError):
        raise outcome


if __name__ == "__main__":
    main()
