"""How this process gets to the Ray cluster, and to the namespace in which the catalog lives."""

import logging
import os
import socket
import uuid

from tidewheel.progress.joining import JOINING
from tidewheel.pubsub.errors import NoCluster

NAMESPACE = "tidewheel"
_KNOCK_TIMEOUT_S = 10.0


def namespace() -> str:
    """Return this process's Ray namespace if its driver chose one, otherwise ``"tidewheel"``.

    A driver that chooses none gets a fresh UUID, in which nobody else could find anything.
    """
    import ray

    chosen = str(ray.get_runtime_context().namespace)
    return NAMESPACE if _is_uuid(chosen) else chosen


def process_id() -> str:
    """Return what tells this process of the cluster from every other; subscribers' names start with it."""
    import ray

    return str(ray.get_runtime_context().get_worker_id())


def node_id() -> str:
    """Return which node of the cluster this process is on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def connect() -> None:
    """Make this process a driver of the running cluster, unless it is part of one already.

    The cluster is the one that ``RAY_ADDRESS`` names, or else the one that runs on this machine. None is started.

    Raises:
        NoCluster: there is none.
    """
    import ray

    with JOINING:
        if not ray.is_initialized():
            _join()


def _join() -> None:
    import ray

    address = os.environ.get("RAY_ADDRESS", "")
    if address in {"", "local"}:
        address = "auto"  # "local" would start a cluster, in which nobody publishes anything
    try:
        _knock(address)
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        raise NoCluster(
            f"no Ray cluster to subscribe on (address {address!r}: {error}): call ray.init first, or set RAY_ADDRESS"
        ) from error


def _knock(address: str) -> None:
    """Raise OSError if nobody listens at ``host:port``: Ray itself would go on trying for minutes."""
    host, separator, port = address.rpartition(":")
    if separator and port.isdecimal() and "/" not in host:
        with socket.create_connection((host, int(port)), timeout=_KNOCK_TIMEOUT_S):
            pass


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
