"""What it costs to know when parts of a stream have ended.

Traffic: all workers of a dataflow in one process; the messages and bytes that carry ends, those of the command that
closes keys included, for batches of keys that end together and for keys that end one by one; through a loop, and
without one by tokens and by punctuations. Work: how long all workers in one process take for small substreams, by
tokens, by punctuations as they are here, many to a message, and as the paper has them, each by itself. Throughput:
records through two exchanges, on two and on four worker actors, in substreams of several sizes with a result for each,
by tokens and by punctuations, and beside that without substreams, counted; the substreams of a batch end together, or
each where its last record is; on four workers small ones also by the punctuations of the paper. Memory: substreams of
five records each through a loop between two workers.
"""

from collections.abc import Callable
from functools import partial
from pickle import HIGHEST_PROTOCOL, dumps, loads
from time import perf_counter
from typing import Any
from unittest.mock import patch

import psutil

import tidewheel as tw
from measurement import Report, alternate, arguments
from stepped_workers import SteppedWorkers
from tidewheel.runtime.engines.ray_job import RayJob
from tidewheel.runtime.substreams.markers import Markers
from tidewheel.runtime.worker.channel import Channel
from tidewheel.runtime.worker.envelope import Envelope, InputCommand
from tidewheel.runtime.worker.worker_core import WorkerCore
from transport_floor import ray_cluster

LOOP, TOKENS, PUNCTUATIONS, UNTRACKED = "through a loop", "tokens", "punctuations", "not tracked"
PAPER = "punctuations, each a message"
TOGETHER, ONE_BY_ONE = "together", "one by one"
SIMULATED, QUICK_SIMULATED = (2, 4, 8, 16, 32, 64), (2, 8)
KEYS = 100
BATCHES = 5
MOST_MESSAGES = 3.0
SIZES = (1, 10, 100, 10_000)
RECORDS, QUICK_RECORDS = 100_000, 20_000
ROUNDS, QUICK_ROUNDS = 5, 1
BATCH = 10_000
WORKERS, QUICK_WORKERS = (2, 4), (4,)
FEW, MOST_BY_PUNCTUATIONS = 4, 1 / 3
"""With so many workers, tokens take at most so much of the time that punctuations take that are a message each."""
SMALL = 10
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
        for kind in (LOOP, TOKENS, PUNCTUATIONS):
            measure_traffic(report, workers, kind)
    for workers in (FEW,) if options.quick else (FEW, 4 * FEW):
        measure_work(report, workers, QUICK_ROUNDS if options.quick else ROUNDS)
    with ray_cluster():
        for workers in QUICK_WORKERS if options.quick else WORKERS:
            for way in (TOGETHER, ONE_BY_ONE):
                measure_throughput(report, workers, way, options.quick)
        measure_memory(report, QUICK_MANY if options.quick else MANY)
    report.finish(options.json)


# ---------------------------------------------------------------------- traffic


class Workers(SteppedWorkers):
    """Workers of which substreams end; what carries ends is counted."""

    def __init__(self, workers: int, kind: str) -> None:
        flow = tw.Dataflow("traffic")
        tracking: Any = PUNCTUATIONS if kind == PUNCTUATIONS else TOKENS
        records = flow.input("records").substreams("keys", lambda record: record[0], tracking=tracking)
        moved = records.exchange(lambda record: record[1])
        moved = moved.iterate(go_round) if kind == LOOP else moved.exchange(lambda record: record[1] + 1)
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
        """Count what one worker tells another of ends: of whom one is worker 0, or where records go."""
        if envelope.substreams is not None:
            self._count(max(worker, peer), envelope.substreams)
        for message in envelope.messages:
            if isinstance(message.label, Markers):
                self._count(worker, message)

    def _count(self, worker: int, what: object) -> None:
        """Count a message of a worker with worker 0 or the driver, or to another."""
        self.messages[worker] += 1
        self.bytes += len(dumps(what, HIGHEST_PROTOCOL))


