"""Strongly connected components of graphs at the edge: empty, without nodes, long, and dense."""

from tidewheel.progress.strong_components import strong_components


def test_no_nodes() -> None:
    """An empty graph has no component."""
    assert strong_components([], lambda node: []) == {}


def test_a_node_that_leads_to_itself() -> None:
    """It is a component like any other single node."""
    assert strong_components([1, 2], {1: [1, 1], 2: []}.__getitem__) == {1: 0, 2: 1}


def test_nodes_that_are_only_reached() -> None:
    """What can be reached is numbered, though it was not named."""
    assert strong_components(["a"], {"a": ["b"], "b": []}.__getitem__) == {"b": 0, "a": 1}


def test_a_long_chain_and_a_long_ring() -> None:
    """A hundred thousand nodes in a row do not go as deep as Python can call."""
    number = 100_000
    chain = strong_components(range(number), lambda node: [node + 1] if node + 1 < number else [])
    assert [chain[0], chain[number - 1]] == [number - 1, 0]
    ring = strong_components(range(number), lambda node: [(node + 1) % number])
    assert set(ring.values()) == {0}


def test_successors_are_asked_for_once() -> None:
    """Linear in nodes and edges: in a dense graph as well."""
    asked: list[int] = []

    def successors(node: int) -> range:
        asked.append(node)
        return range(200)

    assert set(strong_components(range(200), successors).values()) == {0}
    assert sorted(asked) == list(range(200))
