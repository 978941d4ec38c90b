"""Refusal of idle cycles against every simple cycle there is."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, note

from tests.laws.domains import BITEMPORAL, INTEGERS, UNIT
from tests.laws.graphs import GraphLimits, describe_graph
from tests.laws.oracles import is_idle, simple_cycles
from tests.laws.strategies import graphs, law_settings, rings
from tidewheel.progress import CompiledGraph, GraphError, GraphShape, Location, Target
from tidewheel.progress.graph import Source


def idle_cycles_exist(graph: GraphShape) -> bool:
    """Ask each simple cycle."""
    return any(is_idle(graph, cycle) for cycle in simple_cycles(graph))


def shown_path(graph: GraphShape, message: str) -> list[Location]:
    """Read the locations of the cycle in an error's message back; operators are named ``kind-index``."""
    path = message.removeprefix("a cycle does not advance time: ").split(". ")[0]
    locations: list[Location] = []
    for place in path.split(" -> "):
        found = re.fullmatch(r"(input|output) (\d+) of '[a-z]+-(\d+)'", place)
        assert found is not None, message
        side, port, operator = found.groups()
        locations.append((Source if side == "output" else Target)(int(operator), int(port)))
        assert graph.describe(locations[-1]) == place
    return locations


def check_refused_exactly_if_idle(graph: GraphShape) -> None:
    """Compile ``graph`` and compare with what its simple cycles say."""
    note(describe_graph(graph))
    if not idle_cycles_exist(graph):
        CompiledGraph(graph)
        return
    with pytest.raises(GraphError, match="a cycle does not advance time") as refusal:
        CompiledGraph(graph)
    path = shown_path(graph, str(refusal.value))
    assert len(path) > 1
    assert path[0] == path[-1]
    assert len(set(path)) == len(path) - 1
    around = set(pairwise(path))
    assert any(
        is_idle(graph, cycle) and {(step.start, step.end) for step in cycle} == around for cycle in simple_cycles(graph)
    ), "the path shown is no idle cycle"


@law_settings(150)
@given(graph=graphs(GraphLimits(operators=6, depth=2, forgetful=False), idle_cycles=True))
def test_a_graph_is_refused_exactly_if_a_cycle_is_idle(graph: GraphShape) -> None:
    """A graph is refused if and only if a time can come round a cycle unchanged; the error shows such a cycle."""
    check_refused_exactly_if_idle(graph)


@law_settings(250)
@given(graph=rings(GraphLimits(operators=5, forgetful=False)))
def test_a_ring_is_refused_exactly_if_idle(graph: GraphShape) -> None:
    """A cycle through any scopes must advance a coordinate that it keeps all the way round, and that is enough."""
    check_refused_exactly_if_idle(graph)


@law_settings(250)
@given(graph=rings(GraphLimits(operators=3, depth=2, coordinates=(INTEGERS, BITEMPORAL))))
def test_a_forgotten_coordinate_does_not_count_as_advanced(graph: GraphShape) -> None:
    """A cycle that advances a coordinate in one operator and forgets it in another is idle all the same."""
    check_refused_exactly_if_idle(graph)


@law_settings(60)
@given(
    graph=graphs(
        GraphLimits(operators=6, depth=2, coordinates=(INTEGERS, UNIT, BITEMPORAL), forgetful=False), idle_cycles=True
    )
)
def test_scopes_of_other_kinds_of_time(graph: GraphShape) -> None:
    """The same holds where scopes add coordinates of several kinds, the one that never advances among them."""
    check_refused_exactly_if_idle(graph)


@law_settings(60)
@given(graph=graphs())
def test_graphs_made_without_idle_cycles_are_accepted(graph: GraphShape) -> None:
    """The generator of sound graphs and the check agree, on graphs too large for listing their cycles."""
    note(describe_graph(graph))
    CompiledGraph(graph)
