"""The request for the telemetry of a Ray job, from a process other than the driver.

The process asks worker 0, a named actor, which tells the job's driver. The driver then publishes the topic.
"""

import logging
from typing import Any

from tidewheel.host.worker_names import first_workers
from tidewheel.pubsub.catalog.catalog import TELEMETRY

_LOGGER = logging.getLogger(__name__)
_ANSWER_S = 2.0


def ask_for_telemetry(topic: str) -> bool:
    """Ask a job's driver to publish its telemetry, beginning with a full document; return whether the job was found."""
    import ray

    job = topic.removeprefix(TELEMETRY)
    try:  # a job that was added to another one has the workers of that one
        return any(_wants(worker, job) for worker in first_workers(job))
    except ray.exceptions.RayError as error:  # the cluster is ending
        _LOGGER.debug("the cluster could not be asked for the telemetry of job %r: %s", job, error)
        return False


def _wants(worker: Any, job: str) -> bool:
    import ray

    try:
        return bool(ray.get(worker.want_telemetry.remote(job), timeout=_ANSWER_S))
    except ray.exceptions.RayError as error:  # the actor is dead, or hangs
        _LOGGER.debug("a worker was asked for the telemetry of job %r, and did not answer: %s", job, error)
        return False
