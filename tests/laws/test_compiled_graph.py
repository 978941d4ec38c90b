"""Compiled graphs against every walk there is."""

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.laws.domains import BITEMPORAL, FEW_INTEGERS, INTEGERS, VECTOR_CLOCK, probing_times
from tests.laws.graphs import GraphLimits, describe_graph
from tests.laws.oracles import arrivals_by, minimal_arrivals, minimal_times, possible_frontiers
from tests.laws.strategies import graphs, law_settings, nested_graphs
from tidewheel.progress import CompiledGraph, GraphShape, Nesting

SMALL = {
    "integers": GraphLimits(operators=7, depth=2),
    "bitemporal": GraphLimits(operators=5, depth=1, root=Nesting((BITEMPORAL,))),
    "vector clock": GraphLimits(5, depth=1, root=Nesting((VECTOR_CLOCK,)), coordinates=(INTEGERS, BITEMPORAL)),
}


@pytest.mark.parametrize("limits", SMALL.values(), ids=SMALL.keys())
@law_settings(80)
@given(data=st.data())
def test_summaries_are_those_of_the_minimal_walks(limits: GraphLimits, data: st.DataObject) -> None:
    """Between two locations a compiled graph has the summary of each minimal walk, and no other."""
    graph = data.draw(graphs(limits))
    note(describe_graph(graph))
    compiled = CompiledGraph(graph)
    start = data.draw(st.sampled_from(compiled.locations))
    probes = probing_times(graph.nesting(start))
    for end, expected in minimal_arrivals(graph, start).items():
        summaries = compiled.reaching(end).get(start, ())
        assert {arrivals_by(path, probes) for path in summaries} == expected
        assert len(summaries) == len(expected)
        assert all(path.source == graph.nesting(start) and path.target == graph.nesting(end) for path in summaries)
        assert (start in compiled.reaching(end)) == bool(expected)


@law_settings(80)
@given(data=st.data())
def test_summaries_are_never_late_where_coordinates_have_a_greatest_time(data: st.DataObject) -> None:
    """With bounded rounds, summaries let through every time that a walk does, and at no later time."""
    few = (FEW_INTEGERS,)
    graph = data.draw(graphs(GraphLimits(operators=7, depth=2, root=Nesting(few), coordinates=few)))
    note(describe_graph(graph))
    compiled = CompiledGraph(graph)
    start = data.draw(st.sampled_from(compiled.locations))
    for time in (graph.nesting(start).domain.minimum(), *probing_times(graph.nesting(start))):
        for end, walked in possible_frontiers(graph, [(start, time)]).items():
            domain = graph.nesting(end).domain
            arrivals = [path.results_in(time) for path in compiled.reaching(end).get(start, ())]
            found = minimal_times(domain, (arrival for arrival in arrivals if arrival is not None))
            assert all(any(domain.less_equal(early, late) for early in found) for late in walked)


@law_settings(20)
@given(graph=graphs())
def test_locations_are_numbered_the_same_in_every_worker(graph: GraphShape) -> None:
    """Two workers that compile equal graphs number their locations alike, each location once."""
    compiled = CompiledGraph(graph)
    again = CompiledGraph(
        GraphShape(tuple(graph.operators), tuple(graph.edges), frozenset(list(graph.apart)[::-1]), graph.workers)
    )
    assert compiled.locations == again.locations == tuple(graph.locations())
    assert [compiled.index[location] for location in compiled.locations] == list(range(len(compiled.locations)))


@law_settings(80)
@given(data=st.data())
def test_searching_forward_finds_what_searching_back_finds(data: st.DataObject) -> None:
    """Between two locations, through those that may be passed: the same minimal summaries from either end."""
    graph = data.draw(st.one_of(graphs(SMALL["integers"]), graphs(SMALL["vector clock"]), nested_graphs()))
    note(describe_graph(graph))
    compiled = CompiledGraph(graph)
    numbers = range(len(compiled.locations))
    allowed = data.draw(st.one_of(st.just(set(numbers)), st.sets(st.sampled_from(numbers))))
    start = data.draw(st.sampled_from(numbers))
    forward = compiled.search_forward(start, allowed.__contains__)
    for end in numbers:
        back = compiled.search_back(end, allowed.__contains__)
        assert set(forward.get(end, ())) == set(back.get(start, ()))
        assert len(forward.get(end, ())) == len(back.get(start, ()))
    if allowed == set(numbers):
        assert {compiled.locations[end]: set(paths) for end, paths in forward.items()} == {
            end: set(paths)
            for end in compiled.locations
            if (paths := compiled.reaching(end).get(compiled.locations[start], ()))
        }
