"""The Ray cluster of this process: how to join and leave it, whether it is lost, and ids in it.

A lock lets only one thread join at a time: two threads that join Ray at once fail or get half a connection.

A cluster is lost when neither its control store nor the raylet of this node listens. `lost` reports that, and the next
call that needs a cluster leaves this one and joins another. Without such a call, Ray ends the driver's process after a
minute, without notice.
"""

import errno
import logging
import os
import socket
import threading
import uuid
from concurrent.futures import Future
from functools import cache
from typing import Any

from tidewheel.host import ray_internals
from tidewheel.host.program_classes import share_tracker
from tidewheel.host.sigterm import keeping_sigterm
from tidewheel.progress.errors import TidewheelError

NAMESPACE = "tidewheel"
"""The Ray namespace of a driver that has chosen none: in ``ray.init`` or, if tidewheel joins, in RAY_NAMESPACE."""

Membership = tuple[str, ...]
"""Identifies this process's connection to a cluster; constant while the connection lasts, empty without a cluster."""

_LOG = logging.getLogger(__name__)
_JOINING = threading.Lock()
_LEAVING: dict[str, threading.Thread] = {}
_CONNECT_TIMEOUT_S = 10.0
_LEAVES_WITHIN_S = 15.0
_LISTENS_WITHIN_S = 1.0
_NO_ADDRESS = {"", "auto", "local"}
_THIS_MACHINE = {"localhost", "127.0.0.1", "[::1]"}
_NO_PROCESS_LISTENS = {errno.ECONNREFUSED, errno.ENOENT}


@cache
def actor_class(kind: type) -> Any:
    """Return the Ray actor class of a class, the same object at each call, since Ray never frees an actor class."""
    import ray

    return ray.remote(kind)


@keeping_sigterm()
def connect(failure: type[TidewheelError], within_s: float = _CONNECT_TIMEOUT_S) -> None:
    """Make this process a driver of a Ray cluster, unless it is part of one.

    Join the cluster of ``RAY_ADDRESS``, else that of ``ray start`` on this machine, else start a cluster that ends with
    this process. A cluster that another program has started for itself is never joined. Wait for an answer at most
    ``within_s`` seconds, and never more than ten.

    Raises:
        TidewheelError: there is no connection; its type is ``failure``.
    """
    with _JOINING:
        if _is_part(failure, _LEAVES_WITHIN_S):
            return
        named = os.environ.get("RAY_ADDRESS") or ray_internals.clusters_here()[0] or "local"
        if named == "auto":
            named = _only_cluster_here(failure)
        _join(named, failure, min(within_s, _CONNECT_TIMEOUT_S), include_dashboard=False)


@keeping_sigterm()
def connect_to_running(failure: type[TidewheelError], within_s: float = _CONNECT_TIMEOUT_S) -> None:
    """Make this process a driver of the running cluster, unless it is part of one.

    Join the cluster of ``RAY_ADDRESS``, else that of ``ray start`` on this machine, else the only cluster that runs
    here. Leave a lost cluster in the background. Wait for an answer at most ``within_s`` seconds, and never more than
    ten.

    Raises:
        TidewheelError: there is no such cluster, or more than one; its type is ``failure``.
    """
    with _JOINING:
        if _is_part(failure, 0.0):
            return
        named = os.environ.get("RAY_ADDRESS", "")
        if named in _NO_ADDRESS:  # "local" would start a cluster
            named = _only_cluster_here(failure)
        _join(named, failure, min(within_s, _CONNECT_TIMEOUT_S), log_to_driver=False)


def are_several_here() -> bool:
    """Tell whether several clusters run on this machine, so that `connect_to_running` cannot choose one."""
    started, running = ray_internals.clusters_here()
    return os.environ.get("RAY_ADDRESS", "") in _NO_ADDRESS and started is None and len(running) > 1


def cluster() -> str:
    import ray

    if not ray.is_initialized():
        return ""
    return f"{ray.get_runtime_context().gcs_address}, namespace {namespace()!r}"


def other_clusters() -> list[str]:
    joined = ray_internals.joined_at()
    return [address for address in ray_internals.clusters_here()[1] if joined is None or address != joined[0]]


def lost() -> str:
    """Return a clause saying that this process's cluster is gone; empty if it is not, or if there is none.

    This takes a round trip to the control store, or a second if the store is silent. The raylet, which logs each
    attempt, is asked only if the control store does not answer.
    """
    joined = ray_internals.joined_at()
    if joined is None or not is_out_of_reach():
        return ""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        if probe.connect_ex(joined[1]) not in _NO_PROCESS_LISTENS:
            return ""
    return f"the Ray cluster at {joined[0]} is gone: neither its control store nor the raylet of this node answers"


def membership() -> Membership:
    """Return the address, raylet and id of this process in its cluster; empty without a cluster."""
    import ray

    if not ray.is_initialized():
        return ()
    joined = ray_internals.joined_at() or (str(ray.get_runtime_context().gcs_address), "")
    return (*joined, process_id())


