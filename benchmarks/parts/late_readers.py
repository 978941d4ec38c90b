"""The effect of readers that begin far behind on a topic with a log: on the job, and on a live reader.

A job of two workers publishes small epochs as fast as it can, exactly once, with a log on disk. A live reader reads
them. Then three more readers begin at the start of the log. Measured are the epochs that the job publishes a second,
the longest time for which the live reader receives nothing, and how many epochs each late reader receives a second.
Each reader is a process of its own.
"""

import json
import logging
import select
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from operator import itemgetter
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import tidewheel as tw
from benchmarks.measuring.file_systems import disk_folder
from benchmarks.measuring.measurement import Report
from benchmarks.measuring.peer_processes import program

DEADLINE_S = 90.0
LATE = 3
LEAST_RATE = 0.8
MOST_GAP_S = 0.3
_RECORDS = 20
_WARM_S = 2.0


_key = itemgetter(0)


class Size(NamedTuple):
    """How much is measured.

    Attributes:
        logged_s: the job publishes for so long before the first round.
        rounds: how often late readers come.
        measured_s: for how long each round measures without them, and with them.
    """

    logged_s: float
    rounds: int
    measured_s: float


FULL = Size(20.0, 3, 10.0)
QUICK = Size(5.0, 1, 3.0)


def feed(numbers: Any, is_over: threading.Event) -> None:
    """Send small epochs as fast as the job receives them, until the event is set."""
    epoch = 0
    while not is_over.is_set():
        numbers.send([(key, epoch) for key in range(_RECORDS)])
        epoch += 1
        numbers.advance_to(epoch)
    numbers.close()


def measure_late_readers(report: Report, size: Size) -> None:
    """Report the rates and gaps, in a job of its own on the cluster of this process."""
    topic = "late"
    is_over = threading.Event()
    flow = tw.Dataflow(topic)
    numbers = flow.input("numbers").exchange(_key)
    alone: list[tuple[float, float]] = []
    together: list[tuple[float, float]] = []
    late_rates: list[float] = []
    with TemporaryDirectory(prefix="late-", dir=disk_folder()) as folder, ExitStack() as running:
        numbers.publish(topic, log=tw.Log(folder))
        job = running.enter_context(tw.run(flow, workers=2))
        tw.subscribe(topic, durable=tw.Durable("keeps all"), start="earliest", timeout_s=DEADLINE_S).close()
        live = running.enter_context(_Reader(topic, "live"))
        feeding = threading.Thread(target=feed, args=(job.input("numbers"), is_over))
        feeding.start()
        live.window(size.logged_s)
        for _ in range(size.rounds):
            alone.append(live.window(size.measured_s))
            with ExitStack() as block:
                late = [block.enter_context(_Reader(topic, "earliest")) for _ in range(LATE)]
                live.window(_WARM_S)
                for one in late:
                    one.ask()
                together.append(live.window(size.measured_s))
                late_rates += [one.answer()[0] for one in late]
        is_over.set()
        feeding.join()
        job.stop()
    tell(report, alone, together, late_rates)


def tell(
    report: Report, alone: list[tuple[float, float]], together: list[tuple[float, float]], late: list[float]
) -> None:
    """Report what came of all rounds; each has a rate, and the longest gap."""
    before = report.add("no late reader: epochs of a live reader", [rate for rate, _ in alone], "a second")
    report.add("no late reader: longest gap of a live reader", [gap_s for _, gap_s in alone], "s")
    after = report.add(f"{LATE} late readers: epochs of a live reader", [rate for rate, _ in together], "a second")
    gap_s = report.add(f"{LATE} late readers: longest gap of a live reader", [gap_s for _, gap_s in together], "s")
    report.add(f"{LATE} late readers: epochs of each of them", late, "a second")
    report.expect(f"{LATE} late readers: time for an epoch, by that without them", before / after, 1 / LEAST_RATE)
    report.expect(f"{LATE} late readers: longest gap of a live reader, s", gap_s, MOST_GAP_S)


class _Reader:
    """A process that reads a topic, and says when asked how many epochs it has received since it was asked before."""

    def __init__(self, topic: str, start: str) -> None:
        import ray

        address = ray.get_runtime_context().gcs_address
        self._process = subprocess.Popen(
            program("parts.late_readers", address, topic, start),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._line()

    def window(self, seconds: float) -> tuple[float, float]:
        """Return the epochs a second, and the longest gap in seconds, of so many seconds from now on."""
        self.ask()
        time.sleep(seconds)
        return self.answer()

    def ask(self) -> None:
        """Have it begin to count."""
        self._say()
        self._line()

    def answer(self) -> tuple[float, float]:
        """Return the epochs a second, and the longest gap in seconds, since `ask`."""
        self._say()
        found = self._line()
        return found["rate"], found["gap_s"]

    def _say(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def _line(self) -> dict[str, float]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], DEADLINE_S)[0]:
            raise TimeoutError(f"a reader has not answered for {DEADLINE_S:g} s")
        found: dict[str, float] = json.loads(self._process.stdout.readline())
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


class _Counts:
    """What a reader has received since it was asked."""

    def __init__(self) -> None:
        self.epochs, self.gap_s, self.began_s = 0, 0.0, time.monotonic()
        self.last_s = self.began_s

    def add(self) -> None:
        """Count an epoch."""
        now_s = time.monotonic()
        self.epochs, self.gap_s, self.last_s = self.epochs + 1, max(self.gap_s, now_s - self.last_s), now_s

    def told(self) -> dict[str, float]:
        """Return the epochs a second, and the longest gap."""
        now_s = time.monotonic()
        return {"rate": self.epochs / (now_s - self.began_s), "gap_s": max(self.gap_s, now_s - self.last_s)}


def read(address: str, topic: str, start: Any) -> None:
    """Read a topic until the process is killed; answer each line with the epochs received since the previous line."""
    import ray

    ray.init(address, logging_level=logging.ERROR, log_to_driver=False)
    counts = [_Counts()]

    def answer() -> None:
        for _ in sys.stdin:
            told, counts[0] = counts[0].told(), _Counts()
            print(json.dumps(told), flush=True)

    with tw.subscribe(topic, start=start, timeout_s=DEADLINE_S) as subscription:
        print("{}", flush=True)
        threading.Thread(target=answer, daemon=True).start()
        for _ in subscription.epochs(timeout_s=DEADLINE_S):
            counts[0].add()


if __name__ == "__main__":
    read(*sys.argv[1:])
