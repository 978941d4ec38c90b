"""The effect of one stopped subscriber on 99 others and on the publisher.

A job publishes thirty epochs of 64 KiB a second. A hundred subscriptions read whole epochs: 33 in each of three
processes, and one in a process of its own, which in two of three rounds is stopped by SIGSTOP before the first epoch,
and continued after the last. So much is sent that the connection of the one that is stopped is full, and then what may
wait for it: in one kind of round it is disconnected, in the other epochs are left out for it, and what waits stays at
its limit. Measured are how long epochs take from the operator that sends them to the other 99, all of which have to get
every epoch; how much waits for the slowest subscriber, as the publisher has it; and by how much the memory of the
publisher's process grows.

After that, readers that begin far behind read a topic with a log: `parts/late_readers.py`.
"""

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any, NamedTuple, Self

import tidewheel as tw
from benchmarks.measuring.job_processes import processes_of
from benchmarks.measuring.measurement import Report, arguments
from benchmarks.measuring.peer_processes import program
from benchmarks.measuring.transport_floor import ray_cluster
from benchmarks.parts import late_readers
from benchmarks.parts.late_readers import measure_late_readers
from tidewheel.pubsub.messages.delivery_options import Slow

DEADLINE_S = 60.0
MIB = 1024 * 1024
CAPACITY_BYTES = 4 * MIB
EPOCH_BYTES = 64 * 1024
A_SECOND = 30
LOOK_S = 0.1
SPARE_MIB = 8.0
"""The memory that a publisher may have beside the messages for the stopped subscriber. A part of these is on its way
into the socket, and Python keeps some freed memory."""
_GROUPS = (33, 33, 33, 1)
_ALL_READ = "all read"
_STOPPED: dict[str, Slow] = {"one stopped": "disconnect", "one stopped, for which epochs are left out": "drop_epochs"}


class Turn(NamedTuple):
    """What came of one round.

    Attributes:
        latencies_ms: of every epoch at every subscriber that was not stopped.
        waiting_bytes: how much waited for the slowest subscriber, at most.
        grown_bytes: by how much the memory of the publisher grew, at most.
    """

    latencies_ms: list[float]
    waiting_bytes: int
    grown_bytes: int


