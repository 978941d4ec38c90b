"""Counts of pointstamps, zero counts absent."""

from collections.abc import Iterable
from typing import TypeAlias

from tests.simulation.workers.possible_times import Pointstamp

Counts: TypeAlias = dict[Pointstamp, int]
Changes: TypeAlias = Iterable[tuple[Pointstamp, int]]


def add(counts: Counts, changes: Changes, sign: int = 1) -> None:
    """Add changes to counts, or take them away with ``sign`` -1."""
    for pointstamp, difference in changes:
        total = counts.get(pointstamp, 0) + sign * difference
        if total:
            counts[pointstamp] = total
        else:
            counts.pop(pointstamp, None)


def difference(counts: Counts, other: Counts) -> Counts:
    """Return what has to be added to ``other`` to get ``counts``."""
    found = dict(counts)
    add(found, other.items(), -1)
    return found
