"""A collection in a loop whose workers die while edges come and go: the right changes of each epoch come once."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest

import tidewheel as tw
from tests.ray.leftovers import nothing_left
from tests.ray.recovered_flow import by_time
from tests.ray.topics.test_another_number_of_workers import Reader
from tests.ray.worker_killer import WorkerKiller

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

Edge: TypeAlias = tuple[int, int]
Labels: TypeAlias = dict[int, int]

DEADLINE_S = 90.0
EPOCHS = 60
NODES = 24
MOST_CHANGES = 4
PAUSE_S = 0.01
LIVES = [(2, 1), (3, 2), (1, 4), (2, 3), (4, 1, 3), (3, 1, 2), (2, 4, 1)]


def labels_of(edges: Iterable[Edge]) -> Labels:
    """Return each node with the least node that it is connected with, computed from scratch."""
    found: Labels = {}

    def root(node: int) -> int:
        while found.setdefault(node, node) != node:
            node = found[node]
        return node

    for edge in edges:
        one, other = sorted(map(root, edge))
        found[other] = one
    return {node: root(node) for node in found}


class History:
    """Random edges that come and go, so that the labels of each epoch differ from those of the one before.

    Attributes:
        changes: [(edge, count)] of each epoch.
        expected: for each epoch ((node, label), count) of the labels that change, each once.
        last: the labels in the end.
    """

    def __init__(self, random: Random) -> None:
        self.changes: list[list[tuple[Edge, int]]] = []
        self.expected: dict[int, Counter[Any]] = {}
        self.last: Labels = {}
        present: set[Edge] = set()
        for epoch in range(EPOCHS):
            before = set(present)
            while (labels := labels_of(present)) == self.last:
                present = before ^ {_edge(random) for _ in range(random.randint(1, MOST_CHANGES))}
            changed = set(labels.items()) ^ set(self.last.items())
            self.changes.append([(edge, 1 if edge in present else -1) for edge in sorted(before ^ present)])
            self.expected[epoch] = Counter((pair, 1 if labels.get(pair[0]) == pair[1] else -1) for pair in changed)
            self.last = labels


def _edge(random: Random) -> Edge:
    one, other = sorted(random.sample(range(NODES), 2))
    return one, other


def components(edges: tw.Collection) -> tw.Collection:
    def spread(labels: tw.Collection) -> tw.Collection:
        offers = labels.join(arcs, lambda node, label, neighbour: (neighbour, label), columns=True)
        return offers.concat(nodes).reduce_min()

    arcs = edges.concat(edges.map(lambda one, other: (other, one), columns=True))
    nodes = arcs.map(lambda node, neighbour: (node, node), columns=True).distinct()
    return nodes.iterate(spread)


def feed(job: tw.types.Job, changes: Sequence[list[tuple[Edge, int]]], at: Callable[[int], None]) -> int:
    """Send all changes, again where the job goes back; return how often it has; ``at`` is called before each epoch."""
    rewound = 0
    while True:
        try:
            edges = job.input("edges")
            for epoch in range(edges.position.batches, len(changes)):
                at(epoch)
                edges.advance_to(epoch)
                edges.send(changes[epoch], worker=epoch % job.workers)
                threading.Event().wait(PAUSE_S)  # so that there are snapshots in between
            job.probe("done").wait_until(len(changes) - 1, DEADLINE_S)
            if len(changes) == EPOCHS:
                edges.close()
                job.wait(DEADLINE_S)
        except tw.JobRolledBack:
            rewound += 1
        else:
            return rewound


class Kills:
    """Kills workers where epochs that are chosen by chance are reached for the first time."""

    def __init__(self, random: Random, epochs: range, count: int) -> None:
        self._moments = sorted(random.sample(epochs, count))
        self._killer = WorkerKiller(random)

    def at(self, epoch: int) -> None:
        while self._moments and epoch >= self._moments[0]:
            del self._moments[0]
            self._killer.strike()


def described(name: str) -> tuple[tw.Dataflow, tw.Stream[Any]]:
    flow = tw.Dataflow(name)
    labels = components(flow.input("edges").as_collection(diff=True)).changes()
    return flow, labels.capture("labels").probe("done")


def run(flow: tw.Dataflow, folder: Path, workers: int) -> tw.types.Job:
    return tw.run(flow, workers=workers, snapshots=tw.Snapshots(folder, every_s=0.1, restarts=6))


def test_a_loop_goes_on_when_a_worker_dies(tmp_path: Path) -> None:
    """Each epoch has the changes of a computation from scratch, once."""
    random = Random(0)
    history = History(random)
    with nothing_left(), run(described("components")[0], tmp_path, workers=2) as job:
        assert feed(job, history.changes, Kills(random, range(5, EPOCHS - 2), 1).at)
        assert by_time(job.captured("labels")) == history.expected


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_each_epoch_of_a_loop_comes_once(tmp_path: Path, seed: int) -> None:
    """Workers are killed in each life of the job, and each life has its number of workers.

    What is captured, and what a subscriber of the topic sees, is by what the labels of an epoch, computed from scratch,
    differ from those of the epoch before.
    """
    random = Random(seed)
    history, lives = History(random), LIVES[seed % len(LIVES)]
    topic = f"recovered-labels-{seed}"
    flow, labels = described(topic)
    labels.publish(topic, log=tw.Log(tmp_path / "log"))
    reader = Reader(topic, "reader")
    ends = [*(EPOCHS * (number + 1) // len(lives) for number in range(len(lives) - 1)), EPOCHS]
    found: dict[Any, Counter[Any]] = {}
    begin = rewound = 0
    for workers, end in zip(lives, ends, strict=True):
        kills = Kills(random, range(begin + 5, end - 2), random.randint(1, 3))
        with nothing_left(), run(flow, tmp_path / "snapshots", workers) as job, reader.subscribe() as subscription:
            rewound += feed(job, history.changes[:end], kills.at)
            reader.read(subscription, EPOCHS if end == EPOCHS else end - 2)
            if end == EPOCHS:
                found = by_time(job.captured("labels"))
            job.stop(snapshot=end < EPOCHS)
        begin = end
    said = f"seed {seed}: {lives} workers"
    assert rewound, said
    assert found == history.expected, said
    assert reader.found == [(epoch, sorted(changes)) for epoch, changes in history.expected.items()], said
    present: Counter[Any] = Counter()
    for changes in found.values():
        for (pair, count), times in changes.items():
            present[pair] += count * times
    assert {pair for pair, count in present.items() if count} == set(history.last.items()), said
