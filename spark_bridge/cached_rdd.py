"""The RDD of Arrow batches that the executors of a Spark session on Ray have cached, and calls to these executors.

Executors are Java actors with names of their own. Actors of the next application of a namespace have the same names,
and its RDDs the same numbers: so an actor is one of these executors only if it is the same actor, which it stays when
Ray has started it again.
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
    """A cached RDD of Arrow batches. Its executors are as they were when it was cached.

    Attributes:
        number: the number by which Spark knows it.
        schema_json: the schema of the batches, as Arrow's JSON.
        agent: the URL of RayDP's agent in the driver, which has Spark compute what was lost.
        holders: the numbers that Spark gives the executors that have the partitions; None where that is not known.
        actors: the identifier of each executor's actor, by the number of the executor.
        nodes: the Ray node that each was on, in the same way, as far as Ray said. One that has died may be elsewhere.
    """

    number: int = 0
    schema_json: str = ""
    agent: str = ""
    holders: tuple[str | None, ...] = ()
    actors: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def described(cls, rdd: Any) -> "CachedRdd":
        """Return the RDD that `jvm.cache_as_arrow` describes, with the executors that run now."""
        names = [name for name in ray.util.list_named_actors() if name.startswith(EXECUTOR)]
        found = {name.removeprefix(EXECUTOR): _named(name) for name in names}
        actors = {number: actor_id(actor) for number, actor in found.items() if actor is not None}
        nodes = {number: _node(actor) for number, actor in actors.items()}
        return cls(rdd.rddId(), rdd.schemaJson(), rdd.driverAgentUrl(), tuple(rdd.locations()), actors, nodes)

    @property
    def places(self) -> tuple[str, ...]:
        """The Ray node that each partition is on, empty where that is not known."""
        return tuple(self.nodes.get(holder or "", "") for holder in self.holders)

    def request(self, partition: int) -> ObjectRef[bytes]:
        """Ask an executor for a partition; the object is an Arrow IPC stream.

        An executor gets what another one has cached, and one that has died meanwhile is started again by Ray, and has
        Spark compute what is missing, so it need not be the holder that answers.

        Raises:
            BridgeError: there are no executors: Spark has stopped.
        """
        actor = self._actor(partition)
        return call_java(actor, "getRDDPartition", self.number, partition, self.schema_json, self.agent)

    def probe(self, partition: int) -> ObjectRef[Any]:
        """Ask the holder of a partition for something that it can say at once, if it has started.

        Raises:
            BridgeError: there are no executors: Spark has stopped.
        """
        return call_java(self._actor(partition), "getBlockLocations", self.number, 1)

    def _actor(self, partition: int) -> Any:
        """Return the actor of the executor that has a partition, or of another one if that is gone."""
        holder = self.holders[partition]
        for number in sorted(self.actors, key=lambda number: number != holder):
            actor = _named(f"{EXECUTOR}{number}")
            if actor is not None and actor_id(actor) == self.actors[number]:
                return actor
        raise BridgeError("the Spark session has ended: none of its executors is left")


def _named(name: str) -> Any:
    """Return the actor of a name, None if there is none any more."""
    try:
        return ray.get_actor(name)
    except ValueError:
        return None


def _node(actor: str) -> str:
    """Return the node of an actor, empty if Ray does not say."""
    with suppress(Exception):  # without it, a block may be read on another node than its own
        return node_of(actor)
    return ""
