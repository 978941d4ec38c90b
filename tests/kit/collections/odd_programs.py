"""Random programs over odd records: large numbers and counts, NaN, None, values of several types, dates and bytes."""

import datetime as dt
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tests.kit.collections.programs import INPUTS, Change, Language, clipped
from tidewheel.batches.one_nan import with_one_nan

NOON = dt.datetime.fromisoformat("2024-02-29T12:00")
UTC_NOON = NOON.replace(tzinfo=dt.UTC)
NAN = math.nan

THEMES: Mapping[str, Sequence[Any]] = {
    "whole": (0, 1, 2, -1, 2**31, -(2**31), 2**32 + 1, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)),
    "small": (0, 1, 2),
    "from 2**63": (1, 2**63, 2**64 - 1),
    "floats": (0.5, 0.1, 0.3, -0.1, -0.0, 1.0, 2.5, 1e16, -1e16, 1e308, 5e-324, math.inf, -math.inf, NAN),
    "texts": ("a", "b", "", "a\0", "ä", None),
    "bytes": (b"a", b"a\0", b"", None),
    "bools": (True, False, None),
    "dates": (NOON.date(), dt.date.min, None),
    "times": (NOON, NOON + dt.timedelta(microseconds=1), NOON.replace(year=4), None),
    "moments": (UTC_NOON, UTC_NOON.astimezone(dt.timezone(dt.timedelta(hours=5))), UTC_NOON + dt.timedelta(hours=1)),
    "decimals": (Decimal("0.1"), Decimal("-2.50"), None),
}
"""Values that a column of a table may have, by the name of the column."""

MIXED: Sequence[Any] = (
    *(value for values in THEMES.values() for value in values),
    *(2**70, -(2**70), 2**53, 3, 1.5),
    *((1, NAN), (NAN, 2), (NAN, 1), ("a", None), (1, 2), (), ((0.5,), b"x")),
    *(Fraction(1, 3), uuid.UUID(int=7), dt.timedelta(1), NOON.time()),
)


_OTHER = (Decimal, Fraction, dt.timedelta)
"""Types whose values can be added up, but not by `PlainCollection`."""


