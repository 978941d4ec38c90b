"""Those who find the connected components of a graph: a loop of tidewheel, and peers in processes of their own."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import tidewheel as tw
from benchmarks.contestants.components_peers import LONGER, THREADS
from benchmarks.measuring.peer_processes import PeerMissingError, PeerProcesses, program
from examples.parts.least_labels import least_labels

SCIPY, SPARK, PATHWAY = "scipy, 1 thread", f"Spark, local[{THREADS}]", f"Pathway, {THREADS} threads"
DEADLINE_S = 120.0

Nodes: TypeAlias = npt.NDArray[np.int64]
Labels: TypeAlias = npt.NDArray[np.int64]
"""Nodes in order, in the first row, and the least node of the component of each, in the second."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Edges between nodes, which are numbers from 0."""

    name: str
    source: Nodes
    target: Nodes


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
            command = program("contestants.components_peers", peer, python=interpreter)
            processes = running.enter_context(PeerProcesses([command]))
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
        least_labels(arcs, flow.scope("labels")).probe("done").capture("labels")
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
        done.wait_until(self._epoch, timeout_s=DEADLINE_S)
        return perf_counter() - began

    def labels(self) -> Labels:
        """Return what the last epoch has sent."""
        tables = [one.batch for one in self._job.captured("labels") if one.time == self._epoch - 1]
        found = np.stack([np.concatenate([table[name] for table in tables]) for name in ("node", "label")])
        return found[:, np.argsort(found[0])]


def both_ways(edges: pa.Table) -> pa.Table:
    ends = [edges["source"].to_numpy(), edges["target"].to_numpy()]
    return pa.table({"node": np.concatenate(ends), "to": np.concatenate(ends[::-1])})
