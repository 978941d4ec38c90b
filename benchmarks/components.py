"""The time that connected components take: by a loop of tidewheel, by loops of other systems, and by a compiled search.

The graphs are a random one of a million edges, and the dependencies between Debian's packages. In all loops labels
spread along the edges until none changes; tidewheel's is that of ``examples/least_labels.py``, in NumPy. A turn takes
from edges in memory to labels in memory: with tidewheel from when the driver begins to send them until the epoch is
complete, on workers that are deployed already. Spark has its edges cached before a turn. Nobody reads files or starts
anything meanwhile, and all have solved a small graph before. In the end all labels have to be the same.

Peers that are missing are said to be. Pathway and tidewheel do not always agree on a version of Arrow, so it can be in
an environment of its own: ``python3.11 -m venv peers``, ``peers/bin/pip install pathway`` and then
``--peers peers/bin/python``. A turn of a peer that takes too long is ended, and counts for as long as it was given.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from types import ModuleType
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import tidewheel as tw
from components_peers import LONGER, THREADS
from measurement import Report, arguments
from peer_processes import PeerMissingError, PeerProcesses
from transport_floor import ray_cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import debian_graph
import label_share
import least_labels
import node_arrays

PROGRAM = Path(__file__).with_name("components_peers.py")
DEADLINE_S = 120.0
OURS = {1: "tidewheel, 1 worker", 2: "tidewheel, 2 workers"}
SCIPY, SPARK, PATHWAY = "scipy, 1 thread", f"Spark, local[{THREADS}]", f"Pathway, {THREADS} threads"
SLOW = {SPARK, PATHWAY}
MOST_RATIO = 0.1

Nodes: TypeAlias = npt.NDArray[np.int64]
Labels: TypeAlias = npt.NDArray[np.int64]
"""Nodes in order, in the first row, and the least node of the component of each, in the second."""


def main() -> None:
    options = arguments("Measure how long connected components take.", peers=True)
    report = Report()
    with ray_cluster(), examples_by_value():
        for graph in quick_graphs() if options.quick else full_graphs():
            effort = Effort(rounds=1, longest_s=10) if options.quick else Effort(rounds=5, longest_s=45)
            measure(report, graph, options.peers, effort)
    report.finish(options.json)


# ---------------------------------------------------------------------- what is measured


@dataclass(frozen=True, slots=True)
class Graph:
    """Edges between nodes, which are numbers from 0."""

    name: str
    source: Nodes
    target: Nodes


def full_graphs() -> Iterator[Graph]:
    (edges,) = debian_graph.load().epochs
    yield Graph("Debian", edges["source"].to_numpy(), edges["target"].to_numpy())
    yield random_graph(nodes=400_000, edges=1_000_000)


def quick_graphs() -> Iterator[Graph]:
    yield random_graph(nodes=1_200, edges=3_000)


def random_graph(nodes: int, edges: int) -> Graph:
    return Graph(f"{edges:,} random edges", *np.random.default_rng(1).integers(0, nodes, (2, edges)))


def measure(report: Report, graph: Graph, python: str, effort: "Effort") -> None:
    """Let the contestants take turns, compare their labels, and compare our times with the peers'."""
    with TemporaryDirectory(prefix="components") as folder, ExitStack() as running:
        contestants = start_all(running, graph, python, Path(folder), effort.longest_s)
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for number in range(effort.rounds):
            for name, contestant in contestants.items():
                if number == 0 or name not in SLOW:
                    seconds[name].append(contestant.turn())
        ended = {name for name in SLOW & contestants.keys() if seconds[name] == [effort.longest_s]}
        compare_labels({name: contestants[name].labels() for name in contestants.keys() - ended})
    found = {}
    for name, turns in seconds.items():
        shown = f"{name}, ended before it was done" if name in ended else name
        found[name] = report.add(f"{graph.name}: {shown}", turns, "s")
    best = min(found[name] for name in OURS.values())
    for name in sorted(SLOW & found.keys()):
        report.expect(f"{graph.name}: tidewheel's time over that of {name}, ratio", best / found[name], MOST_RATIO)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: rounds of those that are fast, and how long the one turn of others may take."""

    rounds: int
    longest_s: int


class Contestant(Protocol):
    """One that finds the components of a graph, which it has been given, again and again."""

    def turn(self) -> float:
        """Find them; return how many seconds it took."""

    def labels(self) -> Labels:
        """Return what it has found in the last turn."""


def start_all(running: ExitStack, graph: Graph, python: str, folder: Path, longest_s: int) -> dict[str, Contestant]:
    """Return all contestants by name, ready; say which are missing."""
    found: dict[str, Contestant] = {**start_peers(running, graph, python, folder, longest_s)}
    for workers, name in OURS.items():
        found[name] = Deployed(running, graph, "ray", workers)
        found[f"{name}, local engine"] = Deployed(running, graph, "local", workers)
    return found


def compare_labels(labels: dict[str, Labels]) -> None:
    """Raise RuntimeError unless all have found the same."""
    (first, expected), *others = labels.items()
    for name, found in others:
        if not np.array_equal(found, expected):
            raise RuntimeError(f"{name} and {first} have found different components")


# ---------------------------------------------------------------------- contestants


class Peer:
    """A process that solves the graph in a file, and writes labels to another."""

    def __init__(self, processes: PeerProcesses, edges: Path, labels: Path, longest_s: int) -> None:
        self._processes = processes
        self._labels = labels
        self._longest_s = longest_s
        self._line = f"{edges} {labels} {longest_s}"

    def turn(self) -> float:
        """Ask it; return how long it says that it took, or how long it was to take at most if it took longer."""
        (answer,) = self._processes.ask(self._line)
        return float(self._longest_s if answer == LONGER else answer)

    def labels(self) -> Labels:
        """Read what it has written."""
        found: Labels = np.load(self._labels)
        return found[:, np.argsort(found[0])]


def start_peers(running: ExitStack, graph: Graph, python: str, folder: Path, longest_s: int) -> dict[str, Peer]:
    """Return the peers that are there, by name, with the edges in a file for them; say which are missing."""
    np.save(folder / "edges.npy", np.stack([graph.source, graph.target]))
    peers = {SCIPY: (sys.executable, "scipy"), SPARK: (sys.executable, "spark"), PATHWAY: (python, "pathway")}
    found = {}
    for name, (interpreter, peer) in peers.items():
        try:
            processes = running.enter_context(PeerProcesses([[interpreter, PROGRAM, peer]]))
        except PeerMissingError as error:
            print(f"{graph.name}: {name}: missing ({error})")
        else:
            found[name] = Peer(processes, folder / "edges.npy", folder / f"{peer}.npy", longest_s)
    return found


class Deployed:
    """A dataflow of tidewheel's; each of its epochs is the same graph once more, unless ``edges`` changes."""

    def __init__(self, running: ExitStack, graph: Graph, engine: Literal["ray", "local"], workers: int) -> None:
        flow = tw.Dataflow("components")
        arcs = flow.input("edges").map_batches(both_ways)
        least_labels.least_labels(arcs, flow.scope("labels")).probe("done").capture("labels")
        self._job = running.enter_context(tw.run(flow, workers=workers, engine=engine))
        running.callback(self._job.stop)
        self.edges = pa.table({"source": graph.source, "target": graph.target})
        self._workers = workers
        self._epoch = 0
        self.turn()

    def turn(self) -> float:
        """Send the graph, each worker a part, and wait for the end of the epoch."""
        share = -(-len(self.edges) // self._workers)
        edges, done = self._job.input("edges"), self._job.probe("done")
        began = perf_counter()
        for worker in range(self._workers):
            edges.send(self.edges.slice(worker * share, share))
        self._epoch += 1
        edges.advance_to(self._epoch)
        done.wait_until(self._epoch, timeout=DEADLINE_S)
        return perf_counter() - began

    def labels(self) -> Labels:
        """Return what the last epoch has sent."""
        tables = [one.batch for one in self._job.captured("labels") if one.time == self._epoch - 1]
        found = np.stack([np.concatenate([table[name] for table in tables]) for name in ("node", "label")])
        return found[:, np.argsort(found[0])]


def both_ways(edges: pa.Table) -> pa.Table:
    ends = [edges["source"].to_numpy(), edges["target"].to_numpy()]
    return pa.table({"node": np.concatenate(ends), "to": np.concatenate(ends[::-1])})


@contextmanager
def examples_by_value(*more: ModuleType) -> Iterator[None]:
    """Have workers get the modules of the example that is used, and more, which they do not find by name."""
    from ray import cloudpickle

    modules = (label_share, least_labels, node_arrays, *more)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


if __name__ == "__main__":
    main()
