"""Immutable batches of sorted updates, packed into words if possible, and the merge of batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tidewheel.differential.packing import (
    Packing,
    are_distinct,
    constant,
    counted_words,
    first_places,
    range_of,
    replace_last,
    sort_words,
    starts_of,
    sum_words,
    taken,
)
from tidewheel.differential.records import Integers
from tidewheel.differential.updates import FlatTime, Updates, concatenate, consolidate

MASK_BITS = 63
"""The largest number of times for which a batch has a bit mask for each key."""

MOST_INDEXED = 1 << 18
"""A batch of up to this many rows always keeps its index, which may take twice the memory of the rows."""

_FEW_ROWS = 8
"""If keys have more rows than this on average, an index takes a fraction of the memory of the rows."""

_MANY_ROWS = 4
"""A batch with this many rows for each number from its least to its greatest key keeps a table of keys' first rows."""

_MANY_KEYS = 500
_MOST_PLACES = 16
"""With more rows, or places in a table, than this for each wanted key, a binary search is faster."""

_VALUE, _TIMES = 1, 2
"""The numbers of two columns: the value, and the first coordinate of the time. Column 0 is the key, the last the
diff."""


class Batch:
    """One or more sorted updates that never change.

    Args:
        columns: keys, values, the coordinates of times, and diffs, unless they are packed in ``words``.
        is_part: whether it is one of many batches in a run.
    """

    __slots__ = (
        "__weakref__",
        "_columns",
        "_firsts",
        "_index",
        "_is_part",
        "_keeps_index",
        "_masks",
        "_packing",
        "_words",
    )

    def __init__(
        self,
        columns: Sequence[Integers] = (),
        words: Integers | None = None,
        packing: Packing | None = None,
        is_part: bool = False,
    ) -> None:
        self._columns = columns
        self._words = words
        self._packing = packing
        self._is_part = is_part
        self._masks: tuple[tuple[list[FlatTime], Integers] | None] | None = None
        self._index: tuple[Integers, Integers] | None = None
        self._firsts: Integers | None = None
        self._keeps_index = True if words is None or (len(words) <= MOST_INDEXED and not is_part) else None

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self._columns, self._words, self._packing, self._is_part)

    def __len__(self) -> int:
        return len(self._columns[0] if self._words is None else self._words)

    @property
    def _is_indexed(self) -> bool:
        if self._keeps_index is None:
            assert self._words is not None, "the updates are packed"
            assert self._packing is not None, "the updates are packed"
            self._keeps_index = _has_few_keys(self._words, self._packing)
        return self._keeps_index

    @property
    def keys(self) -> Integers:
        return self.index()[0]

    def index(self) -> tuple[Integers, Integers]:
        """Return the distinct keys, and the first row of each, followed by the batch's number of rows.

        The first call is linear in the batch; so are all calls for a very large batch with many keys.
        """
        if self._index is not None:
            return self._index
        keys = self.column(0)
        firsts = starts_of(keys)
        index = keys[firsts], np.concatenate([firsts, [len(keys)]])
        if self._is_indexed:
            self._index = index
        return index

    @property
    def updates(self) -> Updates:
        return self.take(self.column(0), None)

    def column(self, number: int, rows: Integers | None = None) -> Integers:
        if self._words is None or self._packing is None:
            return self._columns[number] if rows is None else taken(self._columns[number], rows)
        return self._packing.column(self._words if rows is None else self._words.take(rows), number)

    def values(self, rows: Integers | None = None) -> Integers:
        return self.column(_VALUE, rows)

    def take(self, keys: Integers, rows: Integers | None) -> Updates:
        """Return all updates, or those in ``rows``, with ``keys`` in place of their keys."""
        if self._words is None or self._packing is None:
            _, values, *times, diffs = self._columns if rows is None else [taken(one, rows) for one in self._columns]
            return Updates(keys, values, tuple(times), diffs)
        words, packing = self._words if rows is None else self._words.take(rows), self._packing
        values, *times, diffs = (packing.column(words, number) for number in range(1, len(packing.widths)))
        return Updates(keys, values, tuple(times), diffs)

    def only_adds(self, time: FlatTime) -> bool:
        """Tell whether all diffs are known to be positive, and all times at or before ``time``."""
        if self._packing is None:
            return False
        *_, latest = zip(*self._packing.ranges[_TIMES:-1], strict=True)
        return self._packing.least[-1] > 0 and all(a <= b for a, b in zip(latest, time, strict=True))

    def part(self, first: int, last: int) -> "Batch":
        """Return the batch of the rows from ``first`` to ``last``; it shares their memory."""
        words = None if self._words is None else self._words[first:last]
        return Batch([column[first:last] for column in self._columns], words, self._packing, is_part=True)

    def key_at(self, row: int) -> int:
        return int(self.column(0, np.array([row]))[0])

    def rows_before(self, key: int) -> int:
        if self._words is None or self._packing is None:
            return int(self._columns[0].searchsorted(key))
        (least, most), shift = self._packing.ranges[0], self._packing.shifts[0]
        if key > most:
            return len(self)
        return int(self._words.searchsorted(max(key - least, 0) << shift))

    def place(self, keys: Integers, offset: int = 0) -> "Placed | None":
        """Find the rows of ``keys``, which are distinct and in order; return None if the batch has none of them.

        ``offset`` is the number of keys that the reader has before these.
        """
        if len(self) > _MOST_PLACES * len(keys) and not self._is_indexed:
            return self._searched(keys, offset)
        all_keys, all_starts = self.index()
        if len(keys) == len(all_keys) and bool((keys == all_keys).all()):
            found = places = np.arange(len(keys))
        else:
            places = _places(all_keys, keys)
            found = (all_keys.take(places) == keys).nonzero()[0]
            if not len(found):
                return None
            places = places.take(found)
        starts = all_starts.take(places)
        if offset:
            found = found + offset
        return Placed(self, found, places, starts, all_starts.take(places + 1) - starts)

    def _searched(self, keys: Integers, offset: int) -> "Placed | None":
        assert self._words is not None, "the updates are packed"
        assert self._packing is not None, "the updates are packed"
        least, most, shift = self._packing.least[0], self._packing.greatest[0], self._packing.shifts[0]
        first = int(keys.searchsorted(least))
        numbers = keys[first : int(keys.searchsorted(most, side="right"))] - least
        if not self._is_part and _MANY_ROWS * (most - least) < len(self._words):
            if self._firsts is None:
                self._firsts = first_places(self._words, shift, most - least + 1)
            starts = self._firsts[numbers]
            counts = self._firsts[numbers + 1] - starts
        else:
            begins = numbers << shift
            starts = self._words.searchsorted(begins)
            counts = self._words.searchsorted(begins | (1 << shift) - 1, side="right") - starts
        found = counts.nonzero()[0]
        return Placed(self, found + first + offset, None, starts[found], counts[found]) if len(found) else None

    def time_masks(self) -> tuple[list[FlatTime], Integers] | None:
        """Return times, and for each key a bit mask of the times of its updates; None if there are too many times.

        The first call is linear in the batch.
        """
        if self._masks is None:
            self._masks = (self._made_masks(),)
        return self._masks[0]

    def _made_masks(self) -> tuple[list[FlatTime], Integers] | None:
        keys, starts = self.index()
        times = self.take(keys, None).times
        least = [int(column.min()) for column in times]
        sizes = [int(column.max()) - start + 1 for column, start in zip(times, least, strict=True)]
        if prod(sizes) > MASK_BITS:
            return None
        if prod(sizes) == 1:
            return [tuple(least)], constant(1, len(keys))
        numbers = np.zeros(len(self), np.int64)
        for column, start, size in zip(times, least, sizes, strict=True):
            numbers *= size
            numbers += column - start
        spans = [range(start, start + size) for start, size in zip(least, sizes, strict=True)]
        return list(product(*spans)), np.bitwise_or.reduceat(np.int64(1) << numbers, starts[:-1])

    def _repacked(self, packing: Packing, since: FlatTime) -> Integers:
        own = self._packing
        assert own is not None, "the updates are packed"
        assert self._words is not None, "the updates are packed"
        if own.is_like(packing) and all(own.least[number] >= one for number, one in enumerate(since, _TIMES)):
            return self._words
        return packing.words(self._advanced(number, since) for number in range(len(packing.widths)))

    def _advanced(self, number: int, since: FlatTime) -> Integers:
        column = self.column(number)
        return advanced(column, since[number - _TIMES]) if _TIMES <= number < _TIMES + len(since) else column