def left(former: Membership) -> str:
    """Return a clause saying that a cluster is gone or this process has left it; otherwise empty.

    Handles of a cluster that is gone or left are useless, even in another cluster.
    """
    if former and former == membership():
        return lost()
    return f"this process has left the Ray cluster at {former[0]}" if former else "this process has joined no cluster"


def is_out_of_reach() -> bool:
    """Tell whether the control store is missing or silent, so that most calls of Ray would hang."""
    joined = ray_internals.joined_at()
    try:
        if joined is not None:
            _call_at(joined[0], _LISTENS_WITHIN_S)
    except OSError:
        return True
    return joined is None


def namespace() -> str:
    """Return this process's Ray namespace if its driver chose one, otherwise ``"tidewheel"``.

    By default Ray uses a new UUID as the namespace, so that no other process could find the job's actors.
    """
    import ray

    chosen = str(ray.get_runtime_context().namespace)
    try:
        uuid.UUID(chosen)
    except ValueError:
        return chosen
    return NAMESPACE


def process_id() -> str:
    """Return the id of this process in the cluster; its subscribers' names begin with it."""
    import ray

    return str(ray.get_runtime_context().get_worker_id())


def node_id() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _is_part(failure: type[TidewheelError], leaves_within_s: float) -> bool:
    """Tell whether this process is part of a cluster.

    If the cluster is gone, leave it on another thread, since Ray needs five seconds for that.

    Raises:
        TidewheelError: the process has not left its former cluster within ``leaves_within_s`` seconds.
    """
    import ray

    gone = lost()
    if gone and gone not in _LEAVING:
        _LOG.warning("%s; this process leaves it", gone)
        _LEAVING[gone] = threading.Thread(target=ray.shutdown, name="tidewheel-leave-cluster", daemon=True)
        _LEAVING[gone].start()
    for reason, thread in tuple(_LEAVING.items()):
        thread.join(leaves_within_s)
        if thread.is_alive():
            raise failure(f"{reason}. Start it again, or call again in ten seconds to join another")
        del _LEAVING[reason]
    if ray.is_initialized():
        _use_joined()
    return bool(ray.is_initialized())


def _only_cluster_here(failure: type[TidewheelError]) -> str:
    started, running = ray_internals.clusters_here()
    named = "with RAY_ADDRESS, --address or ray.init"
    if not running:
        raise failure(
            "no Ray cluster runs on this machine: start the program that publishes first, or name the address of a "
            f"cluster elsewhere, {named}"
        )
    if started is None and len(running) > 1:
        starters = {address: ray_internals.starter_of(address) for address in running}
        told = ", ".join(f"{address} {starter}".rstrip() for address, starter in starters.items())
        raise failure(f"{len(running)} Ray clusters run on this machine ({told}): name the address of one, {named}")
    return started or running[0]


def _join(address: str, failure: type[TidewheelError], within_s: float, **options: Any) -> None:
    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)
    if os.environ.get("RAY_ADDRESS", "") in _NO_ADDRESS or _place(address) in ray_internals.clusters_here()[1]:
        ray_internals.use_stored_token()  # the cluster is on this machine and may have been started with that token
    chosen = os.environ.get("RAY_NAMESPACE") or NAMESPACE
    try:
        _require_control_store(address, within_s)
        ray.init(address=address, namespace=chosen, logging_level=logging.ERROR, **options)
    except (OSError, ValueError, RuntimeError, ImportError, ray.exceptions.RayError) as error:
        raise failure(
            f"no connection to the Ray cluster at {address!r}: {error}. Start that cluster, or name another with "
            "RAY_ADDRESS, --address or ray.init; if it asks for a token, use the same RAY_AUTH_MODE and token here"
        ) from error
    _use_joined()
    _LOG.info("this process has joined the Ray cluster at %s", cluster())


def _use_joined() -> None:
    share_tracker()
    ray_internals.show_exceptions_without_ray(is_out_of_reach)
    ray_internals.never_join_from_our_threads()


def _place(address: str) -> str:
    import ray

    host, separator, port = address.removeprefix("ray://").rpartition(":")
    if not separator or not port.isdecimal() or "/" in host:
        return ""
    return f"{ray.util.get_node_ip_address() if host in _THIS_MACHINE else host}:{port}"


def _require_control_store(address: str, within_s: float) -> None:
    """Raise unless a cluster answers at ``host:port`` or ``ray://host:port``; Ray itself would try for minutes."""
    place = _place(address)
    if not place:
        return
    _call_at(place, within_s)
    if address.startswith("ray://"):
        return
    answer: Future[None] = Future()

    def call() -> None:
        try:
            ray_internals.call_control_store(place)
            answer.set_result(None)
        except Exception as error:  # noqa: BLE001 - the caller raises it
            answer.set_exception(error)

    threading.Thread(target=call, name="tidewheel-find-cluster", daemon=True).start()
    try:
        answer.result(within_s)
    except TimeoutError:
        raise ConnectionError(f"the process there has not answered as a Ray cluster for {within_s:g} s") from None


def _call_at(address: str, within_s: float) -> None:
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=within_s).close()
