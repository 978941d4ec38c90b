"""Calls to the executors of a Spark session on Ray, which are Java actors with names of their own."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.ray_cluster import EXECUTOR
from tidewheel.transport.ray_internals import actor_id, call_java, node_of

if TYPE_CHECKING:
    from ray import ObjectRef


@dataclass(frozen=True, slots=True)
class Executors:
    """The executors of one Spark application, as they were when it cached something.

    Actors of the next application of a namespace have the same names, and its RDDs the same numbers: so an actor is one
    of these only if it is the same actor, which it stays when Ray has started it again.

    Attributes:
        ids: the identifiers of the actors, by the number that Spark gives the executor.
        nodes: the Ray nodes that they were on, in the same way, as far as Ray said. One that has died may be elsewhere.
    """

    ids: Mapping[str, str]
    nodes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def running(cls) -> "Executors":
        """Return those that run now."""
        import ray

        names = [name for name in ray.util.list_named_actors() if name.startswith(EXECUTOR)]
        actors = {name.removeprefix(EXECUTOR): _named(name) for name in names}
        ids = {number: actor_id(actor) for number, actor in actors.items() if actor is not None}
        return cls(ids, {number: _node(actor) for number, actor in ids.items()})

    def request_partition(self, holder: str | None, rdd: int, partition: int, how: "Reading") -> "ObjectRef[bytes]":
        """Ask an executor for a partition of a cached RDD of Arrow batches; the object is an Arrow IPC stream.

        An executor gets what another one has cached, and one that has died meanwhile is started again by Ray, and has
        Spark compute what is missing, so it need not be the holder that answers.

        Args:
            holder: the number of the executor that has it, None if that is not known.
            rdd: the number of the RDD.
            partition: which partition.
            how: what the executor has to know.

        Raises:
            BridgeError: there are no executors: Spark has stopped.
        """
        return call_java(self._actor(holder), "getRDDPartition", rdd, partition, how.schema_json, how.agent)

    def probe(self, holder: str | None, rdd: int) -> "ObjectRef[Any]":
        """Ask an executor for something that it can say at once, or fails to say as long as it has not started.

        Args:
            holder: the number of the executor, None for any.
            rdd: the number of an RDD.

        Raises:
            BridgeError: there are no executors: Spark has stopped.
        """
        return call_java(self._actor(holder), "getBlockLocations", rdd, 1)

    def _actor(self, holder: str | None) -> Any:
        """Return the actor of an executor, or of another one if that is gone."""
        for number in sorted(self.ids, key=lambda number: number != holder):
            actor = _named(f"{EXECUTOR}{number}")
            if actor is not None and actor_id(actor) == self.ids[number]:
                return actor
        raise BridgeError("the Spark session has ended: none of its executors is left")


@dataclass(frozen=True, slots=True)
class Reading:
    """What an executor has to know to return a partition.

    Attributes:
        schema_json: the schema of the batches, as Arrow's JSON.
        agent: where RayDP's agent in the driver listens, which has Spark compute what was lost.
    """

    schema_json: str
    agent: str


def _named(name: str) -> Any:
    """Return the actor of a name, None if there is none any more."""
    import ray

    try:
        return ray.get_actor(name)
    except ValueError:
        return None


def _node(actor: str) -> str:
    """Return the node of an actor, empty if Ray does not say."""
    with suppress(Exception):  # without it, a block may be read on another node than its own
        return node_of(actor)
    return ""
