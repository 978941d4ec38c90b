"""The time and memory that connected components take while edges come and go: tidewheel's collections, and others.

The graph is that of the dependencies between Debian's packages. The program of collections is that of
``examples/collections/incremental_components.py``, five lines long. There are four parts.

- From scratch: all edges in one epoch, from edges in memory to labels in memory, beside those that
  ``loops/components.py`` compares: today's example in NumPy, scipy, Pathway, and a loop over Spark DataFrames.
- One edge removed or added, an epoch each: from when the driver begins to send until the epoch is complete. Pathway
  does the same in as many epochs as it has time for. Spark and scipy would begin again, from scratch. The floor is a
  job that does nothing with the edge.
- A thousand changed edges an epoch. An epoch is sent when the one before the last is complete.
- Ten million random edges, and a tenth of them: by how much the worker grows, compared with their Arrow table.

All labels are compared with scipy's, after whatever changes a contestant has had. Pathway can be in an environment of
its own: see ``loops/components.py``.
"""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import tidewheel as tw
from benchmarks.contestants.component_contestants import PATHWAY, SCIPY, Deployed, Graph, start_peers
from benchmarks.contestants.components_peers import scipy as scipy_solver
from benchmarks.measuring.job_processes import growth
from benchmarks.measuring.measurement import Report, arguments
from benchmarks.measuring.peer_processes import PeerMissingError, PeerProcesses, program
from benchmarks.measuring.transport_floor import ray_cluster
from examples.collections import incremental_components
from examples.parts import debian_graph
from tidewheel.runtime.engines.ray_job import RayJob

