"""The latency of look-ups: one key or a hundred, on both engines, while the job is idle and while it changes.

Beside it, the floor: a call of an actor of Ray that returns a number.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from time import perf_counter
from typing import Any, Literal

import tidewheel as tw
from benchmarks.measuring.measurement import Report, arguments
from benchmarks.measuring.transport_floor import ray_cluster

WORKERS = 2
MANY = 100
CHANGES = 1_000
DEADLINE_S = 120.0
MOST_MS = 5


def main() -> None:
    options = arguments("Measure the latency of look-ups.")
    report = Report()
    times, keys = (50, 2_000) if options.quick else (2_000, 100_000)
    with ray_cluster():
        add(report, "a call of an actor of Ray", called(times))
        for engine in ("local", "ray"):
            measured(report, engine, keys, times)
    report.finish(options.json)


def measured(report: Report, engine: Literal["local", "ray"], keys: int, times: int) -> None:
    """Look keys of a job up: one, then many."""
    flow = tw.Dataflow("numbers")
    flow.input("numbers").as_collection(upserts=True).lookup("numbers").changes().probe("done")
    with tw.run(flow, workers=WORKERS, engine=engine) as job:
        change(job, range(keys))
        random = Random(1)
        what = f"{engine}, {WORKERS} workers, {keys:,} keys"
        for asked in (1, MANY):
            some = [random.sample(range(keys), asked) for _ in range(times)]
            name = f"{what}: {asked} at once"
            idle = add(report, f"{name}, idle", [looked_up(job, one) for one in some])
            report.expect(f"{name}, idle, p50, ms", idle, MOST_MS)
            if engine == "ray":  # the other engine runs on the thread that asks
                with changing(job, keys):
                    add(report, f"{name}, while {CHANGES:,} change", [looked_up(job, one) for one in some])
        job.stop()


def change(job: tw.types.Job, keys: range | list[int]) -> None:
    """Give keys another value in an epoch; return once that is complete."""
    handle = job.input("numbers")
    handle.send([(key, handle.time) for key in keys])
    handle.advance_to(handle.time + 1)
    job.probe("done").wait_until(handle.time, DEADLINE_S)


@contextmanager
def changing(job: tw.types.Job, keys: int) -> Iterator[None]:
    """Within the block, have a thread change some keys in one epoch after the other."""
    random, is_over = Random(2), threading.Event()

    def run() -> None:
        while not is_over.is_set():
            change(job, random.sample(range(keys), CHANGES))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def looked_up(job: tw.types.Job, keys: list[int]) -> float:
    """Return how many seconds it takes to look keys up."""
    began = perf_counter()
    found = job.lookup("numbers", keys, timeout_s=DEADLINE_S)
    seconds = perf_counter() - began
    assert len(found.values) == len(keys)
    return seconds


def called(times: int) -> list[float]:
    """Return how many seconds each call of an actor takes."""
    import ray

    actor: Any = ray.remote(Actor).options(num_cpus=0).remote()
    ray.get(actor.number.remote(), timeout=DEADLINE_S)
    seconds = []
    for _ in range(times):
        began = perf_counter()
        ray.get(actor.number.remote(), timeout=DEADLINE_S)
        seconds.append(perf_counter() - began)
    ray.kill(actor)
    return seconds


class Actor:
    """The floor."""

    def number(self) -> int:
        """Return a number."""
        return 1


def add(report: Report, name: str, seconds: Sequence[float]) -> float:
    """Report the median and a high percentile; return the median, in ms."""
    ordered = sorted(one * 1e3 for one in seconds)
    report.add(f"{name}: p99", [ordered[len(ordered) * 99 // 100]], "ms")
    return report.add(f"{name}: p50", [ordered[len(ordered) // 2]], "ms")


if __name__ == "__main__":
    main()
