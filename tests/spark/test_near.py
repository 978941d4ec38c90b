"""Workers on the nodes of Spark's executors: they read what is there."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ray.test_nodes import NO_TOKEN, cluster
from tests.spark.near_program import BLOCKS, drive
from tidewheel.spark_bridge.java import find_java, java_environment

pytestmark = [pytest.mark.spark, pytest.mark.long]

EVERY_SECOND = [list(range(0, BLOCKS, 2)), list(range(1, BLOCKS, 2))]


@pytest.fixture(scope="module")
def seen() -> Iterator[dict[str, Any]]:
    """What a program sees of two nodes, with an executor and a worker on each."""
    with java_environment(find_java()), cluster([{}, {}], NO_TOKEN) as nodes, nodes.child(drive) as program:
        assert program.hear() == "started"
        yield dict(program.hear() for _ in range(4))


def near(read: list[tuple[str, list[int]]], places: list[str]) -> int:
    return sum(places[block] == node for node, blocks in read for block in blocks)


@pytest.mark.parametrize("name", ["at once", "in epochs", "stored"])
def test_workers_read_what_is_on_their_nodes(seen: dict[str, Any], name: str) -> None:
    """As many blocks as can be, if each worker reads half: of all of them, or with epochs of each two in a row."""
    places, known, read = (seen[name][key] for key in ("places", "known", "read"))
    assert known == places
    assert len(set(places)) == 2
    assert {node for node, _ in read} == set(places)
    assert sorted(block for _, blocks in read for block in blocks) == list(range(BLOCKS))
    assert [len(blocks) for _, blocks in read] == [BLOCKS // 2] * 2
    window = 2 if name == "in epochs" else BLOCKS
    windows = [Counter(places[start : start + window]) for start in range(0, BLOCKS, window)]
    assert near(read, places) == sum(min(count, window // 2) for counts in windows for count in counts.values())


def test_with_snapshots_blocks_are_read_by_turn(seen: dict[str, Any]) -> None:
    """Another run may find the blocks elsewhere, and each of its workers goes on with the same ones."""
    assert [blocks for _, blocks in seen["in snapshots"]["read"]] == EVERY_SECOND
