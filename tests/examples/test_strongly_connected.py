"""The strongly connected components of the example, and the labels that it spreads, against scipy's."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

import tidewheel as tw
from examples.loops import strongly_connected
from examples.parts.least_labels import least_labels
from tests.examples.dependency_graph import DependencyGraph
from tests.examples.running import captured, columns, epochs

_graphs = st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25), min_size=1, max_size=3)


def table(edges: list[tuple[int, int]]) -> pa.Table:
    """Return edges as a table."""
    ends = np.array(edges, np.int64).reshape(-1, 2)
    return pa.table({"source": ends[:, 0], "target": ends[:, 1]})


def expected(edges: pa.Table, connection: str) -> dict[int, int]:
    """Return the least node in the component of each node that has an edge."""
    source, target = edges["source"].to_numpy(), edges["target"].to_numpy()
    nodes = np.union1d(source, target).tolist()
    size = max(nodes, default=0) + 1
    matrix = csr_matrix((np.ones(len(source)), (source, target)), shape=(size, size))
    _, labels = connected_components(matrix, connection=connection, directed=connection == "strong")
    return {node: int(np.flatnonzero(labels == labels[node])[0]) for node in nodes}


def check(edges: list[pa.Table], workers: int, engine: Any = "local") -> None:
    """Compare the components of each epoch, which comes once for each node."""
    found = captured(lambda flow: strongly_connected.components(flow.source("edges", epochs(edges))), workers, engine)
    for epoch, part in enumerate(edges):
        answers = columns(found.get(epoch, []), "node", "component")
        assert sorted(answers) == sorted(expected(part, "strong").items()), f"epoch {epoch}"


@pytest.mark.parametrize("workers", [1, 2])
@settings(max_examples=40)
@given(graphs=_graphs)
def test_components_of_any_graphs(workers: int, graphs: list[list[tuple[int, int]]]) -> None:
    """Each epoch is a graph of its own, whatever else is under way."""
    check([table(edges) for edges in graphs], workers)


@pytest.mark.parametrize("workers", [1, 2])
def test_components_within_components(workers: int) -> None:
    """A graph that takes many rounds of the outer loop: circles, each reached only from ones with greater numbers."""
    circles = [[(3 * n, 3 * n + 1), (3 * n + 1, 3 * n + 2), (3 * n + 2, 3 * n)] for n in range(20)]
    links = [(3 * n + 3, 3 * n + 2) for n in range(19)]
    check([table([edge for circle in circles for edge in circle] + links)], workers)


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_components_on_ray() -> None:
    """Nested loops on two Ray actors, over the graph that the program shows."""
    graph = DependencyGraph.load(epochs=8)
    mask = graph.epoch == 0
    check([pa.table({"source": graph.source[mask], "target": graph.target[mask]})], 2, "ray")


@pytest.mark.parametrize("workers", [1, 2])
@given(graphs=_graphs)
def test_labels_along_arcs_in_both_directions_are_components(workers: int, graphs: list[list[tuple[int, int]]]) -> None:
    """The labels that are least are those of connected components, for each epoch by itself."""

    def labels(flow: tw.Dataflow) -> tw.Stream[Any]:
        arcs = [table(edges + [edge[::-1] for edge in edges]).rename_columns(["node", "to"]) for edges in graphs]
        return least_labels(flow.source("arcs", epochs(arcs)), flow.scope("labels"))

    found = captured(labels, workers)
    for epoch, edges in enumerate(graphs):
        answers = columns(found.get(epoch, []), "node", "label")
        assert sorted(answers) == sorted(expected(table(edges), "weak").items()), f"epoch {epoch}"
