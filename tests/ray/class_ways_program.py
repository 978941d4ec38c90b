"""A program whose records, of classes of its own, go all ways on Ray: ``python -m tests.ray.class_ways_program WHAT``.

WHAT is ``tasks TOPIC`` (fed and read by Ray tasks), ``publish TOPIC`` or ``read TOPIC`` (in another program),
``redefined`` (a class is defined again while a job runs), or ``changed VERSION FOLDER``: begin, or go on from a
snapshot, with one of the `VERSIONS` of the class of the state. It says what it has found as a line of JSON.
"""

import json
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any

import ray

import tidewheel as tw

WAITS_S = 60.0


@dataclass(frozen=True)
class Deposit:
    cents: int

    def fee(self) -> int:
        return self.cents // 10


class Kind(Enum):
    IN = 1
    OUT = 2


def is_deposit(record: Any) -> bool:
    return isinstance(record, Deposit) and record == Deposit(record.cents)


def said(**found: Any) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def feed(handle: tw.types.InputHandle, first: int) -> None:
    """Feed a job from a Ray task."""
    with handle:
        handle.send([Deposit(first), Kind.IN, Kind.OUT])


def received(topic: str, where: Any = None) -> list[bool]:
    """Tell of each record of a topic whether it is of a class of this process."""
    with tw.subscribe(topic, timeout_s=WAITS_S, where=where) as subscription:
        records = [record for epoch in subscription.epochs(timeout_s=WAITS_S) for record in epoch.records]
    return sorted(is_deposit(record) or record is Kind(record.value) for record in records)


def tasks(topic: str) -> None:
    """Feed a job from tasks and the program, and read it by a task, a condition, a look-up and a capture."""
    read = ray.remote(received).options(num_cpus=0).remote(topic)
    wanted = ray.remote(received).options(num_cpus=0).remote(topic, lambda record: record in {Deposit(5), Kind.IN})
    flow = tw.Dataflow("tasks")
    records: tw.Stream[Any] = flow.input("records", Deposit | Kind)
    records.publish(topic, wait_for=2).capture("records")
    by_kind = records.map(lambda record: (record if record is Kind.IN else Kind.OUT, record))
    by_kind.as_collection(upserts=True).lookup("by kind")
    records.filter(lambda record: type(record) is Kind).count().capture("counts")
    with tw.run(flow, workers=2) as job:
        handle = job.input("records")
        feeders = [ray.remote(feed).options(num_cpus=0).remote(handle.clone(), first) for first in (5, 6)]
        ray.get(feeders)
        handle.send([Deposit(5), Kind.OUT])
        handle.advance_to(1)
        found = job.lookup("by kind", [Kind.IN, Kind.OUT], timeout_s=WAITS_S)
        looked_up = [is_deposit(value) or value is Kind(value.value) for value in found.values]
        handle.close()
        job.wait(timeout_s=WAITS_S)
        captured = [record for entry in job.captured("records") for record in entry.batch]
        counts = sorted(str(pair) for entry in job.captured("counts") for pair in entry.batch)
        own = [is_deposit(record) or record is Kind(record.value) for record in captured]
    said(read=ray.get(read), wanted=ray.get(wanted), captured=own, counts=counts, looked_up=looked_up)


def publish(topic: str) -> None:
    """Publish, for programs that read."""
    flow = tw.Dataflow("publishing")
    flow.input("records").publish(topic, wait_for=1)
    with tw.run(flow, workers=2) as job:
        with job.input("records") as records:
            records.send([Deposit(5), Deposit(6), Kind.IN])
        job.wait(timeout_s=WAITS_S)


def define(source: str) -> None:
    """Execute a cell of a notebook."""
    exec(compile(source, "cell", "exec"), sys.modules["__main__"].__dict__)


CELL = "@dataclass(frozen=True)\nclass Paid:\n    cents: int\n    def fee(self):\n        return self.cents // {}\n"


def counting(name: str) -> tw.Dataflow:
    flow = tw.Dataflow(name)
    kind = sys.modules["__main__"].__dict__["Paid"]
    records = flow.input("records").capture("records")
    records.filter(lambda record: isinstance(record, kind)).map(lambda record: record.fee()).capture("fees")
    return flow


def fees(job: tw.types.Job) -> list[int]:
    """Send a record of the class that the program has now, and return the fees."""
    with job.input("records") as records:
        records.send([sys.modules["__main__"].__dict__["Paid"](50)])
    job.wait(timeout_s=WAITS_S)
    return [fee for entry in job.captured("fees") for fee in entry.batch]


def redefined() -> None:
    """Define a class again, unchanged and then changed: behind a job's results, and while a job runs."""
    errors = []
    define(CELL.format(10))
    with tw.run(counting("unchanged"), workers=2) as job:
        define(CELL.format(10))
        same = fees(job)
        define(CELL.format(7))
        try:
            list(job.captured("records"))
        except tw.TidewheelError as error:
            errors.append(f"{type(error).__name__}: {error}")
    try:
        with tw.run(counting("changed"), workers=2) as job:
            define(CELL.format(5))
            fees(job)
    except tw.TidewheelError as error:
        errors.append(f"{type(error).__name__}: {error}")
    with tw.run(counting("again"), workers=2) as job:
        again = fees(job)
    said(same=same, errors=errors, again=again)


ACCOUNT = "@dataclass(frozen=True)\nclass Account:\n    name: str\n    cents: int\n"
VERSIONS = {
    "as it was": ACCOUNT,
    "a method more": ACCOUNT + "    def euros(self): return self.cents // 100",
    "a field more": ACCOUNT + "    bank: str = 'none'",
    "other fields": "@dataclass(frozen=True)\nclass Account:\n    cents: int\n    name: str",
}


def added(state: Any, record: Any) -> tuple[Any, Any]:
    """Add to an account, which is state; send whether that is of the class of the record, and what it is now."""
    cents = record.cents + (0 if state is None else state.cents)
    new = type(record)(name=record.name, cents=cents)
    return new, (state is None or isinstance(state, type(record)), new)


def changed(version: str, folder: str) -> None:
    """Go on from a snapshot with another definition of the class that is in the state."""
    define(VERSIONS[version])
    account = sys.modules["__main__"].__dict__["Account"]
    flow = tw.Dataflow("accounts")
    stream = flow.input("records").stateful_map(
        lambda record: record.name, start=lambda: None, step=added, name="accounts"
    )
    stream.capture("accounts").probe("done")
    try:
        with tw.run(flow, workers=2, snapshots=tw.Snapshots(folder, every_s=1000)) as job:
            records = job.input("records")
            records.advance_to(records.position.batches)
            records.send([account(name="ann", cents=5)])
            records.advance_to(records.position.batches)
            job.probe("done").wait_until(records.position.batches, WAITS_S)
            job.snapshot(timeout_s=WAITS_S)
            found = [record for entry in job.captured("accounts") for record in entry.batch]
            job.stop()
        said(own=[is_own and isinstance(new, account) for is_own, new in found], found=[str(new) for _, new in found])
    except tw.TidewheelError as error:
        said(error=f"{type(error).__name__}: {error}")


def main(what: str, *arguments: str) -> None:
    """Do what the command line says."""
    match what:
        case "tasks":
            tasks(*arguments)
        case "publish":
            publish(*arguments)
        case "read":
            said(read=received(*arguments))
        case "redefined":
            redefined()
        case "changed":
            changed(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
