"""The names of the jobs of this process and of its Ray cluster, for the page."""

from contextlib import suppress

from tidewheel.host.ray_cluster import connect_to_running
from tidewheel.host.worker_names import first_workers
from tidewheel.pubsub.catalog.catalog import TELEMETRY
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.errors import NoCluster

_ANSWER_S = 2.0


def own_jobs() -> list[str]:
    return [topic.removeprefix(TELEMETRY) for topic in LOCAL_CATALOG.hidden()]


def found_jobs() -> list[str]:
    """Return the names of the jobs of this process, and of the cluster's jobs that answer within 2 s.

    Raises:
        NoCluster: this process has no job, and there is no Ray cluster.
    """
    found = own_jobs()
    try:
        connect_to_running(NoCluster)
    except NoCluster:
        if not found:
            raise
        return found
    return list(dict.fromkeys([*found, *_on_the_cluster()]))


def _on_the_cluster() -> list[str]:
    import ray

    calls = [worker.states.remote() for worker in first_workers("")]
    found: list[str] = []
    for call in ray.wait(calls, num_returns=len(calls), timeout=_ANSWER_S)[0] if calls else []:
        with suppress(ray.exceptions.RayError):
            found += ray.get(call)
    return found