class Paced(tw.Source[tuple[int, bytes]]):
    """Sends epochs of one record each, with the time in it, when each is due."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs

    def partitions(self) -> list[str]:
        """Return the one partition."""
        return ["epochs"]

    def open(self, partition: str | int, position: int | None) -> Iterator[tuple[list[tuple[int, bytes]], int]]:
        """Yield each epoch when it is due."""
        begun, payload = position or 0, os.urandom(EPOCH_BYTES)
        began_s = time.perf_counter() - begun / A_SECOND
        for epoch in range(begun, self._epochs):
            time.sleep(max(0.0, began_s + epoch / A_SECOND - time.perf_counter()))
            yield [(time.perf_counter_ns(), payload)], epoch + 1


def main() -> None:
    if sys.argv[1:2] == ["subscribe"]:
        subscribe(int(sys.argv[2]))
        return
    options = arguments("Measure whether 99 subscribers notice that the hundredth is stopped.")
    report = Report()
    rounds, epochs = (1, 230) if options.quick else (7, 300)
    with ray_cluster(), ExitStack() as running:
        groups = [running.enter_context(_Group(count)) for count in _GROUPS]
        take_turn(groups, "warm", 20, None)
        turns = measure(groups, rounds, epochs)
        running.close()
        measure_late_readers(report, late_readers.QUICK if options.quick else late_readers.FULL)
    for name, found in turns.items():
        tell(report, name, found)
    expect(report, turns)
    report.finish(options.json)


def measure(groups: "list[_Group]", rounds: int, epochs: int) -> dict[str, list[Turn]]:
    """Take turns with nobody stopped, and with one that is stopped."""
    turns: dict[str, list[Turn]] = {name: [] for name in (_ALL_READ, *_STOPPED)}
    for number in range(rounds):
        for name, found in turns.items():
            found.append(take_turn(groups, f"{name}, round {number}", epochs, _STOPPED.get(name)))
    return turns


def tell(report: Report, name: str, turns: list[Turn]) -> None:
    """Report what came of one kind of round."""
    for percent in (50, 99):
        report.add(f"{name}, 99 subscribers: p{percent}", [_percentile(turn, percent) for turn in turns], "ms")
    report.add(f"{name}: waiting for the slowest, at most", [turn.waiting_bytes / MIB for turn in turns], "MiB")
    report.add(f"{name}: growth of the publisher's memory", [turn.grown_bytes / MIB for turn in turns], "MiB")


def expect(report: Report, turns: dict[str, list[Turn]]) -> None:
    """Compare rounds in which one was stopped with the others."""
    usual = {p: statistics.median(_percentile(turn, p) for turn in turns[_ALL_READ]) for p in (50, 99)}
    before = statistics.median(turn.grown_bytes for turn in turns[_ALL_READ])
    for name in _STOPPED:
        late = statistics.median(_percentile(turn, 99) for turn in turns[name])
        print(f"{name}: p99 by the p50 without it {late / usual[50]:.3g}")
        report.expect(f"{name}: p99 by the p99 without it", late / usual[99], 2.0)
        waiting = max(turn.waiting_bytes for turn in turns[name]) / MIB
        report.expect(f"{name}: waiting for the slowest, at most, MiB", waiting, CAPACITY_BYTES / MIB)
        grown = (statistics.median(turn.grown_bytes for turn in turns[name]) - before) / MIB
        report.expect(f"{name}: growth beyond that without it, MiB", grown, CAPACITY_BYTES / MIB + SPARE_MIB)


def _percentile(turn: Turn, percent: int) -> float:
    return statistics.quantiles(turn.latencies_ms, n=100)[percent - 1]


def take_turn(groups: "list[_Group]", topic: str, epochs: int, stopped: Slow | None) -> Turn:
    """Run one job to its end; all but one that was stopped have to get every epoch."""
    flow = tw.Dataflow(topic)
    flow.source("epochs", Paced(epochs)).publish(topic, capacity_bytes=CAPACITY_BYTES)
    *others, last = groups
    with tw.run(flow, workers=1, paused=True) as job:
        for group in groups:
            group.tell(topic, (stopped or "disconnect") if group is last else "disconnect")
        job.topic(topic).wait_for_subscribers(sum(_GROUPS), timeout_s=DEADLINE_S)
        with _Watch(job, topic) as watch:
            if stopped is not None:
                last.signal(signal.SIGSTOP)
            try:
                job.start()
                receipts = [receipt for group in others for receipt in group.answer()]
            finally:
                last.signal(signal.SIGCONT)
        job.wait(timeout_s=DEADLINE_S)
        (own,) = last.answer()
    check(receipts if stopped else [*receipts, own], epochs)
    if stopped is not None and len(own["latencies_ms"]) == epochs:
        raise RuntimeError(f"who was stopped has had all epochs: {epochs} of them are not enough to fall behind")
    return Turn(
        [one for receipt in receipts for one in receipt["latencies_ms"]], watch.waiting_bytes, watch.grown_bytes
    )


def check(receipts: list[dict[str, Any]], epochs: int) -> None:
    """Raise RuntimeError if a subscriber has not had every epoch."""
    for receipt in receipts:
        if len(receipt["latencies_ms"]) != epochs or "error" in receipt:
            raise RuntimeError(f"a subscriber has not had every epoch: {str(receipt)[:300]}")


class _Watch:
    """Looks at the publisher, again and again, until the end of a block.

    Attributes:
        waiting_bytes: how much has waited for the slowest subscriber, at most.
        grown_bytes: by how much its memory has grown, at most.
    """

    def __init__(self, job: tw.types.Job, topic: str) -> None:
        self._job = job
        self._topic = topic
        found = processes_of(job)
        self._publisher = found["publisher 0"]
        self._before = int(self._publisher.memory_info().rss)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.waiting_bytes = self.grown_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(DEADLINE_S)

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_S):
            (said,) = self._job.statistics().topics[self._topic]
            self.waiting_bytes = max(self.waiting_bytes, said["lag_bytes"])
            self.grown_bytes = max(self.grown_bytes, int(self._publisher.memory_info().rss) - self._before)


class _Group:
    """A driver of its own with some subscriptions."""

    def __init__(self, count: int) -> None:
        import ray

        environment = {**os.environ, "RAY_ADDRESS": ray.get_runtime_context().gcs_address}
        self._process = subprocess.Popen(
            program("topics.slow_subscriber", "subscribe", str(count)),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, topic: str, slow: Slow) -> None:
        """Have all subscribe to a topic."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([topic, slow]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[dict[str, Any]]:
        """Return what they have had, once the topic has ended."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], DEADLINE_S)[0]:
            raise TimeoutError(f"subscribers have not answered for {DEADLINE_S:g} s")
        found: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return found

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        self._process.send_signal(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def subscribe(count: int) -> None:
    """For each line, a topic, read it by so many subscriptions, each on a thread; answer by what they had."""
    for line in sys.stdin:
        topic, slow = json.loads(line)
        receipts: SimpleQueue[dict[str, Any]] = SimpleQueue()
        for _ in range(count):
            threading.Thread(target=_read, args=[topic, slow, receipts], daemon=True).start()
        print(json.dumps([receipts.get() for _ in range(count)]), flush=True)


def _read(topic: str, slow: Slow, receipts: "SimpleQueue[dict[str, Any]]") -> None:
    receipt: dict[str, Any] = {"latencies_ms": []}
    try:
        with tw.subscribe(topic, timeout_s=DEADLINE_S, slow=slow) as subscription:
            for epoch in subscription.epochs(timeout_s=DEADLINE_S):
                now_ns = time.perf_counter_ns()
                ((stamp_ns, _),) = epoch.records
                receipt["latencies_ms"].append((now_ns - stamp_ns) / 1e6)
    except Exception as error:  # noqa: BLE001 - whatever it is, the benchmark says so
        receipt["error"] = f"{type(error).__name__}: {error}"
    receipts.put(receipt)


if __name__ == "__main__":
    main()
