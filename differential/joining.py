"""The join of two collections by key, one batch of updates at a time.

A join is linear in each side. So updates of one side, joined with all that the other side has had so far, are exactly
what they add to the result, at the least upper bounds of the times. Each pair of updates meets once: when the later of
the two arrives. That needs no order of arrival, and no frontier but for compaction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tidewheel.differential.arrangements import Arrangements
from tidewheel.differential.batch import Batch, batch_of
from tidewheel.differential.codes import Codes
from tidewheel.differential.packing import constant, range_of
from tidewheel.differential.records import Array, Column, Integers, as_pairs, gathered
from tidewheel.differential.spine import Spine, ranges
from tidewheel.differential.updates import MOST_KEYS, FlatTime, Updates


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

    def receive(self, side: int, times: Sequence[FlatTime], arrays: Sequence[Array]) -> Iterator[Joined]:
        """Add updates of side 0 or 1, each array at its time; yield what they add to the result, some keys at a time.

        Raises:
            TypeError: a record is no pair, or cannot be hashed.
        """
        own, other = self.spines[side], self.spines[1 - side]
        columns, diffs = gathered([as_pairs(array, f"operator {self.operator!r}") for array in arrays])
        keys, values = self.encode_keys(columns[:1]), self.encode_values(side, columns[1])
        counts = [len(array) for array in arrays]
        coordinates = tuple(_column_of_times(one, counts) for one in zip(*times, strict=True))
        batch = batch_of(Updates(keys, values, coordinates, diffs))
        own.add(batch)
        if batch is not None and len(other):
            keys, starts = batch.index()
            for first in range(0, len(keys), MOST_KEYS):
                joined = self._joined(batch, keys[first : first + MOST_KEYS], starts[first:], other, side)
                if joined is not None:
                    yield joined
        self.sweep()

    def _joined(self, batch: Batch, keys: Integers, starts: Integers, other: Spine, side: int) -> Joined | None:
        """Join some keys of a batch, which begin at these rows, with the other side."""
        found = other.look_up(keys)
        if not len(found):
            return None
        mine = starts[found.keys]
        partners = starts[found.keys + 1] - mine
        if int(partners.max()) > 1:
            mine = ranges(mine, partners)
            found = found.take(np.repeat(np.arange(len(found)), partners))
        updates = batch.take(keys[found.keys], mine)
        values = [updates.values, found.values]
        left, right = values if side == 0 else values[::-1]
        columns = (
            self._keys.decode(updates.keys)[0],
            self._codes[0].decode(left)[0],
            self._codes[1].decode(right)[0],
        )
        times = tuple(map(_upper_bounds, updates.times, found.times))
        return Joined(columns, times, updates.diffs * found.diffs)


def _column_of_times(coordinates: Sequence[int], counts: Sequence[int]) -> Integers:
    """Return each coordinate as often as a count says."""
    if len(set(coordinates)) == 1:
        return constant(coordinates[0], sum(counts))
    return np.repeat(np.array(coordinates, np.int64), counts)


def _upper_bounds(one: Integers, two: Integers) -> Integers:
    """Return ``np.maximum(one, two)``, fast where it is the same everywhere."""
    least, latest = range_of(one)
    return one if least == latest and range_of(two)[1] <= latest else np.maximum(one, two)
