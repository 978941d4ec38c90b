"""The processes of a job, for benchmarks of what they take of the machine."""

import psutil

import tidewheel as tw
from tidewheel.pubsub.catalog_actor import catalog_actor
from tidewheel.runtime.ray_job import RayJob

_ANSWER_WITHIN_S = 10.0
_PUBLISHER = "ray::PublisherActor"


def processes_of(job: tw.Job) -> dict[str, psutil.Process]:
    """Return driver, workers and publishers of the only job with a topic on this machine's cluster, by name."""
    import ray

    assert isinstance(job, RayJob)
    found = {"driver": psutil.Process()}
    found |= {f"worker {number}": psutil.Process(pid) for number, pid in enumerate(job.pids)}
    topics = ray.get(catalog_actor().topics.remote(), timeout=_ANSWER_WITHIN_S)
    assert all(topic.job == job.name for topic in topics), "benchmarks have the cluster to themselves"
    parent = psutil.Process(job.pids[0]).parent()
    assert parent is not None, "it is the node's raylet"
    publishers = [process for process in parent.children() if process.cmdline()[:1] and _is_publisher(process)]
    return found | {f"publisher {number}": process for number, process in enumerate(publishers)}


def _is_publisher(process: psutil.Process) -> bool:
    return str(process.cmdline()[0]).startswith(_PUBLISHER)
