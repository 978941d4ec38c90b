"""Matching the rows of two tables: keys become numbers, which are matched by sorting.

Arrow's ``Table.join`` is not faster, rejects lists and structs, treats 0.0 and -0.0 as different, and cannot compare
keys of different types.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tidewheel.operators.joins.join_keys import JoinKeys, matches_nothing
from tidewheel.operators.keys.key_columns import number_rows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Numbers: TypeAlias = npt.NDArray[np.int64]


class Matches(NamedTuple):
    """Pairs of rows with equal keys: the entries ``i`` of both arrays are a pair."""

    left: "Numbers"
    right: "Numbers"


class KeyNumbers(NamedTuple):
    """The number of each row's key, on both sides: equal for equal keys, -1 for keys that match nothing."""

    left: "Numbers"
    right: "Numbers"


def number_keys(keys: JoinKeys, left: "pa.Table", right: "pa.Table") -> KeyNumbers:
    """Number the keys of the rows of two tables, from 0; equal keys get the same number in both tables.

    If the two columns of a key have different types, each distinct value costs a dict look-up.
    """
    import numpy as np
    import pyarrow.compute as pc

    names = zip(keys.left.names, keys.right.names, strict=True)
    columns = [_one_column(left.column(name), right.column(other_name)) for name, other_name in names]
    numbers = number_rows(columns)
    for column in columns:
        if column.null_count:
            numbers = np.where(pc.is_null(column).to_numpy(), -1, numbers)
    return KeyNumbers(numbers[: len(left)], numbers[len(left) :])


def _one_column(left: "pa.ChunkedArray", right: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa

    left, right = _comparable(left), _comparable(right)
    if left.type == right.type:
        return pa.chunked_array([*left.chunks, *right.chunks], left.type)
    return pa.chunked_array([pa.array(numbers, mask=numbers < 0) for numbers in _number_values(left, right)])


def _comparable(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Return the column in a type wide enough for all its values, with null for NaN and 0.0 for -0.0."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kinds.is_floating(column.type):
        column = pc.add(column.cast(pa.float64()), 0.0)
        return pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)
    if kinds.is_boolean(column.type):
        return column.cast(pa.uint8()).cast(pa.int64())
    if kinds.is_integer(column.type) and not kinds.is_uint64(column.type):
        return column.cast(pa.int64())
    if kinds.is_string(column.type) or kinds.is_string_view(column.type):
        return column.cast(pa.large_string())
    if kinds.is_binary(column.type) or kinds.is_binary_view(column.type) or kinds.is_fixed_size_binary(column.type):
        return column.cast(pa.large_binary())
    return column


def _indices(encoded: "pa.ChunkedArray") -> "Numbers":
    import numpy as np
    import pyarrow.compute as pc

    parts = [pc.fill_null(chunk.indices, -1).to_numpy() for chunk in encoded.chunks]
    return np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int64)


def _number_values(left: "pa.ChunkedArray", right: "pa.ChunkedArray") -> KeyNumbers:
    import numpy as np

    known: dict[Any, int] = {}
    found = []
    for column in (left, right):
        encoded = column.dictionary_encode()
        values = encoded.chunk(0).dictionary.to_pylist() if encoded.num_chunks else []
        numbers = [-1 if matches_nothing(value) else known.setdefault(value, len(known)) for value in values]
        found.append(np.array([*numbers, -1], dtype=np.int64)[_indices(encoded)])
    return KeyNumbers(*found)


def have_same_keys(lefts: "Sequence[pa.ChunkedArray]", rights: "Sequence[pa.ChunkedArray]") -> "npt.NDArray[np.bool_]":
    """Tell for each row whether its left and right key are equal, as for `number_keys`."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    same = np.ones(len(lefts[0]), np.bool_)
    for left, right in zip(map(_comparable, lefts), map(_comparable, rights), strict=True):
        # Arrow cannot compare its intervals of months, days and nanoseconds.
        if left.type == right.type and left.type != pa.month_day_nano_interval():
            same &= pc.fill_null(pc.equal(left, right), False).to_numpy()
        else:
            numbers = _number_values(left, right)
            same &= (numbers.left == numbers.right) & (numbers.left >= 0)
    return same


def match_equal(keys: KeyNumbers) -> Matches:
    import numpy as np

    order = np.argsort(keys.right)
    counts = np.bincount(keys.right + 1, minlength=int(keys.left.max(initial=0)) + 2)
    starts = np.cumsum(counts) - counts
    places = keys.left + 1
    counts[0] = 0  # place 0 is for rows that match nothing
    return _spread(starts[places], counts[places], order)


def match_within(keys: KeyNumbers, lows: Any, highs: Any, instants: Any) -> Matches:
    """Return the pairs of rows with equal keys and ``low <= instant <= high``.

    ``lows`` and ``highs`` belong to the left rows, ``instants`` to the right rows. The three arrays must be comparable.
    """
    import numpy as np

    distinct = np.unique(instants)
    width = len(distinct) + 1
    places = keys.right * width + np.searchsorted(distinct, instants)
    order = np.argsort(places)
    ordered = places[order]
    starts = np.searchsorted(ordered, keys.left * width + np.searchsorted(distinct, lows))
    stops = np.searchsorted(ordered, keys.left * width + np.searchsorted(distinct, highs, side="right"))
    return _spread(starts, np.where(keys.left < 0, 0, np.maximum(stops - starts, 0)), order)


def match_hashes(hashes: "npt.NDArray[np.uint64]", ordered: "npt.NDArray[np.uint64]") -> Matches:
    """Return the pairs of indexes of equal hashes; ``ordered`` must be sorted."""
    import numpy as np

    starts = np.searchsorted(ordered, hashes)
    counts = np.zeros(len(hashes), np.int64)
    if len(ordered):
        found = np.flatnonzero(ordered[np.minimum(starts, len(ordered) - 1)] == hashes)
        counts[found] = np.searchsorted(ordered, hashes[found], side="right") - starts[found]
    return _spread(starts, counts, None)


def _spread(starts: "Numbers", counts: "Numbers", order: "Numbers | None") -> Matches:
    import numpy as np

    before = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return Matches(np.repeat(np.arange(len(counts)), counts), places if order is None else order[places])
