"""The speed at which a new subscriber reads the log, beside the speed at which the same came live.

A durable subscription that nobody reads holds the log. Batches of 64 KB are published, and a subscriber gets them live,
with the same exactly-once delivery; then, while nothing is published, others begin with ``start="earliest"``, one after
the other, and take from before ``tw.subscribe`` until they have had, and decoded, all: from what the system has in
memory of the log's files, and after it was told to forget them, from the disk.

``python -m benchmarks.parts.log_history ADDRESS`` is such a subscriber, in a process of its own: for each line, a
number of batches.
"""

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import tidewheel as tw
from benchmarks.contestants.exactly_once_peers import HISTORY
from benchmarks.contestants.peer_roles import DEADLINE_S, answer, end_if_late, lines
from benchmarks.contestants.topic_contestants import job_turn, receipts_of, seconds
from benchmarks.measuring.file_systems import forget_pages
from benchmarks.measuring.measurement import Report
from benchmarks.measuring.peer_processes import PeerProcesses, program
from benchmarks.measuring.pubsub_traffic import Order, Receipt, encoded_bytes

BATCH_BYTES = 64 * 1024
AS_FAST_AS_LIVE = 2.0
"""By how many times live may be faster."""
_ENDING = 1
"""A turn has one batch more, which says that it is over."""


def measure_catching_up(report: Report, job: tw.types.Job, log: Path, batches: int, a_turn: int, rounds: int) -> None:
    """Report how fast batches come from the log, and live.

    Args:
        report: takes it.
        job: publishes the topic.
        log: where its log is.
        batches: how many there are in the end.
        a_turn: how many are published at a time.
        rounds: how often somebody catches up.
    """
    import ray

    order = Order("sized tables", a_turn, size=BATCH_BYTES)
    turn_mb = a_turn * encoded_bytes(order) / 1e6
    turns = batches // a_turn
    tw.subscribe(HISTORY, durable=tw.Durable("holds the log")).close()
    with ExitStack() as live:
        turn = job_turn(live, "contestants.exactly_once_peers", job, HISTORY, HISTORY, 1)
        published = [turn_mb / seconds(turn(order)) for _ in range(turns)][1:]
    what = f"{turns * turn_mb:,.0f} MB in batches of 64 KB"
    usual = report.add(f"{what}, live", published, "MB/s")
    address = ray.get_runtime_context().gcs_address
    with PeerProcesses([program("parts.log_history", address)]) as reader:

        def caught_up() -> float:
            (receipt,) = receipts_of(reader.ask(str(turns * (a_turn + _ENDING))))
            return turns * turn_mb / receipt.seconds

        caught_up()  # once that does not count
        kept, read = [], []
        for _ in range(rounds):
            kept.append(caught_up())
            forget_pages(log)
            read.append(caught_up())
    for how, figures in {"from memory": kept, "from the disk": read}.items():
        rate = report.add(f"{what}, from the log, {how}", figures, "MB/s")
        report.expect(f"{what}: live by from the log, {how}, ratio", usual / rate, AS_FAST_AS_LIVE)


def main() -> None:
    os.environ["RAY_ADDRESS"] = sys.argv[1]
    end_if_late()
    for line in lines():
        answer([catch_up(int(line))])


def catch_up(batches: int) -> Receipt:
    """Read so many batches from the earliest on, and decode them."""
    receipt = Receipt()
    began_s = time.perf_counter()
    with tw.subscribe(HISTORY, start="earliest", timeout_s=DEADLINE_S) as subscription:
        for event in subscription:
            if isinstance(event, tw.types.Batch):
                receipt.messages += 1
                receipt.records += len(event.data)
                if receipt.messages == batches:
                    break
        receipt.seconds = time.perf_counter() - began_s
    return receipt


if __name__ == "__main__":
    main()
