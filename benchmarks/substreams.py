"""What it costs to know when parts of a stream have ended.

Traffic: all workers of a dataflow in one process; the messages and bytes that carry ends, those of the command that
closes keys included, for batches of keys that end together and for keys that end one by one. Throughput: records
through two exchanges on two worker actors, in substreams of several sizes with a result for each, and beside that
without substreams, counted. Memory: substreams of five records each through a loop between two workers.
"""

from collections.abc import Callable
from pickle import HIGHEST_PROTOCOL, dumps
from time import perf_counter
from typing import Any

import psutil

import tidewheel as tw
from measurement import Report, alternate, arguments
from stepped_workers import SteppedWorkers
from tidewheel.runtime.envelope import Envelope, InputCommand
from tidewheel.runtime.ray_job import RayJob
from transport_floor import ray_cluster

SIMULATED, QUICK_SIMULATED = (2, 4, 8, 16, 32, 64), (2, 8)
KEYS = 100
BATCHES = 5
MOST_MESSAGES = 3.0
SIZES = (1, 10, 100, 10_000)
RECORDS, QUICK_RECORDS = 400_000, 20_000
ROUNDS, QUICK_ROUNDS = 5, 2
BATCH = 10_000
WORKERS = 2
MANY, QUICK_MANY = 1_000_000, 20_000
SIZE_OF_MANY = 5
AT_ONCE = 1_000
SAMPLES = 40
MIB = 2**20
MOST_GROWTH_MIB = 20.0
DEADLINE_S = 600.0


def main() -> None:
    options = arguments("Measure what it costs to know when parts of a stream have ended.")
    report = Report()
    for workers in QUICK_SIMULATED if options.quick else SIMULATED:
        measure_traffic(report, workers)
    with ray_cluster():
        measure_throughput(
            report, QUICK_RECORDS if options.quick else RECORDS, QUICK_ROUNDS if options.quick else ROUNDS
        )
        measure_memory(report, QUICK_MANY if options.quick else MANY)
    report.finish(options.json)


# ---------------------------------------------------------------------- traffic


class Workers(SteppedWorkers):
    """Workers of which substreams end; what carries ends is counted."""

    def __init__(self, workers: int) -> None:
        flow = tw.Dataflow("traffic")
        records = flow.input("records").substreams("keys", lambda record: record[0])
        moved = records.exchange(lambda record: record[1]).iterate(go_round)
        moved.collect_substream(lambda key, rows: len(rows)).probe("done")
        super().__init__(flow.plan(), workers, "accumulated")
        self.messages = [0] * workers
        self.bytes = 0

    def send(self, worker: int, records: list[Any]) -> None:
        """Send records to one worker's share of the input."""
        self.command(worker, InputCommand("records", "send", 0, records))

    def end(self, keys: list[int]) -> None:
        """End substreams, at every worker."""
        for worker in range(len(self.cores)):
            self._count(worker, keys)
            self.command(worker, InputCommand("records", "end", 0, keys))

    def count(self, worker: int, peer: int, envelope: Envelope) -> None:
        """Count what one worker tells another of ends, of whom one is worker 0."""
        if envelope.substreams is not None:
            self._count(max(worker, peer), envelope.substreams)

    def _count(self, worker: int, what: object) -> None:
        """Count a message of a worker with worker 0 or the driver."""
        self.messages[worker] += 1
        self.bytes += len(dumps(what, HIGHEST_PROTOCOL))


