"""The cost of telling operators when parts of a stream have ended.

Traffic: all workers of a dataflow in one process; the messages and bytes that carry ends, those of the command that
closes keys included, for batches of keys that end together and for keys that end one by one; through a loop, and
without one by tokens and by punctuations. Work: how long all workers in one process take for small substreams, by
tokens, by punctuations (`contestants/punctuations.py`), many to a message, and as the paper has them, each by itself.
Throughput: records through two exchanges, on two and on four worker actors, in substreams of several sizes with a
result for each, by tokens and by punctuations, and beside that without substreams, counted; the substreams of a batch
end together, or each where its last record is; on four workers small ones also by the punctuations of the paper.
Memory: substreams of five records each through a loop between two workers.
"""

from collections.abc import Callable
from functools import partial
from pickle import HIGHEST_PROTOCOL, dumps, loads
from time import perf_counter
from typing import Any

import psutil

import tidewheel as tw
from benchmarks.contestants.punctuations import Markers, are_markers, collected, exchanged, marked, markers_of
from benchmarks.measuring.measurement import Report, alternate, arguments
from benchmarks.measuring.stepped_workers import SteppedWorkers
from benchmarks.measuring.transport_floor import ray_cluster
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.engines.ray_job import RayJob
from tidewheel.runtime.messages.envelope import Envelope, InputCommand

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
        self._kind = kind
        records = flow.input("records")
        if kind == PUNCTUATIONS:
            moved = exchanged(records, lambda record: record[1], tuple, one_by_one=False)
            moved = exchanged(moved, lambda record: record[1] + 1, tuple, one_by_one=False)
            collected(moved, key_of, key_of, lambda key, rows: len(rows)).probe("done")
        else:
            moved = records.substreams("keys", key_of).exchange(lambda record: record[1])
            moved = moved.iterate(go_round) if kind == LOOP else moved.exchange(lambda record: record[1] + 1)
            moved.collect_substream(lambda key, rows: len(rows)).probe("done")
        super().__init__(description_of(flow).plan(), workers, "accumulated")
        self.messages = [0] * workers
        self.bytes = 0

    def send(self, worker: int, records: list[Any]) -> None:
        """Send records to one worker's share of the input."""
        self.command(worker, InputCommand("records", "send", 0, records))

    def end(self, keys: list[int]) -> None:
        """End substreams, at every worker."""
        for worker in range(len(self.cores)):
            self._count(worker, keys)
            if self._kind == PUNCTUATIONS:
                self.send(worker, [Markers(tuple(keys))])
            else:
                self.command(worker, InputCommand("records", "end", 0, keys))

    def count(self, worker: int, peer: int, envelope: Envelope) -> None:
        """Count what one worker tells another of ends: of whom one is worker 0, or where records go."""
        if envelope.substreams is not None:
            self._count(max(worker, peer), envelope.substreams)
        for message in envelope.messages:
            if self._kind == PUNCTUATIONS and are_markers(message.batch):
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


def work(workers: int, kind: str) -> float:
    """Return how long all workers in one process take for a batch of small substreams that end together, in seconds."""
    flow = tw.Dataflow("work")
    records = flow.input("records")
    (untracked(records) if kind == UNTRACKED else tracked(records, kind, None)).probe("done")
    cluster = PicklingWorkers(description_of(flow).plan(), workers, "accumulated")
    keys = BATCH // SMALL
    started = perf_counter()
    for epoch in range(BATCHES):
        ended = range(epoch * keys, (epoch + 1) * keys)
        rows = [(key, number) for number in range(SMALL) for key in ended]
        for worker in range(workers):
            cluster.command(worker, InputCommand("records", "advance", epoch))
            cluster.command(worker, InputCommand("records", "send", epoch, rows[worker::workers]))
        for worker in range(workers):
            for command in ends_of(kind, epoch, list(ended)):
                cluster.command(worker, command)
        cluster.run()
    return (perf_counter() - started) / BATCHES


def ends_of(kind: str, epoch: int, keys: list[Any]) -> list[InputCommand]:
    """Return the commands that end some substreams on one worker."""
    if kind == UNTRACKED:
        return []
    if kind == TOKENS:
        return [InputCommand("records", "end", epoch, keys)]
    messages = markers_of(keys, one_by_one=kind == PAPER)
    return [InputCommand("records", "send", epoch, message) for message in messages]


def measure_work(report: Report, workers: int, rounds: int) -> None:
    """Compare what all workers together have to do, by tokens, by punctuations, and by punctuations one by one."""
    kinds = (TOKENS, PUNCTUATIONS, UNTRACKED, *([PAPER] if workers == FEW else []))  # with many, it takes minutes
    contestants: dict[str, Callable[[], float]] = {kind: partial(work, workers, kind) for kind in kinds}
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


def key_of(record: Any) -> Any:
    """Return the key of the substream that a record belongs to."""
    return record[0]


def tracked(records: Any, kind: str, last: Callable[[Any], bool] | None) -> tw.Stream[Any]:
    if kind == TOKENS:
        divided = records.substreams("keys", key_of, last=last)
        moved = divided.exchange(lambda record: record[1]).map(lambda record: (record[0], record[1] + 1))
        return moved.exchange(key_of).collect_substream(lambda key, rows: len(rows))  # type: ignore[no-any-return]
    one_by_one = kind == PAPER
    if last is not None:
        records = marked(records, key_of, last, one_by_one=one_by_one)
    changed = exchanged(
        records, lambda record: record[1], lambda record: (record[0], record[1] + 1), one_by_one=one_by_one
    )
    return collected(changed, key_of, key_of, lambda key, rows: len(rows))


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
        is_last = (lambda record: record[1] == size - 1) if way == ONE_BY_ONE else None
        tracked(sent_records, kind, is_last).capture("counts")
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
            if way == TOGETHER and kind == TOKENS:
                handle.end_substream(*ended)
            elif way == TOGETHER and kind != UNTRACKED:
                for message in markers_of(list(ended), one_by_one=kind == PAPER):
                    for worker in range(workers):
                        handle.send(message, worker=worker)
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
