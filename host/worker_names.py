"""The names of workers' actors, by which other processes of the cluster find a job."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from tidewheel.host.ray_cluster import NAMESPACE

WORKER_PREFIX: Final = "tidewheel-"


def worker_name(job: str, worker: int) -> str:
    """Return the name of the actor that hosts a worker of a job.

    >>> worker_name("words-0badcafe", 0)
    'tidewheel-words-0badcafe-worker-0'
    """
    return f"{WORKER_PREFIX}{job}-worker-{worker}"


def first_workers(job: str) -> Iterator[Any]:
    """Yield the actor of worker 0 of each job of the cluster, that of ``job`` first.

    Raises:
        RayError: the cluster does not answer.
    """
    import ray

    names = [actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True)]
    for name in sorted(names, key=lambda name: name != worker_name(job, 0)):
        if name.startswith(WORKER_PREFIX) and name.endswith("-worker-0"):
            with suppress(ValueError):  # it has just ended
                yield ray.get_actor(name, namespace=NAMESPACE)
