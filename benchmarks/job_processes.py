"""The processes of a job, for benchmarks of what they take of the machine, and of what happens without them."""

import psutil

import tidewheel as tw
from tidewheel.pubsub.catalog.catalog_actor import catalog_actor
from tidewheel.runtime.engines.ray_job import RayJob

_ANSWER_WITHIN_S = 10.0


def processes_of(job: tw.Job) -> dict[str, psutil.Process]:
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


def actors_beside(job: tw.Job, kind: str) -> list[psutil.Process]:
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