@dataclass(frozen=True, slots=True)
class Placed:
    """The keys of a batch that a reader has asked for, and the places of their rows.

    Attributes:
        places: their indexes among the batch's keys; None if the batch has no index.
        starts: the first row of each key; ``counts`` has the number of its rows.
    """

    batch: Batch
    found: Integers
    places: Integers | None
    starts: Integers
    counts: Integers


def _has_few_keys(words: Integers, packing: Packing) -> bool:
    step, shift = -(-len(words) // 1000), packing.shifts[0]
    is_same = words[:-_FEW_ROWS:step] >> shift == words[_FEW_ROWS::step] >> shift
    return bool(2 * np.count_nonzero(is_same) > len(is_same))


def _places(all_keys: Integers, keys: Integers) -> Integers:
    least = all_keys[0]
    span = int(all_keys[-1]) - int(least) + 1
    if len(keys) < _MANY_KEYS or span > _MOST_PLACES * len(keys):
        places = all_keys.searchsorted(keys)
        places[places == len(all_keys)] = 0
        return places
    table = np.zeros(span, np.int64)  # writing the table takes less time than a search for as many keys
    table[all_keys - least] = np.arange(len(all_keys))
    found: Integers = table.take(keys - least, mode="clip")
    return found


def batch_of(updates: Updates) -> Batch | None:
    if not len(updates):
        return None
    columns = (updates.keys, updates.values, *updates.times, updates.diffs)
    packing = Packing.of(columns)
    if packing is not None:
        return _summed(packing.words(columns), packing)
    left = consolidate(updates)
    return Batch((left.keys, left.values, *left.times, left.diffs)) if len(left) else None


def advanced(column: Integers, coordinate: int) -> Integers:
    """Return a column of times in which lesser values are replaced by ``coordinate``."""
    if column.strides == (0,) and len(column):
        return constant(max(int(column[0]), coordinate), len(column))
    return np.maximum(column, coordinate) if coordinate else column


def merged(batches: Sequence[Batch], since: FlatTime) -> Batch | None:
    """Return the sum of batches, with times advanced to ``since``; None if all updates cancel out."""
    packings = [batch._packing for batch in batches if batch._packing is not None]
    packing = None
    if len(packings) == len(batches):
        ends = [[min(column) for column in zip(*(one.least for one in packings), strict=True)]]
        ends.append([max(column) for column in zip(*(one.greatest for one in packings), strict=True)])
        for column in ends:
            column[_TIMES:-1] = map(max, column[_TIMES:-1], since)
        packing = Packing.of_ranges(zip(*ends, strict=True))
    if packing is None:
        updates = concatenate([batch.updates for batch in batches], len(since))
        times = tuple(map(advanced, updates.times, since))
        return batch_of(Updates(updates.keys, updates.values, times, updates.diffs))
    return _summed(np.concatenate([batch._repacked(packing, since) for batch in batches]), packing)


def _summed(words: Integers, packing: Packing) -> Batch | None:
    least, most = packing.ranges[-1]
    counted = counted_words(words, packing)
    if counted is None:
        sort_words(words)
        if (least > 0 or most < 0) and are_distinct(words, packing.widths[-1]):
            return Batch(words=words, packing=packing)
    words, sums = counted or sum_words(words, packing)
    if not len(words):
        return None
    # The sums may not fit into the packing.
    ranges = [*packing.ranges[:-1], range_of(sums)]
    wider = Packing.of_ranges(ranges)
    if wider is None:
        return Batch([*(packing.column(words, number) for number in range(len(ranges) - 1)), sums])
    replace_last(words, packing, sums, wider)
    return Batch(words=words, packing=wider)
