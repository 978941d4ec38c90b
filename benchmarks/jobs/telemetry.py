"""The cost of telemetry: how much throughput a job loses while a listener follows it, and while none does.

Two jobs on the local engine, where the driver, the workers and the listener share one interpreter, which is the worst
case: words counted at full rate, and empty epochs at full rate. The same two on Ray, where only the driver makes
documents. Each takes turns: without any telemetry, with its topic but no listener, and with one that merges each
record. Their order changes from round to round, so that a machine that slows down slows all of them.

A loss is the median of those of all rounds. With a listener a job is compared with itself, without one in the same
round. Without a listener it is compared with another job, which has no telemetry. On Ray two jobs that are alike differ
by several per cent, as each has processes of its own. So a third one, without telemetry as well, shows by how much, and
jobs start anew after some rounds. A loss has to be at most 2 %, or what jobs that are alike differ by; otherwise the
program ends with an error. The processor time of driver, workers and listener for the same work is compared, too, and
that of a job at rest: other programs on the machine change these less.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from statistics import median
from time import perf_counter
from typing import Literal, Self

import psutil

import tidewheel as tw
from benchmarks.measuring.measurement import Report, arguments
from benchmarks.measuring.transport_floor import ray_cluster
from tidewheel.pubsub.subscribers.telemetry_reader import TelemetryReader
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.engines.ray_job import RayJob

DEADLINE_S = 300.0
MOST_LOST_PER_CENT = 2.0
WORDS = ["to", "be", "or", "not", "that", "is", "the", "question"] * 500
Engine = Literal["local", "ray"]
Way = Literal["without telemetry", "without telemetry, again", "no listener", "a listener"]
WAYS: tuple[Way, ...] = ("without telemetry", "without telemetry, again", "no listener", "a listener")
WITHOUT, AGAIN, UNHEARD, LISTENED = WAYS
COMPARED: dict[Way, Way] = {AGAIN: WITHOUT, UNHEARD: WITHOUT, LISTENED: UNHEARD}
"""With which other way each is compared."""


def main() -> None:
    options = arguments("Measure what telemetry costs.")
    report = Report()
    seconds = 1.0 if options.quick else 1.5
    jobs_and_rounds = {"local": (1, 20), "ray": (7, 3)}
    with ray_cluster():
        for engine in ("local", "ray"):
            jobs, rounds = (1, 1) if options.quick else jobs_and_rounds[engine]
            for work in (Words(engine), EmptyEpochs(engine)):
                measure(report, work, jobs, rounds, seconds)
    report.finish(options.json)
    if not options.quick and not all(expected.holds for expected in report.expectations):
        sys.exit(1)


@dataclass
class Work:
    """What a job does again and again."""

    engine: Engine

    name = ""
    unit = ""

    def flow(self) -> tw.Dataflow:
        """Describe the dataflow."""
        raise NotImplementedError

    def turn(self, job: tw.types.Job, time: int) -> tuple[int, int]:
        """Do some work from a time on; return the next time, and how much was done."""
        raise NotImplementedError


class Words(Work):
    """Counts words, an epoch after the other."""

    name, unit = "word count", "words/s"

    def flow(self) -> tw.Dataflow:
        """Describe it."""
        flow = tw.Dataflow("words")
        words = flow.input("lines").flat_map(str.split, name="split")
        words.count().map(lambda pair: pair[1]).probe("done")
        return flow

    def turn(self, job: tw.types.Job, time: int) -> tuple[int, int]:
        """Count an epoch."""
        job.input("lines").send([" ".join(WORDS)] * 10)
        job.input("lines").advance_to(time + 1)
        job.probe("done").wait_until(time + 1, timeout_s=DEADLINE_S)
        return time + 1, 10 * len(WORDS)


class EmptyEpochs(Work):
    """Lets epochs without records go through an exchange and a loop."""

    name, unit = "empty epochs", "epochs/s"

    def flow(self) -> tw.Dataflow:
        """Describe it."""
        flow = tw.Dataflow("empty")
        flow.input("lines").exchange(hash).unary(pass_on, name="next").probe("done")
        return flow

    def turn(self, job: tw.types.Job, time: int) -> tuple[int, int]:
        """Let 500 epochs go by."""
        many = 500
        for epoch in range(time, time + many):
            job.input("lines").advance_to(epoch + 1)
        job.probe("done").wait_until(time + many, timeout_s=DEADLINE_S)
        return time + many, many


def pass_on(context: tw.OperatorContext) -> Callable[[tw.InputPort, tw.OutputPort], None]:
    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            output.send(lent, batch)

    return schedule


def measure(report: Report, work: Work, jobs: int, rounds: int, seconds: float) -> None:
    """Let the ways take turns on jobs that run side by side, one at work at a time; report rates and losses."""
    random = Random(0)
    rates: dict[Way, list[float]] = {way: [] for way in WAYS}
    costs: dict[Way, list[float]] = {way: [] for way in WAYS}
    shares = []
    for _ in range(jobs):
        with ExitStack() as running:
            plain, again = (running.enter_context(Running(work, has_telemetry=False)) for _ in range(2))
            told = running.enter_context(Running(work, has_telemetry=True))
            runs = {WITHOUT: plain, AGAIN: again, UNHEARD: told, LISTENED: told}
            for number in range(rounds + 1):
                for way in random.sample(WAYS, len(WAYS)):
                    with listened_to(runs[way].job, is_listened_to=way == LISTENED):
                        rate, cost = runs[way].rate(seconds)
                    if number:  # the first round warms up
                        rates[way].append(rate)
                        costs[way].append(cost)
            shares.append(told.share_of_a_core(5 * seconds / jobs))
    what = f"{work.name}, {work.engine}"
    report.expect(f"{what}: describing and reading, % of a core", 100 * median(shares), MOST_LOST_PER_CENT)
    for way in WAYS:
        report.add(f"{what}, {way}", rates[way], work.unit)
    lost = {way: [1 - own / other for own, other in pairs(rates, way)] for way in COMPARED}
    more = {way: [own / other - 1 for own, other in pairs(costs, way)] for way in COMPARED}
    for kind, shown in (("of throughput lost", lost), ("more processor time", more)):
        alike = report.add(f"{what}, jobs alike: % {kind}", [100 * abs(share) for share in shown[AGAIN]], "%")
        for way, most in ((UNHEARD, max(MOST_LOST_PER_CENT, alike)), (LISTENED, MOST_LOST_PER_CENT)):
            report.expect(f"{what}, {way}: % {kind}", 100 * median(shown[way]), most)


def pairs(figures: Mapping[Way, Sequence[float]], way: Way) -> Iterable[tuple[float, float]]:
    """Return the figures of a way, each with that of the way with which it is compared, from the same round."""
    return zip(figures[way], figures[COMPARED[way]], strict=True)


class Running:
    """A job that does some work, a while at a time.

    Args:
        work: what it does.
        has_telemetry: whether it has the topic on which it describes itself.
    """

    def __init__(self, work: Work, *, has_telemetry: bool) -> None:
        self._work = work
        flow = work.flow()
        if not has_telemetry:
            description_of(flow).telemetry = None
        self.job = tw.run(flow, workers=2, engine=work.engine)
        workers = self.job.pids if isinstance(self.job, RayJob) else []
        self._processes = [psutil.Process(), *map(psutil.Process, workers)]
        self._time = 0

    def rate(self, seconds: float) -> tuple[float, float]:
        """Work for so many seconds; return how much is done in one, and the seconds on a CPU for a million."""
        began, used = perf_counter(), self._processor_seconds()
        done = 0
        while perf_counter() - began < seconds:
            self._time, more = self._work.turn(self.job, self._time)
            done += more
        return done / (perf_counter() - began), 1e6 * (self._processor_seconds() - used) / done

    def share_of_a_core(self, seconds: float) -> float:
        """Rest for so many seconds with a listener, and as long without; return how much more of a core that takes."""
        shares = []
        for is_listened_to in (False, True):
            with listened_to(self.job, is_listened_to=is_listened_to):
                began, used = perf_counter(), self._processor_seconds()
                threading.Event().wait(seconds)
                shares.append((self._processor_seconds() - used) / (perf_counter() - began))
        return shares[1] - shares[0]

    def _processor_seconds(self) -> float:
        times = [process.cpu_times() for process in self._processes]
        return float(sum(one.user + one.system for one in times))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.job.input("lines").close()
        self.job.wait(DEADLINE_S)
        self.job.stop()


@contextmanager
def listened_to(job: tw.types.Job, *, is_listened_to: bool) -> Iterator[None]:
    """Follow a job, if that is wanted, on a thread of its own as the server of the page does."""
    if not is_listened_to:
        yield
        return
    with TelemetryReader(job.name) as reader:
        next(reader)  # which has the picture: what comes after it is measured
        following = threading.Thread(target=lambda: [view.rate("operators", "1", "records_in") for view in reader])
        following.start()
        yield
    following.join()


if __name__ == "__main__":
    main()
