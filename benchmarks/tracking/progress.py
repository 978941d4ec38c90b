"""The cost of progress tracking: by operators, by epochs in flight, by workers and ways to spread.

Everything runs in one process. The floor is what no runtime in Python can go below: the dictionary operations that
count one token down and another up, in a loop.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import log
from pickle import HIGHEST_PROTOCOL, dumps
from random import Random
from time import perf_counter
from typing import Any

import tidewheel as tw
from benchmarks.measuring.measurement import Report, alternate, arguments
from benchmarks.measuring.stepped_workers import SteppedWorkers
from tidewheel.progress import ProgressBatch, SpreadName
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.messages.envelope import Envelope, InputCommand

FAR = 1_000_000
"""A time beyond all epochs that are measured."""


def main() -> None:
    options = arguments("Measure what progress tracking costs.")
    report = Report()
    with ExitStack() as running:
        by_operators(report, running, quick=options.quick)
        by_epochs_in_flight(report, running, quick=options.quick)
        by_updates_held_back(report, running, quick=options.quick)
    by_workers(report, quick=options.quick)
    report.finish(options.json)


# ---------------------------------------------------------------------- operators


def by_operators(report: Report, running: ExitStack, *, quick: bool) -> None:
    """Measure an empty epoch through chains of operators: advance the input, and wait for the probe behind them."""
    sizes = (10, 100, 1000, 10_000)
    contestants: dict[str, Callable[[], float]] = {"floor: count one time down and another up": floor}
    for size in sizes:
        started = perf_counter()
        job = running.enter_context(tw.run(chain(size, map_each), engine="local"))
        running.callback(job.stop)
        report.add(f"{size} maps: time to build", [perf_counter() - started], "s")
        contestants[f"{size} maps: an empty epoch"] = partial(empty_epochs, job, count(1))
    for size in sizes:
        job = running.enter_context(tw.run(chain(size, exchange_each), engine="local"))
        running.callback(job.stop)
        contestants[f"{size} exchanges, which are not fused: an empty epoch"] = partial(empty_epochs, job, count(1))
    for size in (10, 100, 1000):
        job = running.enter_context(tw.run(chain(size, notify_each), engine="local"))
        running.callback(job.stop)
        name = f"{size} operators that each look at their frontier: an empty epoch"
        contestants[name] = partial(empty_epochs, job, count(1), epochs=20)
    figures = {
        name: report.add(name, values, "us")
        for name, values in alternate(contestants, rounds=5 if quick else 15).items()
    }
    report.expect("100 maps and a probe: an empty epoch, us", figures["100 maps: an empty epoch"], 40)
    for kind in ("maps", "exchanges, which are not fused"):
        ratio = figures[f"10000 {kind}: an empty epoch"] / figures[f"10 {kind}: an empty epoch"]
        report.expect(f"an empty epoch of 10,000 against 10 {kind}: ratio", ratio, 1.5)


def floor() -> float:
    counts = {0: 1}
    started = perf_counter()
    for time in range(1000):
        counts[time + 1] = counts.get(time + 1, 0) + 1
        after = counts.get(time, 0) - 1
        if after:
            counts[time] = after
        else:
            del counts[time]
    return (perf_counter() - started) * 1e3


def chain(size: int, add: Callable[[tw.Stream[Any]], tw.Stream[Any]]) -> tw.Dataflow:
    """Describe an input, ``size`` operators in a row, and a probe."""
    flow = tw.Dataflow("chain")
    stream = flow.input("numbers")
    for _ in range(size):
        stream = add(stream)
    stream.probe("done")
    return flow


def map_each(stream: tw.Stream[Any]) -> tw.Stream[Any]:
    return stream.map(lambda number: number)


def exchange_each(stream: tw.Stream[Any]) -> tw.Stream[Any]:
    return stream.exchange(lambda number: number)


def notify_each(stream: tw.Stream[Any]) -> tw.Stream[Any]:
    return stream.unary(build_pass, name="pass")


def build_pass(context: tw.OperatorContext) -> Schedule:
    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            output.send(token, batch)

    return schedule


def empty_epochs(job: tw.types.Job, times: Iterator[int], epochs: int = 200) -> float:
    """Return how many microseconds an empty epoch takes, from the input to the probe."""
    numbers, done = job.input("numbers"), job.probe("done")
    started = perf_counter()
    for _ in range(epochs):
        time = next(times)
        numbers.advance_to(time)
        done.wait_until(time)
    return (perf_counter() - started) / epochs * 1e6


# ---------------------------------------------------------------------- epochs in flight


def by_epochs_in_flight(report: Report, running: ExitStack, *, quick: bool) -> None:
    """Measure an epoch that is opened while others are: an operator holds a token for each, and lets one go."""
    sizes = (1, 10, 100, 1000, 10_000)
    contestants: dict[str, Callable[[], float]] = {}
    for order in ("oldest first", "in any order"):
        for size in sizes:
            flow = tw.Dataflow("in flight")
            window = partial(build_window, size, Random(size) if order == "in any order" else None)
            flow.input("numbers").unary(window, name="window").probe("done")
            job = running.enter_context(tw.run(flow, engine="local"))
            running.callback(job.stop)
            times = count(1)
            measure = partial(open_epochs, job, times)
            measure(epochs=size + 100)
            contestants[f"{size} epochs in flight, {order}: one more, and one less"] = measure
    figures = {
        name: report.add(name, values, "us")
        for name, values in alternate(contestants, rounds=5 if quick else 15).items()
    }
    for order in ("oldest first", "in any order"):
        few, many = (figures[f"{size} epochs in flight, {order}: one more, and one less"] for size in (100, 10_000))
        limit = log(10_000) / log(100)
        report.expect(f"10,000 against 100 epochs in flight, {order}: ratio", many / few, limit)


def by_updates_held_back(report: Report, running: ExitStack, *, quick: bool) -> None:
    """Measure an empty epoch of two workers while one of them keeps from the other what it did at later times."""
    sizes = (1, 10, 100, 1000, 10_000)
    contestants: dict[str, Callable[[], float]] = {}
    for size in sizes:
        flow = tw.Dataflow("held back")
        later = list(range(FAR, FAR + 2 * size))  # of which the other worker gets half
        batches: list[tuple[int, list[int]]] = [(0, []), (1, later), *((epoch, []) for epoch in range(2, 20_000))]
        delayed = flow.source("numbers", tw.IterableSource([batches])).unary(build_delay, name="delay")
        delayed.exchange(lambda time: time).unary(build_drop, name="drop").probe("done")
        job = running.enter_context(tw.run(flow, engine="local", workers=2))
        running.callback(job.stop)
        job.probe("done").wait_until(10)
        contestants[f"{size} times held back: an empty epoch"] = partial(source_epochs, job.probe("done"), count(10))
    figures = {
        name: report.add(name, values, "us")
        for name, values in alternate(contestants, rounds=5 if quick else 15).items()
    }
    few, many = (figures[f"{size} times held back: an empty epoch"] for size in (100, 10_000))
    report.expect("10,000 against 100 times held back: ratio", many / few, log(10_000) / log(100))


def build_delay(context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends each record at the time that the record is."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            for time in batch:
                with lent.delayed(time) as token:
                    output.send(token, [time])

    return schedule


def build_drop(context: tw.OperatorContext) -> Schedule:
    """Build an operator that forgets what it gets."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for _ in input:
            pass

    return schedule


