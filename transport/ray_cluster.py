"""The Ray cluster of this process: how the process joins it, and its ids there.

A process joins once, whichever layer asks first. Ray cannot be joined by two threads at a time: one of them fails, or
keeps half a connection. So a lock holds the others back.
"""

import logging
import os
import socket
import threading
import uuid

from tidewheel.progress.errors import TidewheelError
from tidewheel.transport.sigterm import keeping_sigterm

NAMESPACE = "tidewheel"
"""The Ray namespace of drivers that did not choose one."""

_JOINING = threading.Lock()
_CONNECT_TIMEOUT_S = 10.0


@keeping_sigterm()
def connect(failure: type[TidewheelError]) -> None:
    """Make this process a driver of a Ray cluster, unless it is part of one already.

    The cluster is the one that ``RAY_ADDRESS`` names, else one that runs on this machine, else a new one that ends
    with this process.

    Raises:
        TidewheelError: there is no connection to that cluster; its type is ``failure``.
    """
    import ray

    with _JOINING:
        if ray.is_initialized():
            return
        try:
            ray.init(namespace=NAMESPACE, include_dashboard=False, logging_level=logging.ERROR)
        except ConnectionError as error:
            address = os.environ.get("RAY_ADDRESS", "on this machine")
            raise failure(
                f"no connection to the Ray cluster {address}: {error}. Start the cluster, and use the same "
                "RAY_AUTH_MODE and token there and here"
            ) from error


@keeping_sigterm()
def connect_to_running(failure: type[TidewheelError]) -> None:
    """Make this process a driver of the running cluster, unless it is part of one already.

    The cluster is the one that ``RAY_ADDRESS`` names, else the one that runs on this machine. None is started.

    Raises:
        TidewheelError: there is no such cluster; its type is ``failure``.
    """
    import ray

    with _JOINING:
        if ray.is_initialized():
            return
        address = os.environ.get("RAY_ADDRESS", "")
        if address in {"", "local"}:
            address = "auto"  # "local" would start a cluster
        try:
            _require_listener(address)
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            raise failure(
                f"no Ray cluster to subscribe on (address {address!r}: {error}): call ray.init first, or set "
                "RAY_ADDRESS"
            ) from error


def namespace() -> str:
    """Return this process's Ray namespace if its driver chose one, otherwise ``"tidewheel"``.

    Ray gives a driver that chooses none a fresh UUID, in which no other process could find anything.
    """
    import ray

    chosen = str(ray.get_runtime_context().namespace)
    try:
        uuid.UUID(chosen)
    except ValueError:
        return chosen
    return NAMESPACE


def process_id() -> str:
    """Return the id of this process, unique in the cluster; the names of its subscribers start with it."""
    import ray

    return str(ray.get_runtime_context().get_worker_id())


def node_id() -> str:
    """Return the id of the node of the cluster that this process is on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _require_listener(address: str) -> None:
    """Raise OSError if no process listens at ``host:port``: Ray itself would retry for minutes."""
    host, separator, port = address.rpartition(":")
    if separator and port.isdecimal() and "/" not in host:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S):
            pass
