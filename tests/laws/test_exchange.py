"""Hashes of columns against those of their values, and how an exchange splits a batch by them."""

import datetime as dt
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.batches.batches import records
from tidewheel.runtime.description.pacts import Exchange, Key
from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.description.stable_hash import hash_column, hash_integers, hash_tuples, stable_hash

# ---------------------------------------------------------------------- columns


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A type of Arrow column and what values to fill it with; the values are equal to its elements if ``natural``."""

    type: Any
    values: st.SearchStrategy[Any]
    natural: bool = True


def whole(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


def decimals(digits: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda number: Decimal(number).scaleb(-2))


_SECONDS = st.integers(-(2**33), 2**33)
_PER_SECOND = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}


def ticks(unit: str) -> st.SearchStrategy[int]:
    per_second = _PER_SECOND[unit]
    return st.builds(lambda second, part: second * per_second + part, _SECONDS, st.integers(0, per_second - 1))


COLUMNS: dict[str, ColumnKind] = {
    **{f"int{bits}": ColumnKind(getattr(pa, f"int{bits}")(), whole(bits, signed=True)) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": ColumnKind(getattr(pa, f"uint{bits}")(), whole(bits, signed=False)) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": ColumnKind(getattr(pa, f"float{bits}")(), st.floats(width=bits)) for bits in (16, 32, 64)},
    "whole floats": ColumnKind(pa.float64(), st.integers(-(2**53), 2**53).map(float)),
    "bool": ColumnKind(pa.bool_(), st.booleans()),
    "null": ColumnKind(pa.null(), st.none()),
    "string": ColumnKind(pa.string(), st.text(max_size=5)),
    "large string": ColumnKind(pa.large_string(), st.text(max_size=5)),
    "string view": ColumnKind(pa.string_view(), st.text(max_size=20)),
    "binary": ColumnKind(pa.binary(), st.binary(max_size=5)),
    "large binary": ColumnKind(pa.large_binary(), st.binary(max_size=5)),
    "fixed binary": ColumnKind(pa.binary(2), st.binary(min_size=2, max_size=2)),
    "dictionary": ColumnKind(pa.dictionary(pa.int8(), pa.string()), st.text("ab", max_size=2)),
    "dictionary of integers": ColumnKind(pa.dictionary(pa.int32(), pa.int64()), st.integers(-3, 3)),
    "date32": ColumnKind(pa.date32(), st.dates()),
    "date64": ColumnKind(pa.date64(), st.dates()),
    "time32": ColumnKind(pa.time32("s"), st.times().map(lambda time: time.replace(microsecond=0))),
    "time64": ColumnKind(pa.time64("us"), st.times()),
    "datetimes": ColumnKind(pa.timestamp("us"), st.datetimes()),
    **{f"timestamp[{unit}]": ColumnKind(pa.timestamp(unit), ticks(unit), natural=False) for unit in _PER_SECOND},
    **{
        f"timestamp[{unit}, {zone}]": ColumnKind(pa.timestamp(unit, zone), ticks(unit), natural=False)
        for unit, zone in (("s", "UTC"), ("us", "Europe/Paris"), ("ns", "America/New_York"), ("ms", "+05:30"))
    },
    **{f"duration[{unit}]": ColumnKind(pa.duration(unit), ticks(unit), natural=False) for unit in _PER_SECOND},
    "decimal32": ColumnKind(pa.decimal32(9, 2), decimals(9)),
    "decimal64": ColumnKind(pa.decimal64(18, 2), decimals(18)),
    "decimal128": ColumnKind(pa.decimal128(38, 2), decimals(28)),
    "decimal256": ColumnKind(pa.decimal256(76, 2), decimals(28)),
}


def chunked(values: list[Any], cuts: list[int], kind: Any) -> Any:
    """Return a column of one chunk between any two cuts."""
    bounds = sorted(min(cut, len(values)) for cut in cuts)
    pieces = zip([0, *bounds], [*bounds, len(values)], strict=True)
    return pa.chunked_array([pa.array(values[start:stop], kind) for start, stop in pieces], kind)


@pytest.mark.parametrize("name", COLUMNS)
@law_settings(20)
@given(data=st.data(), cuts=st.lists(st.integers(0, 8), max_size=2), nulls=st.booleans())
def test_a_column_hashes_as_its_values_do(name: str, data: st.DataObject, cuts: list[int], nulls: bool) -> None:
    """For every type, with and without nulls, in any chunks: the same as one value at a time, and as Python's own."""
    kind = COLUMNS[name]
    values = data.draw(st.lists(kind.values | st.none() if nulls else kind.values, max_size=8))
    column = chunked(values, cuts, kind.type)
    hashes = hash_column(column)
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [stable_hash(scalar.as_py()) for scalar in column]
    assert hash_column(column.combine_chunks()).tolist() == hashes.tolist()
    if kind.natural:
        assert hashes.tolist() == [stable_hash(value) for value in values]


