"""All private parts of Ray that tidewheel uses.

Any release of Ray may change them. So `pyproject.toml` allows only releases that have passed
``tests/unit/host/test_ray_internals.py``.
"""

import os
import re
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ray import ObjectRef

_NO_CONCURRENCY_GROUP = b""
_NO_BACKPRESSURE = -1


def available_by_node() -> "list[Mapping[str, float]]":
    """Return the free resources of each living node.

    Relies on ``ray._private.state.available_resources_per_node``; the public call returns only the sum.
    """
    from ray._private.state import available_resources_per_node

    return list(available_resources_per_node().values())


def actor_id(actor: Any) -> str:
    """Return the hexadecimal id of an actor.

    Relies on ``ActorHandle._actor_id``, which stays the same when Ray restarts the actor.
    """
    return str(actor._actor_id.hex())


def node_of(actor: str) -> str:
    """Return the id of the node on which an actor, given by id, was last started.

    Relies on ``ray._private.state.actors``; the public ``ray.util.state.get_actor`` needs the dashboard.

    Raises:
        Exception: Ray does not know the actor, or its control store does not answer.
    """
    from ray._private.state import actors

    return str(actors(actor)["Address"]["NodeID"])


def owner_address(reference: "ObjectRef[Any]") -> bytes:
    """Return the address of an object's owner, which a Java worker needs to read the object.

    Relies on ``CoreWorker.get_owner_address`` of ``ray._private.worker.global_worker``.
    """
    return bytes(_worker().core_worker.get_owner_address(reference))


def call_java(actor: Any, method: str, *arguments: object) -> "ObjectRef[Any]":
    """Call a method of a Java actor; return the resulting object.

    ``actor.method.remote`` can call Java only if the whole process loads its code from files. Ray then exports no
    functions, so tasks of other threads fail. So this function submits the call itself.

    Relies on the language, id and class in ``ActorHandle``, on ``JavaFunctionDescriptor`` with the number of arguments
    as the signature, and on ``CoreWorker.submit_actor_task``.
    """
    import ray._raylet as raylet

    described: Any = raylet  # its types leave out the descriptors of other languages
    java_class = actor._ray_actor_creation_function_descriptor.class_name
    (reference,) = _worker().core_worker.submit_actor_task(
        language=actor._ray_actor_language,
        actor_id=actor._ray_actor_id,
        function_descriptor=described.JavaFunctionDescriptor(java_class, method, str(len(arguments))),
        args=list(arguments),
        name="",
        num_returns=1,
        max_retries=0,
        retry_exceptions=False,
        retry_exception_allowlist=None,
        num_method_cpus=actor._ray_actor_method_cpus,
        concurrency_group_name=_NO_CONCURRENCY_GROUP,
        generator_backpressure_num_objects=_NO_BACKPRESSURE,
        num_objects_per_yield=1,
        enable_task_events=True,
        tensor_transport=None,
        labels=None,
    )
    result: ObjectRef[Any] = reference
    return result


def dataset_blocks(dataset: Any) -> "Iterator[tuple[ObjectRef[Any], int, int]]":
    """Compute a dataset of Ray Data.

    Yield each block as it comes, with the index of its first row and the number of rows.

    Relies on ``Dataset.iter_internal_ref_bundles``, a call for developers, and on ``block_refs``, ``metadata`` and
    ``slices`` of its bundles. The public calls return rows, or load the whole dataset before they return blocks.

    Raises:
        Exception: the dataset cannot be computed.
    """
    for bundle in dataset.iter_internal_ref_bundles():
        for reference, metadata, part in zip(bundle.block_refs, bundle.metadata, bundle.slices, strict=True):
            rows = int(metadata.num_rows)
            yield (reference, 0, rows) if part is None else (reference, part.start_offset, part.num_rows)


def use_context_of(dataset: Any) -> None:
    """Let Ray Data use the settings of a dataset in this process, and compute the blocks always in order.

    Relies on ``DataContext._set_current``; without it, this process would use its own settings.
    """
    from ray.data import DataContext

    dataset.context.execution_options.preserve_order = True
    dataset.context.enable_progress_bars = False  # they would appear among the lines of other processes
    DataContext._set_current(dataset.context)


def joined_at() -> tuple[str, str] | None:
    """Return the ``host:port`` of the control store, and the path of this node's raylet.

    None if there is no cluster, or with Ray Client.
    """
    node = _worker().node
    return None if node is None else (str(node.gcs_address), str(node.raylet_socket_name))


