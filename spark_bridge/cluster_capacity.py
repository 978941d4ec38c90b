"""The check that a Ray cluster has room for the executors of a Spark session.

Ray queues what does not fit and RayDP waits for it, so a session on a cluster that is too small would hang; this says
so beforehand.

An executor is one Ray actor, so its CPUs and its memory are on one node. RayDP's two masters hold nothing while they
run, but Ray wants one free CPU to place the first of them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidewheel.spark_bridge.errors import BridgeError

_MEMORY = re.compile(r"(\d+)([kmgt])b?", re.IGNORECASE)
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True, slots=True)
class ExecutorDemand:
    """What the executors of a session hold as long as it lives.

    Attributes:
        executors: how many there are.
        cpus: the Ray CPUs that each takes.
        memory_bytes: the Ray memory that each takes.
    """

    executors: int
    cpus: float
    memory_bytes: int

    def fitting(self, node: Mapping[str, float]) -> int:
        """Return how many of the executors fit on a node with these resources (``CPU``, ``memory`` in bytes)."""
        fits = [self.executors, int(node.get("memory", 0) // self.memory_bytes)]
        if self.cpus:
            fits.append(int(node.get("CPU", 0) // self.cpus))
        return min(fits)

    def shortage(self, nodes: Iterable[Mapping[str, float]]) -> str | None:
        """Return what is missing on ``nodes`` to run all executors, as a clause of a sentence, or None if they fit."""
        nodes = list(nodes)
        placed = sum(self.fitting(node) for node in nodes)
        cpus, memory = (sum(node.get(name, 0) for node in nodes) for name in ("CPU", "memory"))
        if placed >= self.executors and cpus >= 1:
            return None
        wanted = max(1, self.executors * self.cpus)
        return (
            f"it wants {self.executors} executor(s) of {self.cpus:g} CPU(s) and {self.memory_bytes / 2**20:.0f} MiB, "
            f"{wanted:g} CPU(s) in all. Only {placed} fit: there are {cpus:g} CPU(s) and "
            f"{memory / 2**20:.0f} MiB on {len(nodes)} node(s)"
        )


def executor_demand(executors: int, cpus: float, memory: str) -> ExecutorDemand:
    """Return the demand of ``executors`` executors with ``cpus`` Ray CPUs and ``memory`` (such as ``"1g"``) each.

    Raises:
        BridgeError: there is less than one executor, a negative number of CPUs, or ``memory`` is no amount with a unit.
    """
    match = _MEMORY.fullmatch(memory.strip())
    if executors < 1 or cpus < 0 or match is None or not int(match.group(1)):
        raise BridgeError(
            f"a Spark session cannot have executors={executors!r}, CPUs {cpus!r} and memory={memory!r}. It needs at "
            "least one executor, with CPUs, and with memory that has a unit, such as '512m' or '1g'"
        )
    return ExecutorDemand(executors, cpus, int(match.group(1)) * _UNITS[match.group(2).lower()])
