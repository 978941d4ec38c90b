"""A dataflow whose epochs are stored while its processes die, its feed, and what a run without a crash stores."""

import threading
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import tidewheel as tw
from tests.kit.operators.sinks import Table, read_table

DEADLINE_S = 120.0
PAUSE_S = 0.03


def results(numbers: tw.Stream[int]) -> tw.Stream[int]:
    """Have a state across epochs and a loop; which worker has a record, and when, depends on timing."""
    numbers = numbers.rebalance()
    sums = numbers.accumulate(lambda n: n % 7, start=int, add=lambda total, n: total + n).map(
        lambda pair: pair[0] + 10 * pair[1]
    )
    walked = numbers.exchange(abs).iterate(lambda left: (left.map(lambda n: n // 2).filter(bool).exchange(abs), left))
    return sums.concat(walked.map(lambda n: -n))


def describe(path: Path, visible: Literal["snapshot", "epoch"] = "snapshot") -> tw.Dataflow:
    """Have the results stored in SQLite."""
    flow = tw.Dataflow("stored")
    results(flow.input("numbers")).sink(Table(path), visible=visible)
    return flow


def batch_of(epoch: int) -> list[int]:
    return [epoch * 23 + step for step in (3, 5, 11, 17)]


class Feed:
    """Sends epoch after epoch, again where the job goes back, and ends once it is told to."""

    def __init__(self) -> None:
        self.is_enough = threading.Event()
        self.epochs = 0

    def run(self, job: tw.types.Job) -> None:
        while True:
            numbers = job.input("numbers")
            try:
                while not self.is_enough.is_set() or numbers.position.batches < self.epochs:
                    epoch = numbers.position.batches
                    numbers.advance_to(epoch)
                    numbers.send(batch_of(epoch))
                    self.epochs = max(self.epochs, epoch + 1)
                    threading.Event().wait(PAUSE_S)
                numbers.close()
                job.wait(DEADLINE_S)
            except tw.JobRolledBack:
                continue
            return


def counted(path: Path) -> dict[Any, Counter[int]]:
    return {time: Counter(records) for time, records in read_table(path).items()}


def undisturbed(epochs: int) -> dict[Any, Counter[int]]:
    """Return the results of a run without a crash and without snapshots."""
    flow = tw.Dataflow("undisturbed")
    results(flow.input("numbers")).capture("results")
    found: dict[Any, Counter[int]] = {}
    with tw.run(flow, engine="local") as job, job.input("numbers") as numbers:
        for epoch in range(epochs):
            numbers.advance_to(epoch)
            numbers.send(batch_of(epoch))
        numbers.close()
        job.wait(DEADLINE_S)
        for captured in job.captured("results"):
            found.setdefault(captured.time, Counter()).update(captured.batch)
    return found
