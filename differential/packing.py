"""Rows of integers, each packed into one word: each column gets the bits that its range needs, the first the highest.

Words sort like the rows and take a fraction of the memory. NumPy sorts them several times faster.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from sys import byteorder
from typing import Any, Final, Self

import numpy as np

from tidewheel.differential.records import Integers

WORD_BITS = 63

_MANY = 1 << 17
"""The number of words that fit into the processor's cache; `sum_words` adds up more words in pieces."""

_MANY_SORTED = 1 << 13
"""Above this number of words, `sort_words` counts the sorted runs first."""

_LONG_RUN = 1 << 10
"""From this mean length of sorted runs on, NumPy merges the runs faster than it sorts all words."""

_FEW_EQUAL = 8
"""If at most one word in this many equals the word before it, equal words are added up one by one."""

_MANY_COUNTED = 2000
"""The least number of words for which counting is faster than sorting."""

EXACT: Final = 2**53
"""Below this, floats represent every integer exactly."""

_LIMIT = 2**63
"""Sums below this fit into int64."""

_NARROW = 2**30
"""Sums below this are stored as int32, in half the memory, since the system takes long to provide much memory."""


class CountOverflowError(OverflowError):
    """The count of a record needs more than 64 bits; ``args`` has the record as text, if known."""

    def __str__(self) -> str:
        record = self.args[0] if self.args else "a record"
        return (
            f"the count of {record} needs more than 64 bits: does a join or loop add it again and again? "
            "distinct() keeps each record once"
        )


@dataclass(frozen=True, slots=True)
class Packing:
    """The bits of a word that each column has.

    Attributes:
        least: for each column, the number stored as 0; ``greatest`` is an upper bound of its numbers.
        widths: the number of bits of each column; ``shifts`` is the number of bits after it.
    """

    least: tuple[int, ...]
    greatest: tuple[int, ...]
    widths: tuple[int, ...]
    shifts: tuple[int, ...]

    @classmethod
    def of_ranges(cls, ranges: Iterable[tuple[int, int]]) -> Self | None:
        """Return the packing of columns with these ranges; None if they do not fit into a word."""
        least, greatest = zip(*ranges, strict=True)
        widths = [(most - first).bit_length() for first, most in zip(least, greatest, strict=True)]
        shifts, shift = [], sum(widths)
        if shift > WORD_BITS:
            return None
        for width in widths:
            shift -= width
            shifts.append(shift)
        return cls(least, greatest, tuple(widths), tuple(shifts))

    @classmethod
    def of(cls, columns: Sequence[Integers]) -> Self | None:
        """Return the packing of non-empty columns; None if they do not fit into a word."""
        return cls.of_ranges(map(range_of, columns))

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return list(zip(self.least, self.greatest, strict=True))

    def is_like(self, other: Self) -> bool:
        """Tell whether another packing makes the same words."""
        return self.least == other.least and self.widths == other.widths

    def words(self, columns: Iterable[Integers]) -> Integers:
        words: Integers | None = None
        count = 0
        for column, least, width, shift in zip(columns, self.least, self.widths, self.shifts, strict=True):
            count = len(column)
            if width:
                part = column - least
                part <<= shift
                if words is None:
                    words = part
                else:
                    words |= part
        return np.zeros(count, np.int64) if words is None else words

    def column(self, words: Integers, number: int) -> Integers:
        width, shift = self.widths[number], self.shifts[number]
        if not width:
            return constant(self.least[number], len(words))
        found: Integers = words >> shift
        if number:
            found &= (1 << width) - 1
        found += self.least[number]
        return found


def constant(value: int, count: int) -> Integers:
    """Return a constant column; all its rows share one value in memory."""
    return np.ndarray(count, np.int64, value.to_bytes(8, byteorder, signed=True), strides=(0,))


def taken(column: Integers, places: Integers) -> Integers:
    if column.strides == (0,) and len(column):
        return constant(int(column[0]), len(places))
    found: Integers = column.take(places)
    return found


def range_of(column: Integers) -> tuple[int, int]:
    if column.strides == (0,):
        return int(column[0]), int(column[0])
    return int(np.minimum.reduce(column)), int(np.maximum.reduce(column))


def sort_words(words: Integers) -> None:
    """Sort words in place; also fast if they consist of a few sorted parts."""
    is_merge = len(words) > _MANY_SORTED and _LONG_RUN * np.count_nonzero(words[1:] < words[:-1]) < len(words)
    words.sort(kind="stable" if is_merge else None)


