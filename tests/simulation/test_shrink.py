"""Shrinking a failing list."""

from collections.abc import Sequence
from random import Random

from tests.kit.simulation.shrink import shrink


def test_no_item_can_be_left_out_of_what_is_returned() -> None:
    """With trials enough, what is left fails and every item of it is needed."""
    random = Random(3)
    for _ in range(50):
        needed = set(random.sample(range(60), random.randint(0, 6)))
        assert shrink(range(60), needed.issubset, 10_000) == sorted(needed)


def test_it_stops_after_so_many_trials() -> None:
    """The effort is bounded, and what is returned always fails."""
    tried: list[Sequence[int]] = []

    def fails(items: Sequence[int]) -> bool:
        tried.append(items)
        return sum(items) > 1000

    left = shrink(range(100), fails, 7)
    assert len(tried) == 7
    assert sum(left) > 1000
