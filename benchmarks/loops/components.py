"""The time that connected components take: by a loop of tidewheel, by loops of other systems, and by a compiled search.

The graphs are a random one of a million edges, and the dependencies between Debian's packages. In all loops labels
spread along the edges until none changes; tidewheel's is that of ``examples/parts/least_labels.py``, in NumPy. A turn
takes from edges in memory to labels in memory: with tidewheel from when the driver begins to send them until the epoch
is complete, on workers that are deployed already. Spark has its edges cached before a turn. Nobody reads files or
starts anything meanwhile, and all have solved a small graph before. In the end all labels have to be the same.

Peers that are missing are said to be. Pathway and tidewheel do not always agree on a version of Arrow, so it can be in
an environment of its own: ``python3.11 -m venv peers``, ``peers/bin/pip install pathway`` and then
``--peers peers/bin/python``. A turn of a peer that takes too long is ended, and counts for as long as it was given.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np

from benchmarks.contestants.component_contestants import PATHWAY, SPARK, Deployed, Graph, Labels, start_peers
from benchmarks.measuring.measurement import Report, arguments
from benchmarks.measuring.transport_floor import ray_cluster
from examples.parts import debian_graph

OURS = {1: "tidewheel, 1 worker", 2: "tidewheel, 2 workers"}
SLOW = {SPARK, PATHWAY}
MOST_RATIO = 0.1


def main() -> None:
    options = arguments("Measure how long connected components take.", peers=True)
    report = Report()
    with ray_cluster():
        for graph in quick_graphs() if options.quick else full_graphs():
            effort = Effort(rounds=1, longest_s=10) if options.quick else Effort(rounds=5, longest_s=45)
            measure(report, graph, options.peers, effort)
    report.finish(options.json)


# ---------------------------------------------------------------------- measurements


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


if __name__ == "__main__":
    main()
