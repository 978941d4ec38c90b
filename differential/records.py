"""Updates between operators: NumPy arrays with the fields ``key``, ``value`` and ``diff``.

A pair has its parts in ``key`` and ``value``. Any other record is in ``key`` alone, without a field ``value``. A field
holds int64, float64 or, for other or mixed types, Python objects. Tuples may be rows: a structured array with a field
for each part. ``diff`` is int64, the number of times that the record is added, or removed if negative.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from math import nan
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Column: TypeAlias = npt.NDArray[Any]
"""An array of one dimension: int64, float64, objects, or rows."""

Array: TypeAlias = npt.NDArray[Any]
"""A structured array of updates."""

Integers: TypeAlias = npt.NDArray[np.int64]

_NUMBERS = {np.dtype(code).type for code in "?bhilqBHILQefd"}
"""NumPy's bool, integer and float types, which are converted to Python's."""

_TYPES = tuple(map(np.dtype, ("i1", "i2", "i4", "i8")))
_LONG = 1 << 12
"""An array of at least this many updates stores each integer column in as few bytes as its values need."""


def column_of(values: Sequence[Any]) -> Column:
    """Return values as a column: int64 if all are ``int`` and fit, float64 if all are ``float``, else objects.

    NumPy numbers are converted to Python's, since sums of small types would overflow.

    >>> column_of([1, 2]).dtype.name, column_of([1, 0.5]).dtype.name, column_of([True]).dtype.name
    ('int64', 'object', 'object')
    """
    kinds = set(map(type, values))
    if not kinds.isdisjoint(_NUMBERS):
        values = [value.item() if type(value) in _NUMBERS else value for value in values]
        kinds = set(map(type, values))
    if kinds == {int}:
        try:
            return np.array(values, np.int64)
        except OverflowError:
            pass
    elif kinds == {float}:
        return np.array(values, np.float64)
    if float in kinds:
        values = [_plain_float(value) if type(value) is float else value for value in values]
    return np.fromiter(values, object, len(values))


def values_of(column: Column) -> list[Any]:
    """Return the values of a column as Python objects, with one object for all NaN."""
    if column.dtype.names:
        return list(zip(*map(values_of, parts_of(column)), strict=True))
    values: list[Any] = column.tolist()
    if column.dtype.kind == "f" and np.isnan(column).any():
        return [nan if value != value else value for value in values]  # noqa: PLR0124 - only a NaN differs from itself
    return values


def with_one_nan(value: Any) -> Any:
    """Return a value with one object for all NaN, as `values_of` does.

    An unpickled NaN is another object, and so is not equal to it.

    >>> (1, float("nan")) == (1, float("nan")), with_one_nan((1, float("nan"))) == with_one_nan((1, float("nan")))
    (False, True)
    """
    if type(value) is tuple:
        return tuple(map(with_one_nan, value))
    return nan if type(value) is float and value != value else value  # noqa: PLR0124 - only a NaN differs from itself


def _plain_float(value: float) -> float:
    """Return a float with one object for all NaN, and 0.0 for -0.0."""
    return value + 0.0 if value == value else nan  # noqa: PLR0124 - only a NaN differs from itself


def as_column(values: Any) -> Column:
    """Return a user's array as a column.

    Whole numbers become int64, other numbers float64, anything else Python objects. Nanoseconds are truncated to
    microseconds.

    Raises:
        TypeError: the array has more than one dimension.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise TypeError(f"a column is an array of one dimension, not of {array.ndim}")
    if array.dtype.kind in "mM" and np.datetime_data(array.dtype)[0] == "ns":
        array = array.astype(f"{array.dtype.kind}8[us]")
    if array.dtype.kind in "iu" and array.dtype != np.uint64:
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "f":
        return array.astype(np.float64, copy=False)
    return array if array.dtype.kind == "O" else column_of(array.tolist())


def array_of(columns: Sequence[Column], diffs: Integers) -> Array:
    """Return updates of records with these columns: the key, or the key and the value."""
    names = [*("key", "value")[: len(columns)], "diff"]
    return _structured(names, [*columns, diffs], list(map(_narrow, [*columns, diffs])))


def row_column(columns: Sequence[Column]) -> Column:
    """Return one column of rows with these columns as parts.

    >>> row_column([np.array([1, 2]), np.array([0.5, 1.5])]).tolist()
    [(1, 0.5), (2, 1.5)]
    """
    return _structured([str(number) for number in range(len(columns))], columns, [one.dtype for one in columns])


def parts_of(rows: Column) -> list[Column]:
    return [np.ascontiguousarray(rows[name]) for name in _names(rows)]


def _structured(names: Sequence[str], columns: Sequence[Column], types: Sequence["np.dtype[Any]"]) -> Array:
    # For objects, zeros() is ten times faster than empty(), which fills in None.
    make = np.zeros if any(one.hasobject for one in types) else np.empty
    made = make(len(columns[0]), list(zip(names, types, strict=True)))
    for name, one in zip(names, columns, strict=True):
        made[name] = one
    return made