def sum_words(words: Integers, packing: Packing) -> tuple[Integers, Integers]:
    """Add up the diffs, the last column, of words that are otherwise equal.

    Return a word for each sum other than 0, with an arbitrary diff, and the sums, of any integer type.
    """
    if len(words) <= _MANY:
        return _sums(words, packing)
    is_small = max(map(abs, packing.ranges[-1])) * len(words) < _NARROW
    sums: Any = np.empty(len(words), np.int32 if is_small else np.int64)
    any_diff = (1 << packing.widths[-1]) - 1
    count = begin = 0
    while begin < len(words):
        last = min(begin + _MANY, len(words)) - 1
        end = last + int(words[last:].searchsorted(words[last] | any_diff, side="right"))
        some, their_sums = _sums(words[begin:end], packing)
        words[count : count + len(some)], sums[count : count + len(some)] = some, their_sums
        begin, count = end, count + len(some)
    return words[:count], sums[:count]


def _sums(words: Integers, packing: Packing) -> tuple[Integers, Integers]:
    width = packing.widths[-1]
    rows = words >> width if width else words
    sums = packing.column(words, len(packing.widths) - 1)
    again = (rows[1:] == rows[:-1]).nonzero()[0]
    if _FEW_EQUAL * len(again) > len(words) or _largest(*packing.ranges[-1]) * len(words) >= _LIMIT:
        starts = starts_of(rows)
        words, sums = words.take(starts), sums_from(starts, sums)
    elif len(again):
        again += 1
        is_first = np.ones(len(words), bool)
        is_first[again] = False
        more = sums[again]
        words, sums = words.compress(is_first), sums.compress(is_first)
        np.add.at(sums, again - np.arange(1, len(again) + 1), more)
    kept = sums != 0
    return (words, sums) if kept.all() else (words.compress(kept), sums.compress(kept))


def sums_from(starts: Integers, diffs: Integers) -> Integers:
    """Return the sum of diffs from each start to the next; raise CountOverflowError beyond 64 bits."""
    return _in_64_bits(exact_sums(starts, diffs))


def exact_sums(starts: Integers, diffs: Integers) -> "np.typing.NDArray[Any]":
    """Return the sum of diffs from each start to the next, as int64 or as Python's integers."""
    if _largest(*range_of(diffs)) * len(diffs) >= _LIMIT:
        diffs = diffs.astype(object)
    sums: np.typing.NDArray[Any] = np.add.reduceat(diffs, starts)
    return sums


def products(ones: Integers, others: Integers) -> Integers:
    """Return the products of non-empty diffs; raise CountOverflowError beyond 64 bits."""
    if _largest(*range_of(ones)) * _largest(*range_of(others)) < _LIMIT:
        return ones * others
    return _in_64_bits(ones.astype(object) * others)


def _largest(least: int, greatest: int) -> int:
    return max(-least, greatest)


def _in_64_bits(counts: Any) -> Integers:
    try:
        made: Integers = counts.astype(np.int64, copy=False)
    except OverflowError as error:
        raise CountOverflowError from error
    return made


def replace_last(words: Integers, packing: Packing, column: Integers, wider: Packing) -> None:
    """Replace the last column of words in place; ``wider`` is the same packing with room for the new column."""
    for first in range(0, len(words), _MANY):
        some = words[first : first + _MANY]
        some >>= packing.widths[-1]
        some <<= wider.widths[-1]
        some |= column[first : first + _MANY] - wider.least[-1]


def first_places(words: Integers, shift: int, count: int) -> Integers:
    """Return, for each number up to ``count``, how many words are less, without their last ``shift`` bits."""
    below = np.zeros(count + 1, np.int64)
    for first in range(0, len(words), _MANY):
        some = np.bincount(words[first : first + _MANY] >> shift)
        below[1 : len(some) + 1] += some
    return np.cumsum(below, out=below)


def counted_words(words: Integers, packing: Packing) -> tuple[Integers, Integers] | None:
    """As `sum_words`, for words in any order, by counting; return None if that would be slower or inexact.

    Linear in the number of words and of possible words.
    """
    *_, width = packing.widths
    least, most = packing.ranges[-1]
    numbers = 1 << sum(packing.widths) - width
    if len(words) < _MANY_COUNTED or 2 * numbers > 3 * len(words) or max(most, -least) * len(words) >= EXACT:
        return None
    if width:
        sums = np.bincount(words >> width, weights=packing.column(words, len(packing.widths) - 1))
    else:
        sums = np.bincount(words) * least
    rows = sums.nonzero()[0]
    return rows << width, sums[rows].astype(np.int64)


def are_distinct(words: Integers, width: int) -> bool:
    """Tell whether sorted words differ from each other even without their last ``width`` bits."""
    for first in range(0, len(words), _MANY):
        rows = words[first : first + _MANY + 1]
        if width:
            rows = rows >> width
        if (rows[1:] == rows[:-1]).any():
            return False
    return True


def starts_of(values: Integers) -> Integers:
    """Return the index of the first of each run of equal values.

    >>> starts_of(np.array([4, 4, 7, 4])).tolist()
    [0, 2, 3]
    """
    is_first = np.empty(len(values), bool)
    is_first[:1] = True
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return is_first.nonzero()[0]