def go_round(records: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
    """Send records once more to some worker."""
    moved = records.exchange(lambda record: record[1]).map(lambda record: (record[0], record[1] - 1))
    return moved.filter(lambda record: record[1] > 0), moved


def measure_traffic(report: Report, workers: int) -> None:
    """Report the messages and bytes for keys that end together, and for the same keys one by one."""
    for name, at_once in (("together", KEYS), ("one by one", 1)):
        cluster = Workers(workers)
        batches = BATCHES * KEYS // at_once if at_once > 1 else KEYS
        started = perf_counter()
        for number in range(batches):
            keys = list(range(number * at_once, (number + 1) * at_once))
            for worker in range(workers):
                cluster.send(worker, [(key, 1 + (key + worker) % 3) for key in keys])
            cluster.run()
            cluster.end(keys)
            cluster.run()
        took = perf_counter() - started
        ended = batches * at_once
        figures = {
            "messages a worker a batch of ends": (max(cluster.messages) / batches, ""),
            "messages a batch": (sum(cluster.messages) / batches, ""),
            "bytes a substream": (cluster.bytes / ended, "B"),
            "in all workers together": (took / ended * 1e6, "us/substream"),
        }
        report.add_several(f"{workers} workers, {at_once} keys {name}", figures)
        report.expect(
            f"{workers} workers, {name}: messages a worker a batch of ends", max(cluster.messages) / batches,
            MOST_MESSAGES,
        )  # fmt: skip


# ---------------------------------------------------------------------- throughput


def tracked(records: tw.Stream[Any]) -> tw.Stream[Any]:
    divided = records.substreams("keys", lambda record: record[0])
    moved = divided.exchange(lambda record: record[1]).map(lambda record: (record[0], record[1] + 1))
    return moved.exchange(lambda record: record[0]).collect_substream(lambda key, rows: len(rows))


def untracked(records: tw.Stream[Any]) -> tw.Stream[Any]:
    moved = records.exchange(lambda record: record[1]).map(lambda record: (record[0], record[1] + 1))
    return moved.exchange(lambda record: record[0]).map_batches(lambda rows: [len(rows)])


def records_a_second(describe: Callable[[tw.Stream[Any]], tw.Stream[Any]], size: int, records: int) -> float:
    """Return how fast records go through, where ``size`` of them with one key end together."""
    flow = tw.Dataflow("throughput")
    describe(flow.input("records")).capture("counts")
    with tw.run(flow, workers=WORKERS) as job:
        handle = job.input("records")
        keys = max(1, BATCH // size)
        batch_size = keys * size
        started = perf_counter()
        for epoch in range(max(1, records // batch_size)):
            handle.advance_to(epoch)
            ended = range(epoch * keys, (epoch + 1) * keys)
            batch = [(key, number) for number in range(size) for key in ended]
            handle.send(batch)
            if describe is tracked:
                handle.end_substream(*ended)
        handle.close()
        job.wait(DEADLINE_S)
        took = perf_counter() - started
        counts = [count for entry in job.captured("counts") for count in entry.batch]
    sent = (epoch + 1) * batch_size
    if sum(counts) != sent or (describe is tracked and set(counts) != {size}):
        raise RuntimeError(f"{sum(counts)} records of {sent} came through, in {len(counts)} parts")
    return sent / took


def measure_throughput(report: Report, records: int, rounds: int) -> None:
    """Compare streams in substreams of some sizes with one that is not divided."""
    for size in SIZES:
        contestants = {
            "tracked": lambda size=size: records_a_second(tracked, size, records),
            "not tracked": lambda size=size: records_a_second(untracked, size, records),
        }
        found = alternate(contestants, rounds)
        for name, rates in found.items():
            report.add(f"substreams of {size:,} records, {name}", rates, "records/s")
        ratios = [one / other for one, other in zip(found["tracked"], found["not tracked"], strict=True)]
        report.add(f"substreams of {size:,} records, tracked by not tracked", ratios, "")


# ---------------------------------------------------------------------- memory


def measure_memory(report: Report, substreams: int) -> None:
    """Send many small substreams through a loop; report the rate, and how much the memory of the workers grows."""
    flow = tw.Dataflow("many")
    divided = flow.input("records").substreams("keys", lambda record: record[0])
    divided.iterate(go_round).collect_substream(lambda key, rows: len(rows)).probe("done")
    memory: list[float] = []
    with tw.run(flow, workers=WORKERS) as job:
        assert isinstance(job, RayJob)
        processes = [psutil.Process(pid) for pid in job.pids]
        handle = job.input("records")
        epochs = substreams // AT_ONCE
        started = perf_counter()
        for epoch in range(epochs):
            handle.advance_to(epoch)
            keys = range(epoch * AT_ONCE, (epoch + 1) * AT_ONCE)
            handle.send([(key, 1 + number % 3) for number in range(SIZE_OF_MANY) for key in keys])
            handle.end_substream(*keys)
            if epoch % max(1, epochs // SAMPLES) == 0:
                job.probe("done").wait_until(max(0, epoch - 2), DEADLINE_S)
                memory.append(sum(process.memory_full_info().uss for process in processes) / MIB)
        handle.close()
        job.wait(DEADLINE_S)
        took = perf_counter() - started
    report.add(f"{substreams:,} substreams of {SIZE_OF_MANY} records through a loop", [substreams / took], "/s")
    settled = memory[len(memory) // 4 :]
    half = len(settled) // 2
    first = report.add("memory of the workers, first half after warm-up", settled[:half], "MiB")
    second = report.add("memory of the workers, second half", settled[half:], "MiB")
    report.expect("growth of the memory of the workers, MiB", second - first, MOST_GROWTH_MIB)


if __name__ == "__main__":
    main()