DEADLINE_S = 300.0
AT_ONCE = 400_000
"""So many edges are sent as one batch, at most; all of Debian's are fewer."""
MOST_S = 1.0
MOST_P50_MS, MOST_P99_MS = 10.0, 30.0
MOST_OF_PATHWAY = 1 / 50
LEAST_EDGES_S = 20_000
MOST_TABLES = 4.0
MOST_OF_EXAMPLE = 1.5
EXAMPLE = "today's example"


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Attributes:
        rounds: from scratch.
        single: epochs of one edge.
        epochs: epochs of ``edges`` edges each.
        edges: how many change in an epoch.
        random: the edges of the random graph.
        longest_s: how long a slow peer may take, for each part.
    """

    rounds: int
    single: int
    epochs: int
    edges: int
    random: int
    longest_s: int


FULL = Effort(rounds=9, single=500, epochs=50, edges=1_000, random=10_000_000, longest_s=90)
QUICK = Effort(rounds=1, single=10, epochs=3, edges=20, random=20_000, longest_s=10)


def main() -> None:
    options = arguments("Measure what it costs to keep connected components up to date.", peers=True)
    report = Report()
    effort = QUICK if options.quick else FULL
    graph = small_graph() if options.quick else debian()
    with ray_cluster(), TemporaryDirectory(prefix="incremental") as folder:
        from_scratch(report, graph, options.peers, Path(folder), effort)
        history = History.of(graph, effort)
        theirs = pathway_changes(report, history, options.peers, Path(folder), effort)
        floor(report, history)
        for workers in (1, 2):
            changes(report, history, workers, theirs)
        memory(report, effort.random)
    report.finish(options.json)


def debian() -> Graph:
    (edges,) = debian_graph.load().epochs
    return Graph("Debian", edges["source"].to_numpy(), edges["target"].to_numpy())


def small_graph() -> Graph:
    ends = np.unique(np.random.default_rng(1).integers(0, 400, (2, 1_000)), axis=1)
    return Graph("a small graph", *ends)


# ---------------------------------------------------------------------- tidewheel's collections


class Changing:
    """A job that receives edges, which come and go, at its input ``edges``; its probe is ``done``."""

    def __init__(self, running: ExitStack, workers: int, flow: tw.Dataflow) -> None:
        self.job = running.enter_context(tw.run(flow, workers=workers))
        running.callback(self.job.stop)
        self._workers = workers
        self.epoch = 0

    def change(self, edges: Any) -> float:
        """Send rows (source, target, diff) as an epoch; return how many seconds later it is complete."""
        began = perf_counter()
        self.send(edges)
        self.wait(self.epoch)
        return perf_counter() - began

    def send(self, edges: Any) -> None:
        """Send rows as an epoch, to each worker a part, and not too many at once."""
        handle = self.job.input("edges")
        table = pa.table({"source": edges[:, 0], "target": edges[:, 1], "diff": edges[:, 2]})
        share = max(1, min(-(-len(table) // self._workers), AT_ONCE))
        for first in range(0, len(table), share):
            handle.send(table.slice(first, share))
        self.epoch += 1
        handle.advance_to(self.epoch)

    def wait(self, epoch: int) -> None:
        """Wait until all epochs before this one are complete."""
        self.job.probe("done").wait_until(epoch, timeout_s=DEADLINE_S)


class Kept(Changing):
    """A job that keeps the components of edges; it captures labels unless told not to."""

    def __init__(self, running: ExitStack, workers: int, *, captures: bool = True) -> None:
        flow = tw.Dataflow("components")
        edges = flow.input("edges").as_collection(columns=["source", "target"], diff="diff")
        labels = incremental_components.components(edges).changes(columns=["node", "label"]).probe("done")
        if captures:
            labels.capture("labels")
        super().__init__(running, workers, flow)

    def labels(self) -> Any:
        """Return the nodes in order, and the label of each, as of the last epoch."""
        tables = [one.batch for one in self.job.captured("labels")]
        every = pa.concat_tables(tables).group_by(["node", "label"]).aggregate([("diff", "sum")])
        kept = every.filter(np.not_equal(every["diff_sum"].to_numpy(), 0)).sort_by("node")
        assert set(kept["diff_sum"].to_pylist()) <= {1}
        return np.stack([kept["node"].to_numpy(), kept["label"].to_numpy()])


# ---------------------------------------------------------------------- from scratch


def from_scratch(report: Report, graph: Graph, python: str, folder: Path, effort: Effort) -> None:
    """Let all take turns, each with a job that has not had the graph before; the slow ones once."""
    edges = with_diff(np.column_stack([graph.source, graph.target]), 1)
    expected = labels_of(edges)
    seconds: dict[str, list[float]] = {}
    with ExitStack() as running:
        peers = start_peers(running, graph, python, folder, effort.longest_s)
        for number in range(effort.rounds):
            for name, peer in peers.items():
                if number == 0 or name == SCIPY:
                    seconds.setdefault(name, []).append(peer.turn())
            for workers in (1, 2):
                with ExitStack() as turn:
                    example = Deployed(turn, small_graph(), "ray", workers)
                    example.edges = pa.table({"source": graph.source, "target": graph.target})
                    seconds.setdefault(named(workers, EXAMPLE), []).append(example.turn())
                with ExitStack() as turn:
                    kept = Kept(turn, workers)
                    warm(kept)
                    seconds.setdefault(named(workers), []).append(kept.change(edges))
                    same(named(workers), kept.labels(), expected)
        for name, peer in peers.items():
            if seconds[name][0] < effort.longest_s:
                same(name, peer.labels(), expected)
    found = {name: report.add(f"from scratch: {name}", values, "s") for name, values in seconds.items()}
    one, two = found[named(1)], found[named(2)]
    report.expect("from scratch with one worker, s", one, MOST_S)
    report.expect("from scratch with two workers, of the time with one", two / one, 1.0)
    report.expect("from scratch, of the time of today's example", one / found[named(1, EXAMPLE)], MOST_OF_EXAMPLE)


def named(workers: int, what: str = "collections") -> str:
    return f"{what}, {workers} worker{'s' * (workers > 1)}"


def warm(kept: Kept) -> None:
    """Have a job find the components of a small graph, and forget it again."""
    small = np.column_stack([np.arange(20), np.arange(1, 21)])
    kept.change(with_diff(small, 1))
    kept.change(with_diff(small, -1))


def labels_of(edges: Any) -> Any:
    """Return what scipy says of the edges that rows (source, target, diff) leave, as `Kept.labels`."""
    distinct, place = np.unique(edges[:, :2], axis=0, return_inverse=True)
    left = distinct[np.bincount(place.ravel(), weights=edges[:, 2]) > 0]
    _, nodes, labels = scipy_solver()(left[:, 0], left[:, 1])
    return np.stack([nodes, labels])


def same(name: str, found: Any, expected: Any) -> None:
    """Raise RuntimeError unless labels are those that are expected."""
    if not np.array_equal(found, expected):
        raise RuntimeError(f"{name} has found other components than scipy")


# ---------------------------------------------------------------------- changes


@dataclass(frozen=True, slots=True)
class History:
    """Rows (source, target, diff): those of the graph, then single changes, then some at once, epoch by epoch."""

    first: Any
    single: Any
    epochs: list[Any]

    @classmethod
    def of(cls, graph: Graph, effort: Effort) -> "History":
        """Remove edges of the graph, and add others between its nodes, by turns; no edge changes twice."""
        random = np.random.default_rng(2)
        edges = np.column_stack([graph.source, graph.target])
        half = (effort.single + effort.epochs * effort.edges) // 2
        removed = edges[random.choice(len(edges), half, replace=False)]
        nodes = np.unique(edges)
        drawn = np.unique(nodes[random.integers(0, len(nodes), (2 * half, 2))], axis=0)
        present = set(map(tuple, edges.tolist()))
        added = np.array([edge for edge in drawn.tolist() if tuple(edge) not in present])
        added = added[random.permutation(len(added))[:half]]
        rows = np.stack([with_diff(removed, -1), with_diff(added, 1)], axis=1).reshape(-1, 3)
        return cls(with_diff(edges, 1), rows[: effort.single], np.split(rows[effort.single :], effort.epochs))


def with_diff(edges: Any, diff: int) -> Any:
    """Return rows (source, target, diff) for rows (source, target)."""
    return np.asfortranarray(np.column_stack([edges, np.full(len(edges), diff)]))  # columns, as the others have them


def pathway_changes(report: Report, history: History, python: str, folder: Path, effort: Effort) -> float | None:
    """Have Pathway change as many single edges as it has time for, then an epoch; return its median for one, in ms."""
    files = [folder / f"{name}.npy" for name in ("first", "single", "together", "labels")]
    for file, rows in zip(files, (history.first, history.single, history.epochs[0]), strict=False):
        np.save(file, rows)
    try:
        with PeerProcesses([program("contestants.incremental_pathway", python=python)]) as processes:
            line = " ".join(map(str, (*files, effort.longest_s)))
            _, *single, together = json.loads(processes.ask(line)[0])
    except PeerMissingError as error:
        print(f"{PATHWAY}: missing ({error})")
        return None
    rows = np.concatenate([history.first, history.single[: len(single)], history.epochs[0]])
    same(PATHWAY, np.load(files[-1]), labels_of(rows))
    found = report.add(f"one edge, {len(single)} times: {PATHWAY}", [value * 1e3 for value in single], "ms")
    report.add(f"{effort.edges:,} edges an epoch: {PATHWAY}", [len(history.epochs[0]) / together], "edges/s")
    return found


def floor(report: Report, history: History) -> None:
    """Measure single changes with a job that does nothing."""
    flow = tw.Dataflow("nothing")
    flow.input("edges").probe("done")
    with ExitStack() as running:
        job = Changing(running, 1, flow)
        single_changes(report, "nothing, 1 worker", job, history)


def single_changes(report: Report, name: str, job: Changing, history: History) -> tuple[float, float]:
    """Have a job change single edges; report, and return, the median and the 99th percentile in ms."""
    milliseconds = [job.change(row[None]) * 1e3 for row in history.single]
    p50, p99 = (float(np.percentile(milliseconds, part)) for part in (50, 99))
    report.add_several(f"one edge: {name}", {"p50": (p50, "ms"), "p99": (p99, "ms")})
    return p50, p99


def changes(report: Report, history: History, workers: int, theirs: float | None) -> None:
    """Measure single changes, and epochs of many."""
    name = named(workers)
    with ExitStack() as running:
        kept = Kept(running, workers)
        kept.change(history.first)
        p50, p99 = single_changes(report, name, kept, history)
        same(name, kept.labels(), labels_of(np.concatenate([history.first, history.single])))
        rate = edges_a_second(kept, history.epochs)
        same(name, kept.labels(), labels_of(np.concatenate([history.first, history.single, *history.epochs])))
    report.add(f"{len(history.epochs[0]):,} edges an epoch: {name}", [rate], "edges/s")
    report.expect(f"one edge: {name}, p50, ms", p50, MOST_P50_MS)
    report.expect(f"one edge: {name}, p99, ms", p99, MOST_P99_MS)
    if theirs is not None:
        report.expect(f"one edge: {name}, p50, of Pathway's", p50 / theirs, MOST_OF_PATHWAY)
    report.expect(f"{LEAST_EDGES_S:,} edges/s over the rate: {name}", LEAST_EDGES_S / rate, 1.0)


def edges_a_second(kept: Kept, epochs: list[Any]) -> float:
    """Send epochs, each when the one before the last is complete; return how many edges change in a second."""
    began = perf_counter()
    for rows in epochs:
        kept.send(rows)
        kept.wait(kept.epoch - 1)
    kept.wait(kept.epoch)
    return sum(map(len, epochs)) / (perf_counter() - began)


# ---------------------------------------------------------------------- memory


def memory(report: Report, edges: int) -> None:
    """Measure by how much a worker grows with a random graph: with a tenth of it, and with all if that would fit."""
    tenth = edges // 10
    grown = grown_by(report, tenth)
    if grown * 10 > psutil.virtual_memory().available / 2:
        print(f"{edges:,} random edges: left out, since they would take about {grown / 1e8:,.1f} GB")
        edges = tenth
    else:
        grown = grown_by(report, edges)
    report.expect(f"growth with {edges:,} random edges, of their Arrow table", grown / table_bytes(edges), MOST_TABLES)


def grown_by(report: Report, edges: int) -> int:
    """Return by how many bytes a worker grows at most while it finds the components of so many random edges."""
    ends = np.random.default_rng(3).integers(0, max(2, edges * 2 // 5), (edges, 2))
    with ExitStack() as running:
        kept = Kept(running, 1, captures=False)
        warm(kept)
        assert isinstance(kept.job, RayJob)
        worker = psutil.Process(kept.job.pids[0])
        before = worker.memory_info().rss
        with growth({"at most": worker}) as grown:
            seconds, is_done = finished(kept, with_diff(ends, 1))
        grown["in the end"] = worker.memory_info().rss - before
    shown = "" if is_done else ", ended before it was done"
    report.add(f"{edges:,} random edges, 1 worker{shown}", [seconds], "s")
    for when, size in grown.items():
        report.add(f"{edges:,} random edges, 1 worker: growth {when}", [size / 1e6], "MB")
        report.add("the same, of the Arrow table", [size / table_bytes(edges)], "times")
    return grown["at most"]


def table_bytes(edges: int) -> int:
    """Return the size of a table of so many edges: two columns of 64-bit integers."""
    return edges * 2 * 8


def finished(kept: Kept, edges: Any) -> tuple[float, bool]:
    """Return how many seconds it takes to change edges, and whether that is done within the deadline."""
    began = perf_counter()
    try:
        return kept.change(edges), True
    except TimeoutError:
        return perf_counter() - began, False


if __name__ == "__main__":
    main()
