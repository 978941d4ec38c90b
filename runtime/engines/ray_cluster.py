"""The Ray cluster that a job runs on."""

import logging
import os

from tidewheel.progress.joining import JOINING
from tidewheel.runtime.errors import JobError

NAMESPACE = "tidewheel"
"""The Ray namespace of drivers that did not choose one."""


def connect() -> None:
    """Make this process a driver of a Ray cluster, unless it is one already.

    The cluster is the one that RAY_ADDRESS names, else one that runs on this machine, else a new one that ends with
    this process.

    Raises:
        JobError: there is no connection to that cluster.
    """
    import ray

    with JOINING:
        if not ray.is_initialized():
            _join()


def _join() -> None:
    import ray

    try:
        ray.init(namespace=NAMESPACE, include_dashboard=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        address = os.environ.get("RAY_ADDRESS", "on this machine")
        raise JobError(
            f"no connection to the Ray cluster {address}: {error}. Does it run, and are RAY_AUTH_MODE and the token "
            "the same there and here?"
        ) from error
