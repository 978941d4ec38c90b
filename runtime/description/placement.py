"""The placement of workers on the nodes of a Ray cluster.

Workers without reserved resources are spread evenly, each actor tied to its node. Ray's own strategy ``"SPREAD"`` often
puts two of three workers on one node. For workers that reserve resources, Ray chooses nodes with a placement group. The
group is removed before the actors reserve the resources, so that it is never left behind. If another program takes the
resources in between, the actors wait.
"""

import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

from tidewheel.host.log_lines import about
from tidewheel.runtime.errors import ConfigError, JobError

PlacementName: TypeAlias = Literal["spread", "pack"]
"""The ways to place workers."""

_LOGGER = logging.getLogger(__name__)
_WARN_AFTER_S = 2.0
_NEXT_TO_NOTHING = {"memory": 1}
"""One byte, since a placement group must ask for some resource."""
_OWN_OPTIONS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
_RAYS_OWN = ("node:", "ray.io/", "object_store_memory")
_CHANCE = secrets.SystemRandom()


@dataclass(frozen=True, slots=True)
class Node:
    """A live node of the cluster: its id, address, reservable resources and labels."""

    id: str
    host: str
    resources: Mapping[str, float]
    labels: Mapping[str, str]

    @classmethod
    def all(cls) -> list[Self]:
        import ray

        return [
            cls(node["NodeID"], node["NodeManagerAddress"], node["Resources"], node["Labels"])
            for node in ray.nodes()
            if node["Alive"]
        ]

    @property
    def name(self) -> str:
        """The address and the beginning of the id, since one machine can be several nodes."""
        return f"{self.host} ({self.id[:8]})"

    def __str__(self) -> str:
        return f"node {self.name} has {listed(self.resources)}; labels {listed(self.labels)}"


@dataclass(frozen=True, slots=True)
class Placement:
    """The requirements of a job's workers on their nodes.

    Args:
        labels: the labels that a worker's node must have.
    """

    strategy: PlacementName
    resources: Mapping[str, float]
    labels: Mapping[str, str]

    def choose(self, workers: int, timeout_s: float, job: str) -> list[Node]:
        """Return a node for each worker; wait at most ``timeout_s`` seconds for free resources.

        Raises:
            JobError: not enough resources were free in time; the message says what is missing and what is free.
            ConfigError: Ray rejects the resources.
        """
        if not self.resources:
            nodes = self.deal(workers, Node.all())
            if nodes:
                return nodes
        places = self._reserve(workers, timeout_s, job)
        nodes_by_id = {node.id: node for node in Node.all()}
        return [nodes_by_id.get(place) or Node(place, "a node that has gone", {}, {}) for place in places]

    def deal(self, workers: int, nodes: Sequence[Node]) -> list[Node]:
        """Return random nodes for the workers, spread evenly, without reservations; an empty list if no node fits.

        Nodes without CPUs, such as the head of a large cluster, are the last choice.

        >>> nodes = [Node("1", "head", {}, {}), Node("2", "a", {"CPU": 4.0}, {}), Node("3", "b", {"CPU": 4.0}, {})]
        >>> sorted(node.host for node in Placement("spread", {}, {}).deal(4, nodes))
        ['a', 'a', 'b', 'b']
        >>> len({node.host for node in Placement("pack", {}, {}).deal(4, nodes)})
        1
        """
        fitting = [node for node in nodes if not self.lacking(node)]
        candidates = [node for node in fitting if node.resources.get("CPU")] or fitting
        if not candidates:
            return []
        chosen = _CHANCE.sample(candidates, 1 if self.strategy == "pack" else len(candidates))
        return [chosen[worker % len(chosen)] for worker in range(workers)]

    def actor_options(self, node: Node) -> dict[str, Any]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(node.id, soft=False)
        return {**reserving(self.resources), "scheduling_strategy": strategy}

    def _reserve(self, workers: int, timeout_s: float, job: str) -> list[str]:
        import ray
        from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group

        bundle = dict(self.resources) or _NEXT_TO_NOTHING
        deadline = time.monotonic() + timeout_s
        try:
            group = placement_group(
                [bundle] * workers, self.strategy.upper(), bundle_label_selector=[dict(self.labels)] * workers
            )
        except ValueError as error:
            raise ConfigError(f"RuntimeConfig(resources={dict(self.resources)!r}): {error}") from error
        try:
            ready = [group.ready()]
            if not ray.wait(ready, timeout=min(_WARN_AFTER_S, timeout_s))[0]:
                asked = self._asked(workers)
                _LOGGER.warning("job %r waits for room on the cluster: %s", job, asked, extra=about(job))
                if not ray.wait(ready, timeout=max(0.0, deadline - time.monotonic()))[0]:
                    raise self._no_room(workers, timeout_s, job)
            return list(placement_group_table(group)["bundles_to_node_id"].values())
        finally:
            remove_placement_group(group)

    def _no_room(self, workers: int, timeout_s: float, job: str) -> JobError:
        import ray

        nodes = Node.all()
        found = [f"{node}: {self.lacking(node) or 'has that, but not free for all of them'}" for node in nodes]
        free = ray.available_resources()
        return JobError(
            f"job {job!r}: no room on the cluster within {timeout_s:g} s (deploy_timeout_s). "
            f"{self._asked(workers)}.\n  " + "\n  ".join(found) + f"\nFree on all nodes together: {listed(free)}. "
            f"{self._advice(nodes)}"
        )

    def _asked(self, workers: int) -> str:
        asked = [listed(self.resources)] if self.resources else []
        asked += [f"a node with labels {listed(self.labels)}"] if self.labels else []
        each = " each" if workers > 1 else ""
        return f"{workers} worker{'s' if workers > 1 else ''} asked for {' on '.join(asked) or 'any node'}{each}"

    def lacking(self, node: Node) -> str:
        """Return in words what a node lacks; empty if it has all that is asked for, free or not."""
        reasons = [
            f"lacks label {name}={value}" for name, value in self.labels.items() if node.labels.get(name) != value
        ]
        reasons += [
            f"has too little {name}"
            for name, amount in self.resources.items()
            if node.resources.get(name, 0.0) < amount
        ]
        return ", ".join(reasons)

    def _advice(self, nodes: Sequence[Node]) -> str:
        if not all(map(self.lacking, nodes)):
            return "End what uses the rest, run fewer workers, or ask for less (RuntimeConfig.resources)"
        return (
            "Start a node that has what is asked for (ray start --resources ... --labels ...), or change resources and "
            "node_labels of RuntimeConfig"
        )


def reserving(resources: Mapping[str, float]) -> dict[str, Any]:
    """Return the options of an actor that reserves resources by Ray's names; no CPU unless they say so.

    >>> reserving({"GPU": 1, "fast_disk": 0.5})
    {'num_cpus': 0, 'num_gpus': 1, 'resources': {'fast_disk': 0.5}}
    """
    own = {option: resources[name] for name, option in _OWN_OPTIONS.items() if name in resources}
    others = {name: amount for name, amount in resources.items() if name not in _OWN_OPTIONS}
    return {"num_cpus": 0, **own, "resources": others}


def listed(mapping: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in sorted(mapping.items()) if not name.startswith(_RAYS_OWN)}
    return ", ".join(f"{name}={_shown(name, value)}" for name, value in shown.items()) or "none"


def _shown(name: str, value: Any) -> str:
    if not isinstance(value, float | int):
        return str(value)
    return f"{value / 2**30:.3g} GiB" if name == "memory" else f"{value:g}"