def source_epochs(done: tw.types.ProbeHandle, times: Iterator[int], epochs: int = 50) -> float:
    """Return how many microseconds an epoch of a source takes."""
    started = perf_counter()
    done.wait_until([next(times) for _ in range(epochs)][-1])
    return (perf_counter() - started) / epochs * 1e6


def build_window(size: int, random: Random | None, context: tw.OperatorContext) -> Schedule:
    """Build an operator that keeps tokens for ``size`` epochs, the latest ones or any."""
    held: deque[tw.TimestampToken] = deque()

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, _ in input:
            held.append(token.retain())
            if len(held) > size:
                if random is not None:
                    held.rotate(random.randrange(8))
                held.popleft().discard()

    return schedule


def open_epochs(job: tw.types.Job, times: Iterator[int], epochs: int = 200) -> float:
    """Return how many microseconds it takes to send one record at a new time and have it worked off."""
    numbers = job.input("numbers")
    local: Any = job
    started = perf_counter()
    for _ in range(epochs):
        numbers.advance_to(next(times))
        numbers.send([1])
        while local.run_round():
            pass
    return (perf_counter() - started) / epochs * 1e6


# ---------------------------------------------------------------------- workers


@dataclass(frozen=True, slots=True)
class EpochCost:
    """What one epoch took: messages with progress, their bytes when pickled, changes in them, and microseconds."""

    messages: float
    bytes: float
    changes: float
    microseconds: float