def _narrow(column: Column) -> "np.dtype[Any]":
    if column.dtype.kind != "i" or len(column) < _LONG:
        return column.dtype
    least, most = column.min(), column.max()
    return next(kind for kind in _TYPES if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)


def rows_of(array: Array, rows: Any) -> Array:
    """Return the updates in a slice, at indexes or by a mask; several times faster than ``array[rows]``."""
    if isinstance(rows, slice):
        return array[rows]
    found: Array = array.take(rows.nonzero()[0] if rows.dtype.kind == "b" else rows)
    return found


def encode(records: Sequence[Any], diffs: Iterable[int] | None = None) -> Array:
    """Return updates that add each record once, or with its count in ``diffs``.

    >>> encode([("a", 1), ("b", 2)]).dtype.names, encode(["a", "b"]).dtype.names
    (('key', 'value', 'diff'), ('key', 'diff'))
    """
    counts = np.fromiter(repeat(1) if diffs is None else diffs, np.int64, len(records))
    if all(map(_is_pair, records)):
        columns = [column_of([record[part] for record in records]) for part in (0, 1)]
    else:
        columns = [column_of(records)]
    return array_of(columns, counts)


def decode(array: Array) -> list[Any]:
    if is_pairs(array):
        return list(zip(values_of(array["key"]), values_of(array["value"]), strict=True))
    return values_of(array["key"])


def is_pairs(array: Array) -> bool:
    return "value" in _names(array)


def columns_of(array: Array) -> list[Column]:
    columns = (array[name] for name in _names(array)[:-1])
    return [one.astype(np.int64, copy=False) if one.dtype.kind == "i" else one for one in columns]


def diffs_of(array: Array) -> Integers:
    diffs: Integers = array["diff"].astype(np.int64, copy=False)
    return diffs


def _names(array: Array) -> tuple[str, ...]:
    names = array.dtype.names
    assert names is not None, "updates are in a structured array"
    return names


def gathered(arrays: Sequence[Array]) -> tuple[list[Column], Integers]:
    """Return the columns and the diffs of several arrays, at least one.

    If only some arrays have pairs, all records become Python objects in one column.
    """
    diffs = _joined_diffs([array["diff"] for array in arrays])
    if len({array.dtype.names for array in arrays}) > 1:
        return [column_of([record for array in arrays for record in decode(array)])], diffs
    return [_joined([array[name] for array in arrays]) for name in _names(arrays[0])[:-1]], diffs


def _joined_diffs(parts: Sequence[Column]) -> Integers:
    if all(part.dtype == np.int8 and len(part) for part in parts):  # they are long, and often have one value only
        ends = {int(end) for part in parts for end in (part.min(), part.max())}
        if len(ends) == 1:
            return np.broadcast_to(np.int64(ends.pop()), sum(map(len, parts)))
    return np.concatenate(parts, dtype=np.int64)


def _joined(parts: Sequence[Column]) -> Column:
    if len({"i" if part.dtype.kind == "i" else part.dtype for part in parts}) > 1:
        if parts[0].dtype.names and len({part.dtype.names for part in parts}) == 1:
            return row_column(list(map(_joined, zip(*map(parts_of, parts), strict=True))))
        return column_of([value for part in parts for value in values_of(part)])
    return np.concatenate(parts, dtype=np.int64 if parts[0].dtype.kind == "i" else None)


def as_pairs(array: Array, operator: str) -> Array:
    """Return ``array``, whose records must be pairs, in two columns.

    Raises:
        TypeError: the records are not pairs; the error names the operator, a record and the remedy.
    """
    pairs = in_two_columns(array)
    if is_pairs(pairs):
        return pairs
    wrong = next(one for one in pairs["key"].tolist() if not _is_pair(one))
    raise TypeError(
        f"{operator} takes pairs (key, value), and {wrong!r} is none: "
        "make pairs first, such as with map(lambda record: (key of record, record))"
    )


def in_two_columns(array: Array) -> Array:
    """Return ``array`` in two columns if all its records are pairs.

    Pairs may be in one column if they arrived with other records, or are the results of a reduction.

    >>> pairs = array_of([column_of([(1, "a"), (2, "b")])], np.ones(2, np.int64))
    >>> pairs.dtype.names, in_two_columns(pairs).dtype.names
    (('key', 'diff'), ('key', 'value', 'diff'))
    """
    if is_pairs(array) or not all(map(_is_pair, array["key"][:1].tolist())):
        return array
    return encode(array["key"].tolist(), array["diff"])


def _is_pair(record: Any) -> bool:
    return type(record) is tuple and len(record) == 2


def as_keys(array: Array) -> Array:
    """Return pairs (record, 0) of all records, to use them as keys.

    >>> decode(as_keys(encode([(1, 2)])))
    [((1, 2), 0)]
    """
    keys = np.fromiter(decode(array), object, len(array)) if is_pairs(array) else columns_of(array)[0]
    return array_of([keys, np.zeros(len(array), np.int64)], array["diff"])