def go_round(records: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
    """Send records once more to some worker."""
    moved = records.exchange(lambda record: record[1]).map(lambda record: (record[0], record[1] - 1))
    return moved.filter(lambda record: record[1] > 0), moved


def measure_traffic(report: Report, workers: int, kind: str) -> None:
    """Report the messages and bytes for keys that end together, and for the same keys one by one."""
    for name, at_once in (("together", KEYS), ("one by one", 1)):
        cluster = Workers(workers, kind)
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
        report.add_several(f"{workers} workers, {kind}, {at_once} keys {name}", figures)
        if kind != PUNCTUATIONS:
            what = f"{workers} workers, {kind}, {name}: messages a worker a batch of ends"
            report.expect(what, max(cluster.messages) / batches, MOST_MESSAGES)


# ---------------------------------------------------------------------- work


class PicklingWorkers(SteppedWorkers):
    """Workers of which each envelope is pickled on its way, as between processes."""

    def carry(self, envelope: Envelope) -> Envelope:
        """Return it as another process would get it."""
        arrived: Envelope = loads(dumps(envelope, HIGHEST_PROTOCOL))  # noqa: S301 - it is from this process
        return arrived


def one_by_one(push: Callable[[Channel, WorkerCore, Markers], None]) -> Callable[[Channel, WorkerCore, Markers], None]:
    """Return what sends each marker as a message of its own, as the paper has it, given what sends them together."""

    def push_one_by_one(channel: Channel, core: WorkerCore, markers: Markers) -> None:
        for key in markers.keys:
            push(channel, core, Markers(markers.declaration, [key]))
        if markers.is_last:
            push(channel, core, Markers(markers.declaration, [], is_last=True))

    return push_one_by_one


def one_by_one_for_good(context: tw.OperatorContext) -> Callable[[], None]:
    """Build an operator that does nothing, in a worker's process, whose markers are messages of their own then."""
    patch.object(Channel, "push_markers", one_by_one(Channel.push_markers)).start()
    return lambda: None


def work(workers: int, kind: str) -> float:
    """Return how long all workers in one process take for a batch of small substreams that end together, in seconds."""
    flow = tw.Dataflow("work")
    records = flow.input("records")
    (untracked(records) if kind == UNTRACKED else tracked(records, kind, None)).probe("done")
    cluster = PicklingWorkers(flow.plan(), workers, "accumulated")
    keys = BATCH // SMALL
    started = perf_counter()
    for epoch in range(BATCHES):
        ended = range(epoch * keys, (epoch + 1) * keys)
        rows = [(key, number) for number in range(SMALL) for key in ended]
        for worker in range(workers):
            cluster.command(worker, InputCommand("records", "advance", epoch))
            cluster.command(worker, InputCommand("records", "send", epoch, rows[worker::workers]))
        for worker in range(workers) if kind != UNTRACKED else ():
            cluster.command(worker, InputCommand("records", "end", epoch, list(ended)))
        cluster.run()
    return (perf_counter() - started) / BATCHES


def measure_work(report: Report, workers: int, rounds: int) -> None:
    """Compare what all workers together have to do, by tokens, by punctuations, and by punctuations one by one."""

    def paper() -> float:
        with patch.object(Channel, "push_markers", one_by_one(Channel.push_markers)):
            return work(workers, PUNCTUATIONS)

    kinds = (TOKENS, PUNCTUATIONS, UNTRACKED)
    contestants: dict[str, Callable[[], float]] = {kind: partial(work, workers, kind) for kind in kinds}
    if workers == FEW:  # with many, it takes minutes
        contestants[PAPER] = paper
    found = alternate(contestants, rounds)
    what = f"{workers} workers in one process, {BATCH // SMALL:,} substreams of {SMALL}"
    for name, times in found.items():
        report.add(f"{what}, {name}", times, "s")
    for other in (PUNCTUATIONS, PAPER)[: len(found) - 2]:
        ratios = [one / another for one, another in zip(found[TOKENS], found[other], strict=True)]
        ratio = report.add(f"{what}, time by {TOKENS} by that by {other}", ratios, "")
        if other == PAPER:
            report.expect(f"{what}, time by {TOKENS} by that by {other}", ratio, MOST_BY_PUNCTUATIONS)


# ---------------------------------------------------------------------- throughput


def tracked(records: tw.Stream[Any], tracking: Any, last: Callable[[Any], bool] | None) -> tw.Stream[Any]:
    divided = records.substreams("keys", lambda record: record[0], last=last, tracking=tracking)
    moved = divided.exchange(lambda record: record[1]).map(lambda record: (record[0], record[1] + 1))
    return moved.exchange(lambda record: record[0]).collect_substream(lambda key, rows: len(rows))


def untracked(records: tw.Stream[Any]) -> tw.Stream[Any]:
    moved = records.exchange(lambda record: record[1]).map(lambda record: (record[0], record[1] + 1))
    return moved.exchange(lambda record: record[0]).map_batches(lambda rows: [len(rows)])


def records_a_second(workers: int, way: str, kind: str, size: int, records: int) -> float:
    """Return how fast records go through, where ``size`` of them with one key make a substream.

    All of a batch end together, behind its records, or each right behind its last record.
    """
    flow = tw.Dataflow("throughput")
    sent_records = flow.input("records")
    if way == ONE_BY_ONE:  # what comes right from an input has no last record
        sent_records = sent_records.map_batches(lambda batch: batch)
    if kind == UNTRACKED:
        untracked(sent_records).capture("counts")
    else:
        if kind == PAPER:
            flow.operator(PAPER, [], 0, one_by_one_for_good)
        is_last = (lambda record: record[1] == size - 1) if way == ONE_BY_ONE else None
        tracked(sent_records, PUNCTUATIONS if kind == PAPER else kind, is_last).capture("counts")
    with tw.run(flow, workers=workers) as job:
        handle = job.input("records")
        keys = max(1, BATCH // size)
        batch_size = keys * size
        started = perf_counter()
        for epoch in range(max(1, records // batch_size)):
            handle.advance_to(epoch)
            ended = range(epoch * keys, (epoch + 1) * keys)
            if way == TOGETHER:
                handle.send([(key, number) for number in range(size) for key in ended])
            else:
                handle.send([(key, number) for key in ended for number in range(size)])
            if way == TOGETHER and kind != UNTRACKED:
                handle.end_substream(*ended)
        handle.close()
        job.wait(DEADLINE_S)
        took = perf_counter() - started
        counts = [count for entry in job.captured("counts") for count in entry.batch]
    sent = (epoch + 1) * batch_size
    if sum(counts) != sent or (kind != UNTRACKED and set(counts) != {size}):
        raise RuntimeError(f"{sum(counts)} records of {sent} came through, in {len(counts)} parts")
    return sent / took


def measure_throughput(report: Report, workers: int, way: str, quick: bool) -> None:
    """Compare streams in substreams of some sizes, by tokens and by punctuations, with one that is not divided."""
    records = QUICK_RECORDS if quick else RECORDS
    for size in SIZES:
        others = (PUNCTUATIONS, UNTRACKED, PAPER) if (workers, size) == (FEW, SMALL) else (PUNCTUATIONS, UNTRACKED)
        contestants = {kind: partial(records_a_second, workers, way, kind, size, records) for kind in (TOKENS, *others)}
        found = alternate(contestants, QUICK_ROUNDS if quick else ROUNDS)
        what = f"{workers} workers, substreams of {size:,} records that end {way}"
        for name, rates in found.items():
            report.add(f"{what}, {name}", rates, "records/s")
        for other in others:
            ratios = [one / another for one, another in zip(found[TOKENS], found[other], strict=True)]
            ratio = report.add(f"{what}, {TOKENS} by {other}", ratios, "")
            if other == PAPER:
                report.expect(f"{what}, time by {TOKENS} by that by {other}", 1 / ratio, MOST_BY_PUNCTUATIONS)


# ---------------------------------------------------------------------- memory


def measure_memory(report: Report, substreams: int) -> None:
    """Send many small substreams through a loop; report the rate, and how much the memory of the workers grows."""
    flow = tw.Dataflow("many")
    divided = flow.input("records").substreams("keys", lambda record: record[0])
    divided.iterate(go_round).collect_substream(lambda key, rows: len(rows)).probe("done")
    memory: list[float] = []
    with tw.run(flow, workers=2) as job:
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
