"""The memory of a long run: epochs at full rate through a loop with an exchange, to a topic with a subscriber.

Each epoch is a few numbers; the next ones are sent as fast as the subscriber reads. After a warm-up, which is a fifth
of the time, the memory that each process has for itself (USS) is compared between the first and the second half of the
rest, by medians. ``--seconds N`` for how long, 600 by default.
"""

import argparse
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import psutil

import tidewheel as tw
from benchmarks.measuring.job_processes import compare_halves, processes_of
from benchmarks.measuring.measurement import Report
from benchmarks.measuring.transport_floor import ray_cluster

WORKERS = 2
DEADLINE_S = 60.0
AHEAD = 20
"""The number of epochs that are sent before the subscriber has read the first of them."""
QUICK_S, LONG_S = 30.0, 600.0
MOST_SAMPLES = 300
MIB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure whether memory stays flat under epochs at full rate.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_S:g} seconds")
    parser.add_argument("--seconds", type=float, metavar="N", help=f"how long; {LONG_S:g} by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    report = Report()
    with ray_cluster():
        measure(report, options.seconds or (QUICK_S if options.quick else LONG_S))
    report.finish(options.json)


def measure(report: Report, seconds: float) -> None:
    """Run the job, and compare what was sampled meanwhile."""
    with tw.run(described(), workers=WORKERS) as job, tw.subscribe("soak") as subscription:
        memory = Memory(processes_of(job), seconds / MOST_SAMPLES)
        reader = Reader(subscription)
        reader.start()
        epochs = send_epochs(job, reader, memory, seconds)
        job.input("numbers").close()
        job.wait(timeout_s=DEADLINE_S)
        reader.join(DEADLINE_S)
    assert reader.epochs == epochs, f"{epochs} epochs were sent, {reader.epochs} read"
    report.add("epochs at full rate", [epochs / seconds], "epochs/s")
    for name, samples in memory.samples.items():
        compare_halves(report, name, samples)


def described() -> tw.Dataflow:
    """Describe a loop in which numbers are halved until they are odd, by way of another worker each time."""
    flow = tw.Dataflow("soak")
    flow.input("numbers").iterate(halve).exchange(lambda n: n).publish("soak").probe("done")
    return flow


def halve(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
    moved = numbers.exchange(lambda n: n)
    return moved.filter(lambda n: n % 2 == 0).map(lambda n: n // 2), moved.filter(lambda n: n % 2 == 1)


class Reader(threading.Thread):
    """Reads the topic to its end; counts its epochs."""

    def __init__(self, subscription: tw.types.Subscription) -> None:
        super().__init__(name="reader")
        self._subscription = subscription
        self._read = threading.Condition()
        self.epochs = 0

    def run(self) -> None:
        """Read."""
        for _ in self._subscription.epochs():
            with self._read:
                self.epochs += 1
                self._read.notify()

    def wait_for(self, epochs: int) -> None:
        """Wait until so many have been read."""
        with self._read:
            assert self._read.wait_for(lambda: self.epochs >= epochs, DEADLINE_S), "nothing is read any more"


@dataclass
class Memory:
    """What each process has for itself, in MiB, at moments that are at least ``pause_s`` seconds apart."""

    processes: Mapping[str, psutil.Process]
    pause_s: float
    samples: dict[str, list[float]] = field(default_factory=dict)
    next_s: float = 0.0

    def sample(self) -> None:
        """Look, unless it is too early for that."""
        now_s = monotonic()
        if now_s >= self.next_s:
            self.next_s = now_s + self.pause_s
            for name, process in self.processes.items():
                self.samples.setdefault(name, []).append(process.memory_full_info().uss / MIB)


def send_epochs(job: tw.types.Job, reader: Reader, memory: Memory, seconds: float) -> int:
    """Send for so many seconds; return how many epochs there were."""
    numbers, epoch, ends_s = job.input("numbers"), 0, monotonic() + seconds
    while monotonic() < ends_s:
        numbers.send(list(range(epoch % 1000 + 1, epoch % 1000 + 9)))
        epoch += 1
        numbers.advance_to(epoch)
        reader.wait_for(epoch - AHEAD)
        memory.sample()
    return epoch


if __name__ == "__main__":
    main()