def dashboard_url() -> str:
    """Return the address of the cluster's dashboard; an empty string if there is no dashboard.

    Relies on ``ray._private.worker.get_dashboard_url``, which leaves out the protocol.
    """
    from ray._private.worker import get_dashboard_url

    if joined_at() is None:
        return ""
    found = os.environ.get("RAY_OVERRIDE_DASHBOARD_URL") or str(get_dashboard_url() or "")
    found = re.sub(r"//[^/@]*@", "//", found)  # a user and a password are secrets
    return found if not found or "://" in found else f"http://{found}"


def call_control_store(address: str) -> None:
    """Connect to the control store at ``host:port``, with this process's token, and disconnect.

    Relies on ``ray._raylet.GcsClient``, which `ray.init` calls too: without a control store, it makes 20 attempts of 40
    s.

    Raises:
        Exception: there is no control store, or it refuses the token.
    """
    import ray._raylet as raylet

    described: Any = raylet  # its types leave out this class
    described.GcsClient(address=address)


def clusters_here() -> tuple[str | None, list[str]]:
    """Return the address of this machine's cluster of ``ray start``, or None, and those of all clusters here."""
    from ray._private import services, utils

    find: Any = services.find_gcs_addresses  # its types leave out the cache
    find.cache_clear()
    started, running = utils.read_ray_address(), sorted(find())
    return started if started in running else None, running


def starter_of(address: str) -> str:
    """Return, in words, which program has started a cluster of this machine for itself; empty if none has.

    The words contain only the names of the program and of its first argument.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            if not arguments[0].endswith(b"/raylet") or f"--gcs-address={address}".encode() not in arguments:
                continue
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent > 1:
                program = (Path("/proc") / str(parent) / "cmdline").read_bytes().decode(errors="replace")
                return f"of process {parent}, {' '.join(Path(word).name for word in program.split(chr(0))[:2])}"
    return ""


def use_stored_token() -> None:
    """Use this user's token, if any, as `ray.init` does for a cluster of this machine.

    It has no effect if RAY_AUTH_MODE is set. Before Ray 2.59, tokens need that setting.
    """
    from ray._private.authentication import authentication_token_setup as setup

    if hasattr(setup, "maybe_enable_token_auth_if_token_available"):
        setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def show_exceptions_without_ray(if_true: "Callable[[], bool]") -> None:
    """When an exception ends this process and ``if_true()`` holds, show the exception without calling Ray.

    Ray's own hook first calls the control store. If the store is dead, the hook ends the process without showing the
    exception.
    """
    import ray._private.worker as private

    worker: Any = private
    rays, before = worker.custom_excepthook, worker.normal_excepthook
    if sys.excepthook is rays:  # otherwise the hook is replaced already, or the program has its own
        sys.excepthook = lambda *shown: before(*shown) if if_true() else rays(*shown)


class ProgramsThreads:
    """True on the program's threads, false on those of tidewheel."""

    def __bool__(self) -> bool:
        return not threading.current_thread().name.startswith("tidewheel-")


def never_join_from_our_threads() -> None:
    """Let Ray's functions raise on threads of tidewheel if this process has left its cluster.

    Otherwise Ray would join or start another cluster there. On the program's own threads it still does.

    Relies on ``enable_auto_connect`` of ``ray._private.auto_init_hook``, which Ray tests before it joins.
    """
    from ray._private import auto_init_hook

    hook: Any = auto_init_hook
    hook.enable_auto_connect = hook.enable_auto_connect and ProgramsThreads()


def hide_lines(pattern: str) -> None:
    """Let this driver hide lines that match a pattern in the standard error of other processes.

    The user's RAY_DEDUP_LOGS_SKIP_REGEX still counts, and RAY_DEDUP_LOGS=0 shows all lines.
    """
    from ray._private.ray_logging import stderr_deduplicator as lines

    lines.skip_re = _either(lines.skip_re, pattern)


def show_each_line(pattern: str) -> None:
    """Show every line that matches a pattern; otherwise Ray shows similar lines of several processes once.

    Relies on ``allow_re`` of ``ray._private.ray_logging.stderr_deduplicator``.
    """
    from ray._private.ray_logging import stderr_deduplicator as lines

    lines.allow_re = _either(lines.allow_re, pattern)


def _either(before: re.Pattern[str] | None, pattern: str) -> re.Pattern[str]:
    if before is None or pattern in before.pattern:
        return before or re.compile(pattern)
    return re.compile(f"{before.pattern}|{pattern}")


def _worker() -> Any:
    from ray._private.worker import global_worker

    return global_worker