def test_floats_that_are_special_hash_as_pythons() -> None:
    """Not a number, the infinities, both zeros and whole floats meet the Python floats and ints that they equal."""
    values = [math.nan, math.inf, -math.inf, -0.0, 0.0, 3.0, -1.0, 1e300, None]
    for kind in (pa.float32(), pa.float64()):
        column = pa.array([value for value in values if kind == pa.float64() or value != 1e300], kind)
        assert hash_column(column).tolist() == [stable_hash(value.as_py()) for value in column]
    assert hash_column(pa.array([-0.0, 3.0, -1.0])).tolist() == [stable_hash(key) for key in (0, 3, -1)]
    assert hash_column(pa.array([math.nan, -math.nan])).tolist() == [stable_hash(math.nan)] * 2


def test_a_dictionary_may_have_nulls_repetitions_and_values_that_are_not_used() -> None:
    """A dictionary column hashes by its values, wherever the null comes from."""
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 0], pa.uint8()), pa.array(["x", None, "x", "y"]))
    assert hash_column(column).tolist() == [stable_hash(key) for key in ("x", None, None, "x", "x")]
    chunks = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", "c"]).dictionary_encode()])
    assert hash_column(chunks).tolist() == [stable_hash(key) for key in "abbc"]


@pytest.mark.parametrize("column", [pa.array([[1]]), pa.array([{"n": 1}])])
def test_columns_of_lists_and_structs_are_refused(column: Any) -> None:
    """They are no keys; the error says what is."""
    with pytest.raises(TypeError, match=r"of type (list|dict) cannot be a key"):
        hash_column(column)


@law_settings(50)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(max_size=3)), max_size=6))
def test_tuples_hash_by_columns_as_they_do_one_by_one(rows: list[tuple[int, str]]) -> None:
    """Several columns are one key: the tuple of their values."""
    columns = [pa.array([row[0] for row in rows], pa.int64()), pa.array([row[1] for row in rows], pa.string())]
    assert hash_tuples([hash_column(column) for column in columns]).tolist() == [stable_hash(row) for row in rows]


