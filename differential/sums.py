"""Exact sums and means of values with counts.

A sum of whole numbers is exact. A sum of floats is the exact sum, rounded once, so it depends only on the values and
their counts.

Columns of floats are added without rounding. Each turn splits off the highest bits of all values, as many as add up
exactly in any order, until nothing is left. Most columns need two or three turns.

Source: Rump, Ogita and Oishi, "Accurate floating-point summation, part I" (SIAM J. Sci. Comput. 2008), section 3.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import fsum, inf, isfinite, nan
from operator import add, itemgetter, mul
from typing import Any

import numpy as np
import numpy.typing as npt

from tidewheel.differential.packing import EXACT, exact_sums, range_of
from tidewheel.differential.records import Column, Integers

_WHOLE = frozenset({bool, int})
_NUMBERS = frozenset({bool, float, int})
_RATIONAL = _NUMBERS | {Decimal, Fraction}

_ROWS = frozenset({bytes, str, tuple})

_LARGE = 2**62
"""Sums below this fit into 64 bits."""

_MOST_COUNT = 1 << 26
_GREATEST = 2.0**900
_MOST_TURNS = 4
"""The largest number of turns of a vectorised sum. For larger counts or values, or very different values, keys are
summed one by one."""

_UNIT_BITS = 1074
"""All floats are multiples of 2**-1074."""


def sum_of(values: Sequence[Any], counts: Sequence[int]) -> Any:
    """Return the sum of values: exact for whole numbers, rounded once if some are floats.

    In a collection, equal numbers of any type are one value. So if types are mixed, a whole number counts as ``int``.

    Raises:
        TypeError: the values cannot be added up.

    >>> sum_of([1e16, 1.0, -1e16], [1, 3, 1]), sum_of([2**62, 1], [2, 1]), sum_of([2**53, 0.5], [1, 3])
    (3.0, 9223372036854775809, 9007199254740994.0)
    """
    kinds = set(map(type, values))
    if kinds <= _WHOLE:
        return sum(map(mul, values, counts))
    if kinds <= _NUMBERS:
        if len(kinds) > 1 and all(type(value) is not float or value.is_integer() for value in values):
            return sum(map(mul, map(int, values), counts))
        return _ratio(values, counts, 1)
    if len(kinds) > 1 and kinds <= _RATIONAL:
        return _rational_sum(values, counts)
    for kind in kinds & _ROWS:  # Python's `+` would concatenate these
        raise TypeError(f"a value of type {kind.__name__} is no number")
    pairs = list(zip(values, counts, strict=True))
    try:
        pairs.sort(key=itemgetter(0))
    except (ArithmeticError, TypeError):  # complex numbers, for example, have no order
        pairs.sort(key=repr)
    return reduce(add, (value * count for value, count in pairs))


def _rational_sum(values: Sequence[Any], counts: Sequence[int]) -> Any:
    ratios = list(map(Fraction, values))
    if any(type(value) is float and ratio.denominator > 1 for value, ratio in zip(values, ratios, strict=True)):
        exact = sum(map(mul, ratios, counts), Fraction())
        return _ratio([exact.numerator], [1], exact.denominator)
    order = sorted(range(len(ratios)), key=ratios.__getitem__)
    parts = [int(ratio) if ratio.denominator == 1 else value for value, ratio in zip(values, ratios, strict=True)]
    return reduce(add, (parts[place] * counts[place] for place in order))


def mean_of(values: Sequence[Any], counts: Sequence[int], total: int) -> Any:
    """Return `sum_of` divided by a total count, which is not 0."""
    made = sum_of(values, counts)
    if type(made) is float and not isfinite(made):  # the mean of finite numbers is finite
        return _ratio(values, counts, total)
    return made / total


def column_sums(values: Column, counts: Integers, starts: Integers) -> Column:
    """Return the sums of the values from each start to the next, as `sum_of` does; the column must not be empty."""
    if values.dtype.kind == "f":
        return _float_sums(values, counts, starts)
    # The sum of the absolute values as a float is inexact, but cannot overflow.
    most = np.abs(counts.astype(float)).sum()
    if most * max(map(abs, range_of(values))) >= _LARGE:
        values = values.astype(object)
    sums: Column = np.add.reduceat(values * counts, starts)
    return sums


def column_means(values: Column, counts: Integers, starts: Integers) -> tuple[Column, npt.NDArray[np.bool_]]:
    """Return the means of the values from each start to the next, and a mask: whether the total count is not 0.

    The column must not be empty.
    """
    sums, totals = column_sums(values, counts, starts), exact_sums(starts, counts)
    kept = totals != 0
    totals[~kept] = 1
    if sums.dtype.kind == "i" and max(map(abs, (*range_of(sums), *range_of(totals)))) > EXACT:
        sums = sums.astype(object)  # Python rounds the quotient of two integers only once
    means = (sums / totals).astype(float)
    if values.dtype.kind == "f":
        for place, rows in _spans(starts, len(values), kept & ~np.isfinite(means)):
            means[place] = mean_of(values[rows].tolist(), counts[rows].tolist(), int(totals[place]))
    return means[kept], kept


def _float_sums(values: Column, counts: Integers, starts: Integers) -> Column:
    is_odd = ~((np.abs(values) < _GREATEST) & (counts < _MOST_COUNT) & (counts > -_MOST_COUNT))
    odd = np.logical_or.reduceat(is_odd, starts)
    rest, weights = values, counts
    if odd.any():
        is_odd = np.repeat(odd, np.diff(starts, append=len(values)))
        rest, weights = np.where(is_odd, 0.0, values), np.where(is_odd, 1, counts)
    is_once = bool((weights == 1).all())
    bits = int(np.add.reduceat(np.abs(weights), starts).max() + 2).bit_length()
    parts = list[Column]()
    while len(parts) < _MOST_TURNS and rest.any():
        above = np.ldexp(1.0, int(np.frexp(max(rest.max(), -rest.min()))[1]) + bits)
        high = rest + above
        high -= above
        rest = rest - high
        parts.append(np.add.reduceat(high if is_once else high * weights, starts))
    if rest.any():
        odd |= np.logical_or.reduceat(rest != 0, starts)
    if len(parts) <= 2:
        sums = sum(parts, np.zeros(len(starts)))
    else:
        sums = np.fromiter(map(fsum, zip(*(part.tolist() for part in parts), strict=True)), float, len(starts))
    for place, rows in _spans(starts, len(values), odd):
        sums[place] = sum_of(values[rows].tolist(), counts[rows].tolist())
    return sums


def _spans(starts: Integers, count: int, wanted: npt.NDArray[np.bool_]) -> Iterator[tuple[int, slice]]:
    for place in wanted.nonzero()[0].tolist():
        yield place, slice(starts[place], starts[place + 1] if place + 1 < len(starts) else count)


def _ratio(values: Sequence[float], counts: Sequence[int], total: int) -> float:
    endless = [value * count for value, count in zip(values, counts, strict=True) if not _is_finite(value)]
    if endless:
        return endless[0] / total if len(set(endless)) == 1 else nan
    units = 0
    for value, count in zip(values, counts, strict=True):
        numerator, denominator = value.as_integer_ratio()
        units += numerator * count << _UNIT_BITS + 1 - denominator.bit_length()
    try:
        return units / (total << _UNIT_BITS)
    except OverflowError:
        return -inf if (units < 0) != (total < 0) else inf


def _is_finite(value: float) -> bool:
    return type(value) is not float or isfinite(value)
