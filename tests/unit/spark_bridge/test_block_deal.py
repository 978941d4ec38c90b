"""Dealing blocks out to workers by where they are, against every other way to do it."""

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.spark_bridge.block_deal import deal

PLACES = ["", "a", "b", "c", "gone"]
NODES = ["", "a", "b", "c"]


def near(hands: Sequence[Sequence[int]], places: Sequence[str], nodes: Sequence[str]) -> int:
    """Return how many blocks are on the nodes of their readers."""
    return sum(
        bool(node) and places[number] == node for node, hand in zip(nodes, hands, strict=True) for number in hand
    )


def by_turn(blocks: int, workers: int) -> list[list[int]]:
    return [list(range(worker, blocks, workers)) for worker in range(workers)]


def is_fair(hands: Sequence[Sequence[int]], *, in_step: bool) -> bool:
    """Whether nobody has two blocks more than another; nor, in step, at any point of the way."""
    sizes = [len(hand) for hand in hands]
    workers = len(hands)
    steps = all(number // workers == turn for hand in hands for turn, number in enumerate(hand))
    return max(sizes) - min(sizes) <= 1 and (steps or not in_step)


def all_deals(blocks: int, workers: int) -> Iterator[list[list[int]]]:
    for readers in product(range(workers), repeat=blocks):
        yield [[number for number, reader in enumerate(readers) if reader == worker] for worker in range(workers)]


@given(
    places=st.lists(st.sampled_from(PLACES), max_size=80),
    nodes=st.lists(st.sampled_from(NODES), min_size=1, max_size=7),
    in_step=st.booleans(),
)
def test_each_block_is_dealt_once_and_evenly(places: list[str], nodes: list[str], in_step: bool) -> None:
    """Every block has one reader, who reads in order and no more than others, and no fewer are near than by turn."""
    hands = deal(places, nodes, in_step=in_step)
    assert sorted(number for hand in hands for number in hand) == list(range(len(places)))
    assert all(hand == sorted(hand) for hand in hands)
    assert is_fair(hands, in_step=in_step)
    assert near(hands, places, nodes) >= near(by_turn(len(places), len(nodes)), places, nodes)
    assert hands == deal(tuple(places), tuple(nodes), in_step=in_step)


@given(
    places=st.lists(st.sampled_from(PLACES[1:]), max_size=6),
    nodes=st.lists(st.sampled_from(NODES[1:]), min_size=1, max_size=3),
    in_step=st.booleans(),
)
def test_no_fair_deal_has_more_near(places: list[str], nodes: list[str], in_step: bool) -> None:
    """Of all ways to deal as evenly, none brings more blocks to a worker of their node."""
    fair = [hands for hands in all_deals(len(places), len(nodes)) if is_fair(hands, in_step=in_step)]
    best = max(near(hands, places, nodes) for hands in fair)
    assert near(deal(places, nodes, in_step=in_step), places, nodes) == best


@given(
    places=st.lists(st.sampled_from(PLACES), max_size=40),
    workers=st.integers(1, 6),
    node=st.sampled_from(NODES),
    in_step=st.booleans(),
)
def test_on_one_node_blocks_are_dealt_by_turn(places: list[str], workers: int, node: str, in_step: bool) -> None:
    """There is nothing to prefer, so who reads what does not depend on where Spark has what, run by run."""
    assert deal(places, [node] * workers, in_step=in_step) == by_turn(len(places), workers)


@given(blocks=st.integers(0, 40), nodes=st.lists(st.sampled_from(NODES), min_size=1, max_size=6), in_step=st.booleans())
@pytest.mark.parametrize("place", ["", "gone"])
def test_of_blocks_that_are_nowhere_near_all_are_dealt_by_turn(
    place: str, blocks: int, nodes: list[str], in_step: bool
) -> None:
    """The same holds if no block is known to be where a worker is."""
    assert deal([place] * blocks, nodes, in_step=in_step) == by_turn(blocks, len(nodes))
