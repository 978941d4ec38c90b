"""The example's components and hop counts against scipy's, for every prefix of the epochs."""

from typing import Any

import pytest

import tidewheel as tw
from examples.parts import connectivity
from tests.examples.dependency_graph import Answers, DependencyGraph

EPOCHS = 8
START = "gnome"


@pytest.fixture(scope="module")
def graph() -> DependencyGraph:
    """Return the committed graph."""
    return DependencyGraph.load(EPOCHS)


def run_example(graph: DependencyGraph, workers: int, engine: Any) -> None:
    """Run the example and compare what it says after each epoch with scipy."""
    start = graph.names.index(START)
    flow = tw.Dataflow("components")
    connectivity.changes(flow.source("edges", tw.IterableSource(graph.batches(4))), start).capture("changes")
    with tw.run(flow, workers=workers, engine=engine) as job:
        job.wait(timeout_s=120)
        captured = job.captured("changes")
    answers: Answers = {}
    for epoch in range(EPOCHS):
        for table in (entry.batch for entry in captured if entry.time == epoch):
            columns = (table[name].to_pylist() for name in ("node", "component", "hops"))
            answers |= {node: (component, hops) for node, component, hops in zip(*columns, strict=True)}
        assert answers == graph.expected(start, epoch), f"after epoch {epoch}, {workers} workers, {engine}"


@pytest.mark.parametrize("workers", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_equals_scipy_on_the_local_engine(graph: DependencyGraph, workers: int) -> None:
    """Components and hop counts equal scipy's for each epoch's prefix of the edges, whatever the number of workers."""
    run_example(graph, workers, "local")


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_equals_scipy_on_ray(graph: DependencyGraph) -> None:
    """The same on Ray actors."""
    run_example(graph, 2, "ray")
