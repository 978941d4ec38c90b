"""Updates in int64 columns: key, value, one time coordinate for each nested scope, and diff.

`consolidate` sorts updates by key, value and time, adds the diffs of equal updates, and drops sums of 0. If the columns
together need at most 63 bits, they are packed into one word, which NumPy sorts several times faster.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tidewheel.differential.packing import (
    Packing,
    constant,
    range_of,
    sort_words,
    starts_of,
    sum_words,
    sums_from,
    taken,
)
from tidewheel.differential.records import Array, Integers

FlatTime: TypeAlias = tuple[int, ...]
"""The coordinates of a time, from the outermost scope to the innermost: those of ``((e, r), s)`` are ``(e, r, s)``."""

MOST_ROWS = 1 << 20
"""The largest number of updates to encode, sort or hold at once, since columns take several times a batch's memory."""

MOST_KEYS = 1 << 16
"""The largest number of keys to read at once, since unpacked rows take several times a batch's memory."""


def flat(time: Any) -> FlatTime:
    """Return the coordinates of a time.

    >>> flat(3), flat(((3, 1), 2))
    ((3,), (3, 1, 2))
    """
    found: list[int] = []
    while isinstance(time, tuple):
        time, last = time
        found.append(last)
    return (time, *reversed(found))


def nested(time: Sequence[int]) -> Any:
    """Return the time with these coordinates; the inverse of `flat`."""
    made: Any = time[0]
    for coordinate in time[1:]:
        made = (made, coordinate)
    return made


def lower_bound(times: Iterable[FlatTime]) -> FlatTime | None:
    """Return the greatest lower bound of ``times``; None if there are no times.

    >>> lower_bound([(1, 0), (0, 3)])
    (0, 0)
    """
    return tuple(map(min, zip(*times, strict=True))) or None


@dataclass(slots=True)
class Updates:
    """Updates in columns of equal length; ``times`` has one column for each coordinate."""

    keys: Integers
    values: Integers
    times: tuple[Integers, ...]
    diffs: Integers

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: Any) -> "Updates":
        places = rows.nonzero()[0] if rows.dtype.kind == "b" else rows
        keys, values, *times, diffs = (taken(one, places) for one in (self.keys, self.values, *self.times, self.diffs))
        return Updates(keys, values, tuple(times), diffs)


def at_time(keys: Integers, values: Integers, diffs: Integers, time: FlatTime) -> Updates:
    times = tuple(constant(coordinate, len(keys)) for coordinate in time)
    return Updates(keys, values, times, diffs)


def drained(arrays: list[Any]) -> Iterator[Any]:
    """Yield arrays or batches; free each when the next is requested."""
    arrays.reverse()
    while arrays:
        yield arrays.pop()


def portions(updates: Iterable[tuple[FlatTime, Array]]) -> Iterator[tuple[list[FlatTime], list[Array]]]:
    """Yield arrays and their times: small arrays together, large arrays alone, very large arrays in parts."""
    times, arrays, count = list[FlatTime](), list[Array](), 0
    for time, array in updates:
        for first in range(0, len(array), MOST_ROWS):
            part = array[first : first + MOST_ROWS]
            if arrays and count + len(part) > MOST_ROWS:
                yield times, arrays
                times, arrays, count = [], [], 0
            times.append(time)
            arrays.append(part)
            count += len(part)
    if arrays:
        yield times, arrays


def concatenate(parts: Sequence[Updates], depth: int) -> Updates:
    """Return all updates of ``parts``; ``depth`` is the number of coordinates of times."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        empty = np.empty(0, np.int64)
        return Updates(empty, empty, (empty,) * depth, empty)
    return Updates(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.values for part in parts]),
        tuple(np.concatenate([part.times[at] for part in parts]) for at in range(depth)),
        np.concatenate([part.diffs for part in parts]),
    )


def consolidate(updates: Updates) -> Updates:
    """Return the updates sorted by key, value and time, with diffs of equal updates added, without sums of 0.

    >>> ones = np.array([1, 1, 1])
    >>> consolidate(at_time(np.array([2, 1, 2]), np.array([5, 6, 5]), ones, (0,))).diffs.tolist()
    [1, 2]
    """
    keys, values, *times, diffs = summed([updates.keys, updates.values, *updates.times], updates.diffs)
    return Updates(keys, values, tuple(times), diffs)


def summed(columns: Sequence[Integers], diffs: Integers) -> list[Integers]:
    """Return the distinct rows, sorted by their columns, followed by their summed diffs; leave out rows with sum 0."""
    if len(diffs) <= 1:
        if len(diffs) and diffs[0] == 0:
            return [one[:0] for one in (*columns, diffs)]
        return [*columns, diffs]
    packing = Packing.of((*columns, diffs))
    if packing is None:
        return _summed_by_columns(columns, diffs)
    words = packing.words((*columns, diffs))
    sort_words(words)
    words, sums = sum_words(words, packing)
    return [*(packing.column(words, number) for number in range(len(columns))), sums.astype(np.int64, copy=False)]


def _summed_by_columns(columns: Sequence[Integers], diffs: Integers) -> list[Integers]:
    order = np.lexsort(columns[::-1])
    ordered = [one.take(order) for one in columns]
    starts = _starts_of_rows(ordered)
    sums = sums_from(starts, diffs.take(order))
    kept = sums != 0
    rows = starts.compress(kept)
    return [*(one.take(rows) for one in ordered), sums.compress(kept)]


def _starts_of_rows(columns: Sequence[Integers]) -> Integers:
    is_first = np.zeros(len(columns[0]), bool)
    is_first[0] = True
    for one in columns:
        is_first[1:] |= one[1:] != one[:-1]
    return is_first.nonzero()[0]


def most_counted(updates: Updates) -> tuple[Integers, Integers]:
    """Return the key and value with the largest count, as columns of one row; slow.

    >>> most_counted(at_time(np.array([1, 2, 1]), np.array([5, 6, 5]), np.array([2**62, 7, 2**62]), (0,)))
    (array([1]), array([5]))
    """
    sizes: Counter[tuple[int, int]] = Counter()
    for *record, diff in zip(updates.keys.tolist(), updates.values.tolist(), updates.diffs.tolist(), strict=True):
        sizes[record[0], record[1]] += abs(diff)
    ((key, value),) = (record for record, _ in sizes.most_common(1))
    return np.array([key]), np.array([value])


def unique(*parts: Integers) -> Integers:
    values = np.concatenate(parts)
    values.sort(kind="stable")
    if len(values) <= 1:
        return values
    distinct: Integers = values[starts_of(values)]
    return distinct


def split_by_time(times: Sequence[Integers]) -> Iterable[tuple[FlatTime, Any]]:
    """Yield each distinct time of some rows, in order, with the indexes of its rows."""
    count = len(times[0])
    if not count:
        return
    if all(least == most for least, most in map(range_of, times)):
        yield tuple(int(one[0]) for one in times), slice(0, count)
        return
    order = np.lexsort(tuple(times[::-1]))
    starts = _starts_of_rows([one[order] for one in times]).tolist()
    for start, stop in zip(starts, [*starts[1:], count], strict=True):
        rows = order[start:stop]
        yield tuple(int(one[rows[0]]) for one in times), rows
