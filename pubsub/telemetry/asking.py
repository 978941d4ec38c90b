"""The request for the telemetry of a job on Ray, from a process that is not its driver.

A job is found by its worker 0, an actor with a name. That tells its driver, which then publishes the topic.
"""

import logging
from typing import Any

from tidewheel.pubsub.catalog.catalog import TELEMETRY
from tidewheel.transport.ray_cluster import NAMESPACE
from tidewheel.transport.worker_names import WORKER_PREFIX, worker_name

_LOGGER = logging.getLogger(__name__)
_ANSWER_S = 2.0


def ask_for_telemetry(topic: str) -> bool:
    """Have the driver of a job publish its telemetry, with a whole document next; return whether the job was found.

    This process is part of the cluster. The topic appears in the catalog some time later.

    Args:
        topic: the name of the topic, which begins with ``tidewheel/telemetry/``.
    """
    import ray

    job = topic.removeprefix(TELEMETRY)
    try:
        if _wants(ray.get_actor(worker_name(job, 0), namespace=NAMESPACE), job):
            return True
    except ValueError:
        _LOGGER.debug("no worker is named by job %r: it may have been added to another one", job)
    names = [found["name"] for found in ray.util.list_named_actors(all_namespaces=True)]
    for name in names:
        if name.startswith(WORKER_PREFIX) and name.endswith(worker_name("", 0).removeprefix(WORKER_PREFIX)):
            try:
                if _wants(ray.get_actor(name, namespace=NAMESPACE), job):
                    return True
            except ValueError:  # it has just ended
                continue
    return False


def _wants(worker: Any, job: str) -> bool:
    import ray

    try:
        return bool(ray.get(worker.want_telemetry.remote(job), timeout=_ANSWER_S))
    except ray.exceptions.RayError as error:  # it is dead, or hangs
        _LOGGER.debug("a worker was asked for the telemetry of job %r, and did not answer: %s", job, error)
        return False
