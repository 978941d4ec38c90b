"""Arrangements: updates indexed by key, in sorted batches that never change and are merged geometrically.

A `Spine` holds a list of batches, each at least twice as large as the next. So an update is merged a logarithmic number
of times, and a look-up visits a logarithmic number of batches.

Readers promise that they will ask only for times at or after some element of a frontier. ``since`` is the greatest
lower bound of its elements. A merge replaces each time by its least upper bound with ``since``. That is at or before
the same later times as the time is, and has the same least upper bounds with them. So what readers see stays the same,
and updates whose times become equal are added up.

The source takes, over the elements ``f``, the greatest lower bound of the least upper bounds of the time and ``f``. It
is the same here, as coordinates are in a total order and the two operations distribute.

Source: McSherry, Lattuada, Schwarzkopf and Roscoe, "Shared arrangements" (VLDB 2020), section 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Literal

import numpy as np

from tidewheel.differential.codes import Translate
from tidewheel.differential.records import Integers
from tidewheel.differential.updates import FlatTime, Updates, concatenate, consolidate


def advance(times: Sequence[Integers], since: FlatTime) -> tuple[Integers, ...]:
    """Return the least upper bounds of times and ``since``.

    >>> [column.tolist() for column in advance([np.array([0, 0, 2]), np.array([1, 7, 0])], (1, 0))]
    [[1, 1, 2], [1, 7, 0]]
    """
    return tuple(
        np.maximum(column, coordinate) if coordinate else column
        for column, coordinate in zip(times, since, strict=True)
    )


def at_or_before(times: Sequence[Integers], time: FlatTime) -> "np.typing.NDArray[np.bool_]":
    """Tell for each of some times whether it is at or before ``time``."""
    found = times[0] <= time[0]
    for times_at, coordinate in zip(times[1:], time[1:], strict=True):
        found &= times_at <= coordinate
    return found


_SMALL = 2048
"""The size up to which a batch is merged with any smaller one, as that costs less than to look into both."""

MASK_BITS = 63
"""The most times for which a batch has a mask of bits for each key."""


class Batch:
    """Sorted updates that never change, with the places where each key begins."""

    __slots__ = ("_masks", "keys", "starts", "updates")

    def __init__(self, updates: Updates) -> None:
        self.updates = updates
        keys = updates.keys
        is_first = np.ones(len(keys), bool)
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        firsts = np.flatnonzero(is_first)
        self.keys = keys[firsts]
        self.starts = np.append(firsts, len(keys))
        self._masks: tuple[tuple[list[FlatTime], Integers] | None] | None = None

    def __len__(self) -> int:
        return len(self.updates)

    def place(self, keys: Integers) -> "Placed":
        """Return which of some keys are here; they are distinct and in order."""
        if len(keys) == len(self.keys) and bool((keys == self.keys).all()):
            found = places = np.arange(len(keys))
        else:
            places = self.keys.searchsorted(keys)
            places[places == len(self.keys)] = 0
            found = (self.keys[places] == keys).nonzero()[0]
            places = places[found]
        starts = self.starts[places]
        return Placed(self, found, places, starts, self.starts[places + 1] - starts)

    def time_masks(self) -> tuple[list[FlatTime], Integers] | None:
        """Return times, and for each key the set of these that its updates have, as bits; None if there are too many.

        The first call takes time linear in the batch.
        """
        if self._masks is None:
            self._masks = (self._made_masks(),)
        return self._masks[0]

    def _made_masks(self) -> tuple[list[FlatTime], Integers] | None:
        times = self.updates.times
        least = [int(column.min()) for column in times]
        sizes = [int(column.max()) - start + 1 for column, start in zip(times, least, strict=True)]
        if prod(sizes) > MASK_BITS:
            return None
        numbers = np.zeros(len(self), np.int64)
        for column, start, size in zip(times, least, sizes, strict=True):
            numbers *= size
            numbers += column - start
        spans = [range(start, start + size) for start, size in zip(least, sizes, strict=True)]
        return list(product(*spans)), np.bitwise_or.reduceat(np.int64(1) << numbers, self.starts[:-1])


@dataclass(frozen=True, slots=True)
class Placed:
    """The keys of a batch that a reader has asked for.

    Attributes:
        batch: the batch.
        found: the places of these keys among all that the reader has asked for.
        places: their places in the batch.
        starts: the first row of each.
        counts: the number of its rows.
    """

    batch: Batch
    found: Integers
    places: Integers
    starts: Integers
    counts: Integers


def ranges(starts: Integers, counts: Integers) -> Integers:
    """Return the whole numbers of several ranges, one behind the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - ends + counts, counts) + np.arange(total)


class Spine:
    """The updates of one collection by key; see the module.

    Args:
        depth: the number of coordinates of its times.

    Attributes:
        batches: the batches, the largest first.
        since: readers ask for times at or after it. None if there are no readers any more.
    """

    __slots__ = ("batches", "depth", "since")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.batches: list[Batch] = []
        self.since: FlatTime | None = (0,) * depth

    def __len__(self) -> int:
        """Return how many updates it has."""
        return sum(map(len, self.batches))

    def insert(self, updates: Updates) -> None:
        """Add updates, which must be consolidated."""
        if not len(updates) or self.since is None:
            return
        self.batches.append(Batch(updates))
        while len(self.batches) > 1 and len(self.batches[-2]) < max(2 * len(self.batches[-1]), _SMALL):
            one, other = self.batches[-2:]
            merged = self._merged([one.updates, other.updates])
            self.batches[-2:] = [Batch(merged)] if len(merged) else []

    def let_go(self, since: FlatTime | None) -> None:
        """Note that readers will only ask for times at or after ``since``; for none at all if that is None."""
        self.since = since
        if since is None:
            self.batches = []

    def look_up(self, keys: Integers) -> Updates:
        """Return the updates of ``keys``, which are distinct and in order; as keys they have their places there.

        They are not consolidated, and their times are advanced to ``since``. A look-up takes time linear in what it
        returns, beside a binary search for each key in each batch.
        """
        parts = []
        since = self.since or (0,) * self.depth
        for placed in self.place(keys):
            found, rows = placed.batch.updates, ranges(placed.starts, placed.counts)
            taken = found if len(rows) == len(found) else found.take(rows)
            places = np.repeat(placed.found, placed.counts)
            parts.append(Updates(places, taken.values, advance(taken.times, since), taken.diffs))
        return concatenate(parts, self.depth)

    def place(self, keys: Integers) -> list[Placed]:
        """Return where ``keys``, which are distinct and in order, are in the batches that have some of them."""
        return [placed for placed in (batch.place(keys) for batch in self.batches) if len(placed.found)]

    def translate(self, *, keys: Translate | None = None, values: Translate | None = None) -> None:
        """Replace the codes of all keys or values by what a function returns for them."""
        for number, batch in enumerate(self.batches):
            old = batch.updates
            new_keys = keys(old.keys) if keys is not None else old.keys
            new_values = values(old.values) if values is not None else old.values
            self.batches[number] = Batch(consolidate(Updates(new_keys, new_values, old.times, old.diffs)))

    def column(self, column: Literal["keys", "values"]) -> Integers:
        """Return all keys, or all values, in no order."""
        return np.concatenate([np.empty(0, np.int64), *(getattr(batch.updates, column) for batch in self.batches)])

    def _merged(self, parts: Sequence[Updates]) -> Updates:
        joined = concatenate(parts, self.depth)
        times = advance(joined.times, self.since or (0,) * self.depth)
        return consolidate(Updates(joined.keys, joined.values, times, joined.diffs))
