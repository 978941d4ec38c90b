"""The cost of a job that has nothing to do: processor time of four workers, their publishers and the driver.

Epochs go through a loop with an exchange and to a topic; then nothing is sent any more, and the processor time that
each process takes from then on is counted. Beside it, the floor: as many actors of Ray that do nothing at all, threaded
like the workers and asynchronous like the publishers, and a driver that only holds them. (The main thread of an actor's
process wakes up 100 times a second, whatever the actor does.) What raylet and GCS take is no part of either.
"""

import os
from collections.abc import Mapping
from threading import Event
from typing import Any

import psutil

import tidewheel as tw
from benchmarks.measuring.job_processes import processes_of
from benchmarks.measuring.measurement import Report, arguments
from benchmarks.measuring.transport_floor import ray_cluster
from tidewheel.runtime.worker.worker_actor import CONCURRENT_CALLS

WORKERS = 4
EPOCHS = 200
DEADLINE_S = 60.0
SETTLES_S = 1.0


def main() -> None:
    options = arguments("Measure the processor time of an idle job.")
    report = Report()
    seconds = 5.0 if options.quick else 30.0
    with ray_cluster():
        floor = add(report, "bare Ray", bare_shares(seconds))
        ours = add(report, "idle job", job_shares(seconds))
    what = f"an idle job of {WORKERS} workers over {seconds:g} s"
    report.expect(f"{what}: % of one core", ours, 2)
    report.expect(f"{what}, beyond bare Ray: % of one core", ours - floor, 2)
    report.finish(options.json)


def add(report: Report, what: str, shares: Mapping[str, float]) -> float:
    """Report the share of a core that each process took; return the sum, in per cent."""
    for name, share in shares.items():
        report.add(f"{what}, {name}: of one core", [share * 100], "%")
    return report.add(f"{what}, together: of one core", [sum(shares.values()) * 100], "%")


def job_shares(seconds: float) -> dict[str, float]:
    """Run some epochs; then return what each process takes over so many seconds."""
    with tw.run(described(), workers=WORKERS) as job:
        processes = processes_of(job)
        for epoch in range(EPOCHS):
            job.input("numbers").send(list(range(epoch, epoch + 20)))
            job.input("numbers").advance_to(epoch + 1)
        job.probe("done").wait_until(EPOCHS, timeout_s=DEADLINE_S)
        shares = processor_shares(processes, seconds)
        job.stop()
    return shares


def bare_shares(seconds: float) -> dict[str, float]:
    """Return what each of as many processes of Ray takes that do nothing."""
    import ray

    threaded = ray.remote(Threaded).options(num_cpus=0, max_concurrency=CONCURRENT_CALLS)
    asynchronous = ray.remote(Async).options(num_cpus=0)
    actors: dict[str, Any] = {f"threaded actor {number}": threaded.remote() for number in range(WORKERS)}
    actors |= {f"asynchronous actor {number}": asynchronous.remote() for number in range(WORKERS)}
    pids = ray.get([actor.process.remote() for actor in actors.values()], timeout=DEADLINE_S)
    processes = {"driver": psutil.Process()} | dict(zip(actors, map(psutil.Process, pids), strict=True))
    return processor_shares(processes, seconds)


class Threaded:
    """An actor that does nothing, like a worker."""

    def process(self) -> int:
        """Return the process's id."""
        return os.getpid()


class Async:
    """An actor that does nothing, like a publisher."""

    async def process(self) -> int:
        """Return the process's id."""
        return os.getpid()


def described() -> tw.Dataflow:
    """Describe a loop in which numbers are counted down, with an exchange, and a topic."""
    flow = tw.Dataflow("idle")
    flow.input("numbers").iterate(count_down).exchange(lambda n: n).publish("idle").probe("done")
    return flow


def count_down(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
    moved = numbers.exchange(lambda n: n)
    return moved.filter(lambda n: n % 10 > 0).map(lambda n: n - 1), moved.filter(lambda n: n % 10 == 0)


def processor_shares(processes: Mapping[str, psutil.Process], seconds: float) -> dict[str, float]:
    """Return how much of one core each process takes, once all have settled."""
    Event().wait(SETTLES_S)
    before = {name: processor_seconds(process) for name, process in processes.items()}
    Event().wait(seconds)
    return {name: (processor_seconds(process) - before[name]) / seconds for name, process in processes.items()}


def processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
