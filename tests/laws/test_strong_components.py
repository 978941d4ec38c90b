"""Strongly connected components against reachability by brute force."""

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.progress.cycles import strong_components

NODES = 8
EDGES = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=20)


def reaching(edges: list[tuple[int, int]]) -> dict[int, set[int]]:
    """Return what each node leads to, itself included."""
    found = {node: {node} for node in range(NODES)}
    for _ in range(NODES):
        for start, end in edges:
            found[start] |= found[end]
    return found


@law_settings(200)
@given(edges=EDGES, order=st.permutations(range(NODES)))
def test_components_are_the_nodes_that_lead_to_each_other(edges: list[tuple[int, int]], order: list[int]) -> None:
    """Two nodes have one number exactly if each leads to the other; numbers are 0 upwards, without a gap."""
    component = strong_components(order, lambda node: [end for start, end in edges if start == node])
    leads = reaching(edges)
    for a in range(NODES):
        for b in range(NODES):
            assert (component[a] == component[b]) == (b in leads[a] and a in leads[b])
    assert set(component) == set(range(NODES))
    assert set(component.values()) == set(range(len(set(component.values()))))


@law_settings(200)
@given(edges=EDGES, order=st.permutations(range(NODES)))
def test_a_component_has_a_smaller_number_than_those_that_lead_to_it(
    edges: list[tuple[int, int]], order: list[int]
) -> None:
    """So that, against the numbers, every edge leads onward or stays."""
    component = strong_components(order, lambda node: [end for start, end in edges if start == node])
    assert all(component[end] <= component[start] for start, end in edges)