class Workers(SteppedWorkers):
    """Workers that pass epochs; batches of progress are counted."""

    def __init__(self, workers: int, progress: SpreadName, *, hold_back: bool) -> None:
        flow = tw.Dataflow("epochs")
        numbers = flow.input("numbers").exchange(lambda number: number)
        numbers.unary(build_collect, name="collect").exchange(lambda number: -number).probe("done")
        super().__init__(description_of(flow).plan(), workers, progress, hold_back=hold_back)
        self.batches: list[tuple[ProgressBatch, int]] = []
        self.time = 0
        self.run()

    def count(self, worker: int, peer: int, envelope: Envelope) -> None:
        """Keep the progress that one worker tells another."""
        if envelope.progress:
            self.batches.append((envelope.progress, peer))

    def epoch(self, batches: int) -> None:
        """Let every worker get ``batches`` batches, each with a record for each worker; then go on to the next time."""
        workers = len(self.cores)
        for _ in range(batches):
            for worker in range(workers):
                self.command(worker, InputCommand("numbers", "send", self.time, list(range(workers))))
            self.run()
        self.time += 1
        for worker in range(workers):
            self.command(worker, InputCommand("numbers", "advance", self.time))
        self.run()
        assert not self.cores[-1].probes.frontier("done").less_than(self.time)

    def measure(self, epochs: int, batches: int) -> EpochCost:
        """Return the cost of one epoch, on average; one before it does not count."""
        self.epoch(batches)
        self.batches.clear()
        started = perf_counter()
        for _ in range(epochs):
            self.epoch(batches)
        took = perf_counter() - started
        size = sum(len(dumps(batch, HIGHEST_PROTOCOL)) for batch, _ in self.batches)
        changes = sum(len(batch) for batch, _ in self.batches)
        return EpochCost(len(self.batches) / epochs, size / epochs, changes / epochs, took / epochs * 1e6)


def build_collect(context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends what came at a time once the time is complete."""
    held: dict[int, tuple[tw.TimestampToken, list[int]]] = {}

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            if token.time not in held:
                held[token.time] = (token.retain(), [])
            held[token.time][1].extend(batch)
        for time in [time for time in held if not input.frontier.less_equal(time)]:
            kept, records = held.pop(time)
            with kept:
                output.send(kept, records)

    return schedule


def by_workers(report: Report, *, quick: bool) -> None:
    """Count what workers tell each other of an epoch: an empty one, and one with two batches to each from each."""
    sizes = (1, 2, 4, 8, 16, 32, 64)
    spreads: tuple[SpreadName, ...] = ("broadcast", "accumulated")
    messages: dict[tuple[str, bool, int, int], float] = {}
    for batches, kind in ((0, "empty epoch"), (2, "epoch with data")):
        for progress in spreads:
            for hold_back in (True, False):
                for size in sizes:
                    if quick and size > 16 and (batches or size > 32):
                        continue
                    held = "held back" if hold_back else "sent at once"
                    cost = Workers(size, progress, hold_back=hold_back).measure(2 if quick else 5, batches)
                    messages[progress, hold_back, size, batches] = cost.messages
                    report.add_several(
                        f"{kind}, {size} workers, {progress}, {held}",
                        {
                            "of progress": (cost.messages, "messages"),
                            "in all": (cost.bytes, "bytes"),
                            "on one core": (cost.microseconds, "us"),
                        },
                    )
    most = max(size for _, _, size, batches in messages if not batches)
    accumulated = messages["accumulated", True, most, 0]
    report.expect(f"accumulated, {most} workers: messages of an empty epoch", accumulated, 2 * most)
    for progress in spreads:
        largest = max(size for _, _, size, batches in messages if batches)
        ratio = messages[progress, True, largest, 2] / messages[progress, False, largest, 2]
        report.expect(f"{progress}, {largest} workers: messages with hold-back against without, ratio", ratio, 1.0)


if __name__ == "__main__":
    main()