@pytest.mark.parametrize("width", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
def test_arrays_of_integers_hash_as_their_elements_do(width: str) -> None:
    """The least and the greatest of every width among them."""
    bounds = [False, True] if width == "?" else [np.iinfo(width).min, np.iinfo(width).max, 0, 1]
    array = np.array(bounds, dtype=width)
    assert hash_integers(array).tolist() == [stable_hash(value) for value in array.tolist()]


@pytest.mark.parametrize("kind", ["M8", "m8"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_numpy_meet_those_of_arrow(kind: str, unit: str) -> None:
    """A column of moments or durations of any unit hashes as in Arrow, in an array with fields and one by one."""
    times = np.array([0, 1, -1, 1_717_243_200, 7, 8, 9], dtype="i8").astype(f"{kind}[{unit}]")
    array = np.array(list(zip(times, range(7), strict=True)), dtype=[("time", times.dtype), ("row", "i8")])
    table = pa.table({"time": pa.array(times), "row": range(7)})
    rows = [[None if part is None else list(part["row"]) for part in Exchange("time").split(array, 3)]]
    rows += [[None if part is None else part["row"].to_pylist() for part in Exchange("time").split(table, 3)]]
    assert rows[0] == rows[1]
    assert hash_column(table["time"]).tolist() == [stable_hash(time) for time in times]


# ---------------------------------------------------------------------- splitting

_VALUES = (
    st.integers(-3, 3),
    st.sampled_from(["a", "b", "ü", ""]),
    st.booleans(),
    st.sampled_from([0.1, -1.0, 1e9, 7.25]),
)
ROWS = st.lists(st.tuples(*_VALUES), max_size=10)
NAMES = ("n", "text", "flag", "x")


def _table(rows: list[dict[str, Any]]) -> Any:
    fields = [
        ("n", pa.int64()),
        ("text", pa.dictionary(pa.int8(), pa.string())),
        ("flag", pa.bool_()),
        ("x", pa.float64()),
    ]
    return pa.Table.from_pylist(rows, pa.schema(fields))


MAKERS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "list": list,
    "table": _table,
    "record batch": lambda rows: pa.RecordBatch.from_pylist(rows, _table([]).schema),
    "structured array": lambda rows: np.array(
        [tuple(row.values()) for row in rows], dtype=[("n", "i4"), ("text", "U2"), ("flag", "?"), ("x", "f8")]
    ),
}


def owner(row: dict[str, Any], key: Key, workers: int) -> int:
    """Say whose a row is, one row at a time."""
    if callable(key):
        return owner_of(key(row), workers)
    return owner_of(row[key] if isinstance(key, str) else tuple(row[name] for name in key), workers)


@pytest.mark.parametrize("kind", MAKERS)
@law_settings(40)
@given(
    values=ROWS,
    key=st.sampled_from(["n", "text", "flag", "x", ("n",), ("n", "text"), ("flag", "text", "n")]),
    workers=st.integers(1, 5),
)
def test_every_kind_is_split_the_same(kind: str, values: list[tuple[Any, ...]], key: Key, workers: int) -> None:
    """A row has the same owner whatever batch it is in; each part has its owner's rows, in order."""
    rows = [dict(zip(NAMES, value, strict=True)) for value in values]
    batch = MAKERS[kind](rows)
    parts = Exchange(key).split(batch, workers)
    assert len(parts) == workers
    for worker, part in enumerate(parts):
        found = [] if part is None else records(part)
        own = [row for row in rows if owner(row, key, workers) == worker]
        assert found == ([tuple(row.values()) for row in own] if kind == "structured array" else own)
        assert part is None or own or not rows


@pytest.mark.parametrize("kind", ["list", "table", "record batch"])
@law_settings(20)
@given(values=ROWS, workers=st.integers(2, 4))
def test_a_function_is_a_key_for_every_kind(kind: str, values: list[tuple[Any, ...]], workers: int) -> None:
    """It gets each record, a dict for a row of Arrow, and its result is the key."""
    rows = [dict(zip(NAMES, value, strict=True)) for value in values]

    def key(row: dict[str, Any]) -> Any:
        return row["n"] % 2, row["text"]

    parts = Exchange(key).split(MAKERS[kind](rows), workers)
    for worker, part in enumerate(parts):
        own = [row for row in rows if owner(row, key, workers) == worker]
        assert ([] if part is None else records(part)) == own


@law_settings(20)
@given(numbers=st.lists(st.integers(-50, 50), max_size=10), workers=st.integers(2, 4))
def test_plain_arrays_are_split_by_a_function(numbers: list[int], workers: int) -> None:
    """An array without fields has no names; a function gets its elements as Python scalars."""
    parts = Exchange(lambda number: number // 2).split(np.array(numbers, np.int64), workers)
    for worker, part in enumerate(parts):
        own = [number for number in numbers if owner_of(number // 2, workers) == worker]
        assert ([] if part is None else part.tolist()) == own


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (pa.table({"m": [1]}), r"no column 'n' to exchange by; the batch has \['m'\]"),
        (np.array([(1,)], dtype=[("m", "i4")]), "no field 'n' to exchange by; the array's dtype is "),
        (np.array([1]), "no field 'n' to exchange by; the array's dtype is int64"),
        ([{"m": 1}], "n"),
    ],
)
def test_a_name_that_a_batch_does_not_have_is_an_error(batch: Any, message: str) -> None:
    """The error says what the batch has instead."""
    with pytest.raises(KeyError, match=message):
        Exchange("n").split(batch, 2)


def test_a_list_is_split_by_keys_of_any_type() -> None:
    """Records with all kinds of keys may be in one list."""
    keys = [uuid.UUID(int=1), dt.date(2024, 6, 1), dt.timedelta(1), Decimal("0.1"), None, (1, "a")]
    parts = Exchange(lambda key: key).split(keys, 2)
    assert sorted(map(str, [key for part in parts if part for key in part])) == sorted(map(str, keys))


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_times_outside_the_years_of_python_have_an_owner(zone: str | None) -> None:
    """The end of the year 9999, as people write for ever, or later, is a key like any other; so is null."""
    column = pa.array([400_000_000_000, 253_402_300_799, 0, None], pa.timestamp("s", zone))
    hashes = hash_column(column)
    assert len(set(hashes.tolist())) == 4
    assert hashes[3] == stable_hash(None)
    assert hashes[2] == stable_hash(column[2].as_py())
