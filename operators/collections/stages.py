"""Stateless transforms of batches of updates. This module imports NumPy."""

from collections.abc import Callable, Iterable, Sequence
from reprlib import repr as short
from typing import Any

import numpy as np

from tidewheel.batches.batches import Batch, is_arrow, is_numpy
from tidewheel.differential.joining import Joined
from tidewheel.differential.packing import CountOverflowError, products
from tidewheel.differential.records import (
    Array,
    Column,
    array_of,
    as_column,
    column_of,
    columns_of,
    decode,
    diffs_of,
    encode,
    in_two_columns,
    rows_of,
)
from tidewheel.differential.updates import split_by_time
from tidewheel.operators.collections.rows import column_from, folded, joined_columns, unfolded
from tidewheel.operators.keys.arrow_rows import as_table
from tidewheel.operators.keys.columns import check_has
from tidewheel.progress import Time


def mapped(function: Callable[[Any], Any], array: Array) -> Array:
    return encode([function(record) for record in decode(array)], array["diff"])


def mapped_columns(function: Callable[..., Any], names: Sequence[str], made: Sequence[str], array: Array) -> Array:
    """Return updates with the columns that a function computes from the columns of the records.

    The columns of the result have the names ``made``; without names there are one or two columns.
    """
    columns = unfolded(array, names) if names else columns_of(in_two_columns(array))
    return array_of(_checked(function(*columns), len(array), made), array["diff"])


def kept(predicate: Callable[[Any], object], array: Array) -> Array:
    mask = np.fromiter((bool(predicate(record)) for record in decode(array)), bool, len(array))
    return rows_of(array, mask)


def kept_columns(predicate: Callable[..., Any], names: Sequence[str], array: Array) -> Array:
    mask = np.asarray(predicate(*(unfolded(array, names) if names else columns_of(in_two_columns(array)))))
    if mask.dtype.kind not in "bO" or mask.shape != (len(array),):
        raise TypeError(
            f"the predicate of filter(columns=True) returned {mask.dtype} of shape {mask.shape}: return an array with "
            f"True or False for each of {len(array)} records"
        )
    return rows_of(array, mask.astype(bool))


def flat_mapped(function: Callable[[Any], Iterable[Any]], array: Array) -> Array:
    made = [list(function(record)) for record in decode(array)]
    diffs = np.repeat(array["diff"], np.fromiter(map(len, made), np.int64, len(made)))
    return encode([record for part in made for record in part], diffs)


def negated(array: Array) -> Array:
    diffs = diffs_of(array)
    try:
        return array_of(columns_of(array), products(diffs, np.array([-1])))
    except CountOverflowError as error:
        raise CountOverflowError(short(decode(array)[diffs.argmin()])) from error


def nothing(array: Array) -> Array:
    return array[:0]


def entering(
    rounds: Callable[[Array], Array], most: int | None, array: Array, now: Time
) -> Iterable[tuple[Time, Array]]:
    """Yield the updates that enter a loop in each round, each with its time.

    ``rounds`` returns the round of each record. Updates for a round of ``most`` or more are left out.

    Raises:
        TypeError: a round is not a whole number.
    """
    (numbers, *others) = columns_of(rounds(array))
    if others or numbers.dtype.kind != "i":
        made = others or numbers[:1].tolist()
        raise TypeError(f"the function of enter_at() is to return rounds, which are whole numbers, not {made!r}")
    outer, first = now
    for (number,), rows in split_by_time([np.maximum(numbers, first)]):
        if most is None or number < most:
            yield (outer, number), rows_of(array, rows)


def project_pairs(joined: Joined) -> Sequence[Column]:
    key, left, right = joined.columns
    return [key, column_of(list(zip(left.tolist(), right.tolist(), strict=True)))]


def project_by(function: Callable[[Any, Any, Any], Any], joined: Joined) -> Sequence[Column]:
    made = []
    for record in zip(
        *(column.tolist() for column in joined.columns), strict=True
    ):  # a failure's report shows `record`
        made.append(function(*record))  # noqa: PERF401 - a comprehension has no such variable from Python 3.12 on
    return columns_of(encode(made))


