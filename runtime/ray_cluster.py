"""The Ray cluster that a job runs on."""

import logging

NAMESPACE = "tidewheel"
"""The Ray namespace of drivers that did not choose one."""


def connect() -> None:
    """Make this process a driver of a Ray cluster, unless it is one already.

    The cluster is the one that RAY_ADDRESS names, else one that runs on this machine, else a new one that ends with
    this process.
    """
    import ray

    if not ray.is_initialized():
        ray.init(namespace=NAMESPACE, include_dashboard=False, logging_level=logging.ERROR)
