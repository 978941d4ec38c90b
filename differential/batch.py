"""Sorted updates that never change, packed into words where these have room, and the merge of two."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tidewheel.differential.packing import Packing, starts_of, sum_words
from tidewheel.differential.records import Integers
from tidewheel.differential.updates import FlatTime, Updates, concatenate, consolidate

MASK_BITS = 63
"""The most times for which a batch has a mask of bits for each key."""

_VALUE, _TIMES = 1, 2
"""The numbers of columns: the key is 0, the first coordinate of the time 2, and the diff behind the last."""


class Batch:
    """Sorted updates that never change, with the places where each key begins; not empty.

    Args:
        columns: keys, values, the coordinates of times, and diffs, if they are not packed.
        words: the updates, if they are packed.
        packing: that of the words.
    """

    __slots__ = ("__weakref__", "_columns", "_masks", "_packing", "_words", "keys", "starts")

    def __init__(
        self, columns: Sequence[Integers] = (), words: Integers | None = None, packing: Packing | None = None
    ) -> None:
        self._columns = columns
        self._words = words
        self._packing = packing
        self._masks: tuple[tuple[list[FlatTime], Integers] | None] | None = None
        keys = self.column(0)
        firsts = starts_of(keys)
        self.keys = keys[firsts]
        self.starts = np.append(firsts, len(keys))

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self._columns, self._words, self._packing)

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def values(self) -> Integers:
        """All values."""
        return self.column(_VALUE)

    @property
    def updates(self) -> Updates:
        """All updates."""
        return self.take(self.column(0), None)

    def column(self, number: int, rows: Integers | None = None) -> Integers:
        """Return a column of all rows, or of some."""
        if self._words is None or self._packing is None:
            return self._columns[number] if rows is None else self._columns[number][rows]
        return self._packing.column(self._words if rows is None else self._words[rows], number)

    def values_at(self, rows: Integers) -> Integers:
        """Return the values of some rows."""
        return self.column(_VALUE, rows)

    def take(self, keys: Integers, rows: Integers | None) -> Updates:
        """Return all updates or those of some rows, with other keys."""
        if self._words is None or self._packing is None:
            _, values, *times, diffs = self._columns if rows is None else [one[rows] for one in self._columns]
            return Updates(keys, values, tuple(times), diffs)
        words, packing = self._words if rows is None else self._words[rows], self._packing
        values, *times, diffs = (packing.column(words, number) for number in range(1, len(packing.widths)))
        return Updates(keys, values, tuple(times), diffs)

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
        times = self.take(self.keys, None).times
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

    def _ranges(self, since: FlatTime) -> list[tuple[int, int]] | None:
        """Return the range of each column with the times advanced to ``since``; None if the updates are not packed."""
        if self._packing is None:
            return None
        found = self._packing.ranges
        for number, one in enumerate(since, _TIMES):
            found[number] = max(found[number][0], one), max(found[number][1], one)
        return found

    def _repacked(self, packing: Packing, since: FlatTime) -> Integers:
        """Return the words in another packing, with the times advanced to ``since``."""
        own = self._packing
        assert own is not None, "the updates are packed"
        assert self._words is not None, "the updates are packed"
        if own.is_like(packing) and all(own.least[number] >= one for number, one in enumerate(since, _TIMES)):
            return self._words
        return packing.words(self._advanced(number, since) for number in range(len(packing.widths)))

    def _advanced(self, number: int, since: FlatTime) -> Integers:
        column = self.column(number)
        if _TIMES <= number < _TIMES + len(since):
            np.maximum(column, since[number - _TIMES], out=column)
        return column


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


def batch_of(updates: Updates) -> Batch:
    """Return a batch of consolidated updates, at least one."""
    columns = (updates.keys, updates.values, *updates.times, updates.diffs)
    packing = Packing.of(columns)
    return Batch(columns) if packing is None else Batch(words=packing.words(columns), packing=packing)


def merged(one: Batch, other: Batch, since: FlatTime) -> Batch | None:
    """Return the sum of two batches with the times advanced to ``since``; None if nothing is left."""
    mine, theirs = one._ranges(since), other._ranges(since)
    packing = None
    if mine is not None and theirs is not None:
        both = zip(mine, theirs, strict=True)
        packing = Packing.of_ranges([(min(a[0], b[0]), max(a[1], b[1])) for a, b in both])
    if packing is None:
        updates = concatenate([one.updates, other.updates], len(since))
        times = tuple(np.maximum(column, at) for column, at in zip(updates.times, since, strict=True))
        left = consolidate(Updates(updates.keys, updates.values, times, updates.diffs))
        return batch_of(left) if len(left) else None
    words = np.concatenate([one._repacked(packing, since), other._repacked(packing, since)])
    words.sort(kind="stable")
    words, sums = sum_words(words, packing)
    return _with_diffs(words, sums, packing) if len(words) else None


def _with_diffs(words: Integers, sums: Integers, packing: Packing) -> Batch:
    """Return a batch of words with other diffs, for which the packing may have no room."""
    ranges = [*packing.ranges[:-1], (int(sums.min()), int(sums.max()))]
    wider = Packing.of_ranges(ranges)
    if wider is None:
        return Batch([*(packing.column(words, number) for number in range(len(ranges) - 1)), sums])
    words = words >> packing.widths[-1]
    words <<= wider.widths[-1]
    words |= sums - wider.least[-1]
    return Batch(words=words, packing=wider)