def project_columns(
    function: Callable[..., Any], left: Sequence[str], right: Sequence[str], made: Sequence[str], joined: Joined
) -> Sequence[Column]:
    """Return the columns of records that a function makes from columns of keys, left values and right values."""
    return _checked(function(*joined_columns(left, right, joined)), len(joined.diffs), made)


def project_left(joined: Joined) -> Sequence[Column]:
    return joined.columns[:2]


def with_diffs(array: Array) -> list[tuple[Any, int]]:
    return list(zip(decode(array), array["diff"].tolist(), strict=True))


def updates_of(columns: Sequence[str], diff: str | bool | None, batch: Batch) -> Array:
    """Return the records of a batch as updates.

    Args:
        columns: the names of the columns that form a record; empty to use records unchanged.
        diff: the name of the column with the counts; True if the records are pairs (record, count); None if each
            record counts once.
        batch: a list, NumPy array, Arrow table or record batch.

    Raises:
        TypeError: the batch does not fit the arguments.
    """
    if is_arrow(batch) or (is_numpy(batch) and batch.dtype.names):
        if not columns:
            raise TypeError(
                "a row of a table is no record of a collection: name its columns, the key first, as in "
                "as_collection(columns=('source', 'target'))"
            )
        check_has(as_table(batch[:0]), [*columns, *([diff] if isinstance(diff, str) else [])])
        diffs = np.ones(len(batch), np.int64) if diff is None else _counts(str(diff), batch)
        return array_of(folded([column_from(batch[name]) for name in columns]), diffs)
    if columns or isinstance(diff, str):
        raise TypeError(
            f"as_collection() is to take columns by name, and got a {type(batch).__name__} of records: leave columns= "
            "out, and send (record, count) with diff=True"
        )
    if is_numpy(batch) and diff is None and batch.ndim == 1:
        return array_of([column_from(batch)], np.ones(len(batch), np.int64))
    records = batch if isinstance(batch, list) else batch.tolist()
    if diff is None:
        return encode(records)
    for record in records:
        if not (isinstance(record, tuple) and len(record) == 2 and isinstance(record[1], int | np.integer)):
            raise TypeError(f"as_collection(diff=True) takes tuples (record, whole number), not {short(record)}")
    try:
        return encode([record for record, _ in records], [count for _, count in records])
    except OverflowError as error:
        record, count = next(one for one in records if not _is_count(one[1]))
        raise TypeError(
            f"as_collection(diff=True) takes counts of 64 bits, and {short(record)} is there {count} times"
        ) from error


def _counts(name: str, batch: Batch) -> Column:
    counts = column_from(batch[name])
    wrong = [] if counts.dtype.kind == "i" else [one for one in counts.tolist() if not _is_count(one)]
    if wrong:
        raise TypeError(
            f"as_collection(diff={name!r}) takes whole numbers of 64 bits, and the column has {wrong[0]!r}: leave out "
            "such rows before, or cast it to int64"
        )
    return counts.astype(np.int64, copy=False)


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and value % 1 == 0 and -(2**63) <= value < 2**63


def _checked(made: Any, count: int, names: Sequence[str]) -> Sequence[Column]:
    parts = made if isinstance(made, tuple) else (made,)
    if names and len(parts) != len(names):
        raise TypeError(
            f"a function of columns returned {len(parts)} columns: return one for each of {', '.join(names)}"
        )
    if len(parts) > 2 and not names:
        raise TypeError(
            f"a function of columns returned {len(parts)} columns: return one for records, or two, (key, value), for "
            "pairs. For more, name them, as in columns=['user', 'item', 'price']"
        )
    columns = []
    for part in parts:
        column = _column_of_any(part, count)
        if len(column) != count:
            raise TypeError(f"a function of columns returned {len(column)} values for {count} records")
        columns.append(column)
    return folded(columns)


def _column_of_any(part: Any, count: int) -> Column:
    if hasattr(part, "null_count"):  # an array of Arrow's, with None for null
        return column_from(part)
    if isinstance(part, list | tuple):  # NumPy would make one type of all values
        return column_of(part)
    return as_column(np.asarray(part)) if np.ndim(part) else column_of([part] * count)
