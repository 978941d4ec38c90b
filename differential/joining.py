"""The join of two collections by key, one batch of updates at a time.

A join is linear in each side. So updates of one side, joined with all that the other side has had so far, are exactly
what they add to the result, at the least upper bounds of the times. Each pair of updates meets once: when the later of
the two arrives. That needs no order of arrival, and no frontier but for compaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidewheel.differential.arrangements import Arrangements
from tidewheel.differential.codes import Codes
from tidewheel.differential.records import Array, Column, Integers, as_pairs, gathered
from tidewheel.differential.spine import Spine, ranges
from tidewheel.differential.updates import FlatTime, Updates, consolidate, unique


@dataclass(frozen=True, slots=True)
class Joined:
    """Some pairs of updates: the columns of key, left value and right value, and times and diffs of the products."""

    columns: tuple[Column, Column, Column]
    times: tuple[Integers, ...]
    diffs: Integers


class JoinState(Arrangements):
    """The two arrangements of a join.

    Args:
        depth: the number of coordinates of times.
        operator: the name of the operator, for errors.
    """

    def __init__(self, depth: int, operator: str) -> None:
        super().__init__(depth, operator, [Codes(), Codes()])

    def let_go(self, left: FlatTime | None, right: FlatTime | None) -> None:
        """Note lower bounds of what is to come at both inputs, None for nothing.

        Each side is read by what is still to come on the other.
        """
        self.spines[0].let_go(right)
        self.spines[1].let_go(left)

    def receive(self, side: int, times: Sequence[FlatTime], arrays: Sequence[Array]) -> Joined | None:
        """Add updates of side 0 or 1, each array at its time; return what they add to the result, if anything.

        Raises:
            TypeError: a record is no pair, or cannot be hashed.
        """
        own, other = self.spines[side], self.spines[1 - side]
        columns, diffs = gathered([as_pairs(array, f"operator {self.operator!r}") for array in arrays])
        keys, values = self.encode_keys(columns[:1]), self.encode_values(side, columns[1])
        counts = [len(array) for array in arrays]
        coordinates = tuple(np.repeat(np.array(one, np.int64), counts) for one in zip(*times, strict=True))
        updates = consolidate(Updates(keys, values, coordinates, diffs))
        joined = self._joined(updates, other, side) if len(updates) and len(other) else None
        own.insert(updates)
        self.sweep()
        return joined

    def _joined(self, updates: Updates, other: Spine, side: int) -> Joined | None:
        keys = unique(updates.keys)
        found = other.look_up(keys)
        if not len(found):
            return None
        starts = np.searchsorted(updates.keys, keys)
        counts = np.diff(np.append(starts, len(updates)))
        partners = counts[found.keys]
        mine = ranges(starts[found.keys], partners)
        theirs = np.repeat(np.arange(len(found)), partners)
        times = tuple(
            _upper_bounds(one, mine, two, theirs) for one, two in zip(updates.times, found.times, strict=True)
        )
        values = [updates.values[mine], found.values[theirs]]
        left, right = values if side == 0 else values[::-1]
        columns = (
            self._keys.decode(keys[found.keys[theirs]])[0],
            self._codes[0].decode(left)[0],
            self._codes[1].decode(right)[0],
        )
        return Joined(columns, times, updates.diffs[mine] * found.diffs[theirs])


def _upper_bounds(one: Integers, mine: Integers, two: Integers, theirs: Integers) -> Integers:
    """Return ``np.maximum(one[mine], two[theirs])``, fast where ``one`` is the same everywhere and not before."""
    latest = one[0]
    if two.max() <= latest and one.min() == one.max():
        return np.broadcast_to(latest, len(mine))
    return np.maximum(one[mine], two[theirs])
