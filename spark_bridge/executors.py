"""Calls to the executors of a Spark session on Ray, which are Java actors with names of their own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.ray_cluster import EXECUTOR

if TYPE_CHECKING:
    from ray import ObjectRef

_calling = threading.Lock()


def request_partition(holder: str | None, rdd: int, partition: int, schema: str, agent: str) -> "ObjectRef[bytes]":
    """Ask an executor for a partition of a cached RDD of Arrow batches; the object is an Arrow IPC stream.

    An executor gets what another one has cached, and one that has died meanwhile is started again by Ray, and has Spark
    compute what is missing, so it need not be the holder that answers.

    Args:
        holder: the number of the executor that has it, None if that is not known.
        rdd: the number of the RDD.
        partition: which partition.
        schema: of the batches, as Arrow's JSON.
        agent: where RayDP's agent in the driver listens.

    Raises:
        BridgeError: there are no executors: Spark has stopped.
    """
    with _calling, _cross_language_calls():
        reference: ObjectRef[bytes] = _executor(holder).getRDDPartition.remote(rdd, partition, schema, agent)
    return reference


def probe(holder: str | None, rdd: int) -> "ObjectRef[Any]":
    """Ask an executor for something that it can say at once, or fails to say as long as it has not started.

    Args:
        holder: the number of the executor, None for any.
        rdd: the number of an RDD.

    Raises:
        BridgeError: there are no executors: Spark has stopped.
    """
    with _calling, _cross_language_calls():
        reference: ObjectRef[Any] = _executor(holder).getBlockLocations.remote(rdd, 1)
    return reference


def _executor(number: str | None) -> Any:
    """Return the actor of an executor, or of another one if that is gone."""
    import ray

    names = [] if number is None else [f"{EXECUTOR}{number}"]
    names += sorted(name for name in ray.util.list_named_actors() if name.startswith(EXECUTOR)) if not names else []
    for name in names:
        try:
            return ray.get_actor(name)
        except ValueError:  # it has gone since
            continue
    if number is not None:
        return _executor(None)
    raise BridgeError("the Spark session has ended: none of its executors is left")


@contextmanager
def _cross_language_calls() -> Iterator[None]:
    """Allow this process to call Java actors; Ray has no public switch for it."""
    from ray._private.worker import global_worker

    before = global_worker.load_code_from_local
    global_worker.set_load_code_from_local(True)
    try:
        yield
    finally:
        global_worker.set_load_code_from_local(before)
