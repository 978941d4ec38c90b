"""The processes of a job, for benchmarks of what they take of the machine, and of what happens without them."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from statistics import median

import psutil

import tidewheel as tw
from benchmarks.measuring.measurement import Report
from tidewheel.pubsub.catalog.catalog_actor import catalog_actor
from tidewheel.runtime.engines.ray_job import RayJob

_ANSWER_WITHIN_S = 10.0
_LOOK_S = 0.02
_WARM_UP = 0.2
_MOST_GROWTH, _MOST_GROWTH_MIB = 0.05, 20.0


def processes_of(job: tw.types.Job) -> dict[str, psutil.Process]:
    """Return driver, workers and publishers of the only job with a topic on this machine's cluster, by name."""
    import ray

    assert isinstance(job, RayJob)
    found = {"driver": psutil.Process()}
    found |= {f"worker {number}": psutil.Process(pid) for number, pid in enumerate(job.pids)}
    topics = ray.get(catalog_actor().topics.remote(), timeout=_ANSWER_WITHIN_S)
    assert all(topic.job == job.name for topic in topics), "benchmarks have the cluster to themselves"
    return found | {
        f"publisher {number}": process for number, process in enumerate(actors_beside(job, "PublisherActor"))
    }


def actors_beside(job: tw.types.Job, kind: str) -> list[psutil.Process]:
    """Return the processes of all actors of a class that are on the node of a job's first worker."""
    assert isinstance(job, RayJob)
    parent = psutil.Process(job.pids[0]).parent()
    assert parent is not None, "it is the node's raylet"
    return [process for process in parent.children() if _is_actor(process, kind)]


def _is_actor(process: psutil.Process, kind: str) -> bool:
    try:
        command = process.cmdline()
    except psutil.NoSuchProcess:
        return False
    return bool(command) and str(command[0]).startswith(f"ray::{kind}")


@contextmanager
def growth(processes: Mapping[str, psutil.Process]) -> Iterator[dict[str, int]]:
    """Yield what has, after the block, by how many bytes each process had grown in it, at most."""
    before = {name: process.memory_info().rss for name, process in processes.items()}
    most = dict(before)
    grown: dict[str, int] = {}
    is_over = threading.Event()

    def look() -> None:
        with suppress(psutil.NoSuchProcess):
            while not is_over.wait(_LOOK_S):
                for name, process in processes.items():
                    most[name] = max(most[name], process.memory_info().rss)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield grown
    finally:
        is_over.set()
        thread.join(_ANSWER_WITHIN_S)
    gone = [name for name, process in processes.items() if not process.is_running()]
    if gone:
        raise RuntimeError(f"this has not lived until the end: {', '.join(gone)}")
    grown.update({name: most[name] - before[name] for name in processes})


def compare_halves(report: Report, name: str, samples: list[float]) -> None:
    """Report the memory of a process in the first and the second half after the warm-up, from samples in MiB."""
    counted = samples[int(len(samples) * _WARM_UP) :]
    first, second = counted[: len(counted) // 2], counted[len(counted) // 2 :]
    before = report.add(f"{name}: memory, first half", first, "MiB")
    after = report.add(f"{name}: memory, second half", second, "MiB")
    limit = min(_MOST_GROWTH_MIB, _MOST_GROWTH * median(first))
    report.expect(f"{name}: growth of memory, MiB", after - before, limit)
