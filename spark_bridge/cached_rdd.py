"""The RDD of Arrow batches in the cache of a Spark session's executors on Ray, and calls to these executors.

Executors are named Java actors. The next application of a namespace reuses the names of actors and the numbers of RDDs.
So executors are identified by actor id, which stays the same when Ray restarts an executor.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import ray
from ray import ObjectRef

from tidewheel.host.ray_internals import actor_id, call_java, node_of
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.ray_cluster import EXECUTOR


@dataclass(frozen=True, slots=True)
class CachedRdd:
    """A cached RDD of Arrow batches, with the executors at the time of caching.

    Attributes:
        agent: the URL of RayDP's agent in the driver, which lets Spark compute lost partitions.
        holders: for each partition, Spark's number of its executor; None if unknown.
        nodes: the Ray node of each executor, if known; a restarted executor may be on another node.
    """

    number: int = 0
    schema_json: str = ""
    agent: str = ""
    holders: tuple[str | None, ...] = ()
    actors: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def described(cls, rdd: Any) -> "CachedRdd":
        """Return the RDD that `jvm.cache_as_arrow` has described, with the current executors."""
        names = [name for name in ray.util.list_named_actors() if name.startswith(EXECUTOR)]
        found = {name.removeprefix(EXECUTOR): _named(name) for name in names}
        actors = {number: actor_id(actor) for number, actor in found.items() if actor is not None}
        nodes = {number: _node(actor) for number, actor in actors.items()}
        return cls(rdd.rddId(), rdd.schemaJson(), rdd.driverAgentUrl(), tuple(rdd.locations()), actors, nodes)

    @property
    def places(self) -> tuple[str, ...]:
        """The Ray node of each partition, empty if unknown."""
        return tuple(self.nodes.get(holder or "", "") for holder in self.holders)

    def request(self, partition: int) -> ObjectRef[bytes]:
        """Request a partition, an Arrow IPC stream, from an executor.

        Any executor can answer, since executors exchange cached partitions. An executor that Ray has restarted lets
        Spark compute missing partitions.

        Raises:
            BridgeError: there are no executors, since Spark has stopped.
        """
        actor = self._actor(partition)
        return call_java(actor, "getRDDPartition", self.number, partition, self.schema_json, self.agent)

    def probe(self, partition: int) -> ObjectRef[Any]:
        """Send a request to the executor of a partition; the executor answers as soon as it has started.

        Raises:
            BridgeError: there are no executors, since Spark has stopped.
        """
        return call_java(self._actor(partition), "getBlockLocations", self.number, 1)

    def _actor(self, partition: int) -> Any:
        """Return the executor of a partition or, if it is gone, another executor."""
        holder = self.holders[partition]
        for number in sorted(self.actors, key=lambda number: number != holder):
            actor = _named(f"{EXECUTOR}{number}")
            if actor is not None and actor_id(actor) == self.actors[number]:
                return actor
        raise BridgeError("the Spark session has ended: none of its executors is left")


def _named(name: str) -> Any:
    try:
        return ray.get_actor(name)
    except ValueError:
        return None


def _node(actor: str) -> str:
    with suppress(Exception):  # without it, a block may be read on another node than its own
        return node_of(actor)
    return ""