class Columns:
    """A function of columns that calls another one for each record, and returns lists; of values for `PlainCollection`.

    Args:
        function: a function of as many values as there are columns.
        is_condition: whether it returns one bool, and else a tuple.
    """

    def __init__(self, function: Callable[..., Any], *, is_condition: bool = False) -> None:
        self._function = function
        self._is_condition = is_condition

    def __call__(self, *columns: Any) -> Any:
        """Return what the function makes of each row, in columns."""
        if not isinstance(columns[0], np.ndarray):
            return self._function(*columns)
        made = [self._function(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        return made if self._is_condition else tuple(map(list, zip(*made, strict=True)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _numbers(collection: Any) -> Any:
    return collection.filter(lambda record: _is_number(record[1]))


def _without_names(collection: Any) -> Any:
    return collection.map(lambda record: record)


ODD = Language(
    one={
        "swap": lambda c: c.map(lambda record: (record[1], record[0])),
        "swap columns": lambda c: c.map(lambda key, value: (value, key), columns=True),
        "swap lists": lambda c: c.map(Columns(lambda key, value: (value, key)), columns=True),
        "equal": lambda c: c.filter(lambda record: record[0] == record[1]),
        "numbers": _numbers,
        "numbers columns": lambda c: c.filter(Columns(lambda k, v: _is_number(v), is_condition=True), columns=True),
        "texts": lambda c: c.filter(lambda record: isinstance(record[1], str)),
        "both": lambda c: c.flat_map(lambda record: [record, (record[1], record[1])]),
        "negate": lambda c: c.negate(),
        "consolidate": lambda c: c.consolidate(),
        "distinct": lambda c: c.distinct(),
        "distinct keys": lambda c: c.map(lambda record: record[0]).distinct().map(lambda key: (key, key)),
        "threshold": lambda c: c.threshold(lambda record, count: count // 2),
        "min": lambda c: c.reduce_min(),
        "max": lambda c: c.reduce_max(),
        "top": lambda c: c.top_k(2),
        "least": lambda c: c.top_k(3, greatest=False),
        "max of numbers": lambda c: _numbers(c).reduce_max(),
    },
    in_loops={
        "late": lambda c: c.enter_at(lambda record: 3 * isinstance(record[1], str)),
        "late columns": lambda c: c.enter_at(
            Columns(lambda key, value: 2 * _is_number(value), is_condition=True), columns=True
        ),
    },
    two={
        "concat": lambda one, other: one.concat(other),
        "join": lambda one, other: one.join(other, lambda key, left, right: (left, right)),
        "join by": lambda one, other: one.join(other, lambda key, left, right: (right, key)),
        "join columns": lambda one, other: one.join(other, Columns(lambda key, left, right: (key, left)), columns=True),
        "semijoin": lambda one, other: one.semijoin(other.map(lambda record: record[1])),
        "antijoin": lambda one, other: one.antijoin(other.map(lambda record: record[1])),
    },
    outside={
        "sum": lambda c: _numbers(c).reduce_sum(),
        "mean": lambda c: _numbers(c).reduce_mean(),
        "sum of anything": lambda c: c.filter(lambda record: not isinstance(record[1], _OTHER)).reduce_sum(),
        "count": lambda c: c.count(),
        "reduce": lambda c: c.threshold(clipped).reduce(lambda key, values: [len(values), key]),
        "records": lambda c: c.map(lambda record: ((record[1], record[0]), record)),
        "rows": lambda c: _without_names(
            c.map(Columns(lambda key, value: (key, value, key)), columns=["a", "b", "c"]).reduce_max()
        ),
        "rows of arrays": lambda c: _without_names(
            c.map(lambda key, value: (value, key, value), columns=["a", "b", "c"]).distinct()
        ),
    },
)
"""Operators that return pairs of values that they were given; outside of loops also others."""


@dataclass(frozen=True, slots=True)
class OddHistory:
    """The changes of inputs, and whether each input gets tables, and else lists."""

    changes: list[Change]
    are_tables: tuple[bool, ...]

    @property
    def has_large_counts(self) -> bool:
        """Whether counts may need more than 64 bits."""
        return any(abs(count) > 2 for change in self.changes for _, count in change.updates)

    def described(self, number: int, stream: Any) -> Any:
        """Return the collection of an input."""
        if self.are_tables[number]:
            return stream.as_collection(columns=[f"key {number}", f"value {number}"], diff="diff")
        return stream.as_collection(diff=True)

    def batch(self, change: Change) -> Any:
        """Return the batch that an input gets."""
        if not self.are_tables[change.input]:
            return [(with_new_nan(record), count) for record, count in change.updates]
        keys, values = zip(*(record for record, _ in change.updates), strict=True)
        counts = pa.array([count for _, count in change.updates], pa.int64())
        columns = {f"key {change.input}": column(keys), f"value {change.input}": column(values)}
        return pa.table({**columns, "diff": counts})


def with_new_nan(value: Any) -> Any:
    """Return a value in which each NaN is another object, as if it came from another process."""
    if isinstance(value, tuple):
        return tuple(map(with_new_nan, value))
    return float("nan") if isinstance(value, float) and math.isnan(value) else value


def column(values: Sequence[Any]) -> pa.Array:
    """Return values of one theme as an array."""
    is_large = any(isinstance(value, int) and value >= 2**63 for value in values)
    return pa.array(values, pa.uint64() if is_large else None)


SMALL_COUNTS = st.sampled_from((1, 1, 1, -1, 2))
LARGE_COUNTS = st.one_of(SMALL_COUNTS, st.sampled_from((2**40, -(2**62), 2**62, 2**63 - 1, -(2**63))))


@st.composite
def odd_histories(draw: st.DrawFn, epochs: int = 4) -> OddHistory:
    """Changes in the order in which they are sent; epochs never go back. Few values, so that they meet."""
    counts = draw(st.sampled_from((SMALL_COUNTS, SMALL_COUNTS, LARGE_COUNTS)))
    names = sorted(THEMES)
    keys = [draw(st.sampled_from(names))] * INPUTS if draw(st.booleans()) else [draw(st.sampled_from(names))]
    are_tables, records = [], []
    for number in range(INPUTS):
        are_tables.append(draw(st.booleans()))
        own = keys[number] if number < len(keys) else draw(st.sampled_from(names))
        if are_tables[-1]:
            key, value = THEMES[own], THEMES[draw(st.sampled_from(names))]
        else:
            key, value = (draw(st.sampled_from((THEMES[own], MIXED))) for _ in range(2))
        pools = [draw(st.lists(st.sampled_from(pool), min_size=1, max_size=4)) for pool in (key, value)]
        records.append(st.tuples(*map(st.sampled_from, pools)))
    epoch, found = 0, []
    for _ in range(draw(st.integers(1, 6))):
        epoch = min(epoch + draw(st.integers(0, 2)), epochs - 1)
        number = draw(st.integers(0, INPUTS - 1))
        updates = draw(st.lists(st.tuples(records[number], counts), min_size=1, max_size=6))
        found.append(Change(epoch, number, draw(st.integers(0, 3)), updates))
    return OddHistory(found, tuple(are_tables))


def plain_records(batch: Any) -> list[tuple[Any, int]]:
    """Return changes, whether they are a list or a table of keys, values and counts."""
    if isinstance(batch, list):
        return batch
    return [((_hashable(row["key"]), _hashable(row["value"])), row["diff"]) for row in batch.to_pylist()]


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def fits_a_table(records: Sequence[tuple[Any, Any]]) -> bool:
    """Tell whether each column of some pairs has values of one type that Arrow has."""
    for values in zip(*records, strict=True):
        kinds = set(map(type, values)) - {type(None)}
        if len(kinds) > 1 or kinds & {tuple, Fraction} or (kinds == {int} and not _fits(values)):
            return False
    return True


def _fits(values: Sequence[Any]) -> bool:
    whole = [value for value in values if value is not None]
    least, most = min(whole), max(whole)
    return bool((least >= -(2**63) and most < 2**63) or (least >= 0 and most < 2**64))


def rounded(record: Any) -> Any:
    """Return a record with its numbers to twelve digits."""
    if isinstance(record, tuple):
        return tuple(map(rounded, record))
    if isinstance(record, int | float) and not (abs(record) < 2**53 and record == int(record)):
        return with_one_nan(float(f"{float(record):.11e}"))
    return record
