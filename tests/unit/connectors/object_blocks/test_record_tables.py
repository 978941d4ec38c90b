"""Batches of any kind as tables of one schema."""

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.kit.messages import raises
from tidewheel.connectors.object_blocks.record_tables import RecordTables
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.spark_types import SPARK

TABLE = pa.table({"name": ["a", None], "size": pa.array([1, 2], pa.int32())})


@pytest.mark.parametrize(
    "batch",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.slice(0),
        pa.table({"name": TABLE["name"].dictionary_encode(), "size": TABLE["size"]}),
        pa.table({"name": TABLE["name"].cast(pa.large_string()), "size": TABLE["size"].cast(pa.uint16())}),
    ],
    ids=["table", "record batch", "slice", "dictionary", "wide"],
)
def test_every_form_of_arrow_gives_the_same_table(batch: Any) -> None:
    """How a column is encoded, and in how many chunks, changes nothing in the rows."""
    table = RecordTables(SPARK).table(0, batch)
    assert table is not None
    assert table.equals(TABLE)


def test_dicts_become_columns() -> None:
    """A key that only some records have is a column of all, and null where it is missing."""
    tables = RecordTables(SPARK)
    table = tables.table(0, [{"a": 1}, {"a": 2, "b": [{"c": "x"}]}])
    assert table is not None
    assert table.to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": [{"c": "x"}]}]
    assert tables.schema == table.schema


def test_later_dicts_take_the_schema_of_the_first() -> None:
    """An int where the first batch had a float is a float; a missing column is null."""
    tables = RecordTables(SPARK)
    tables.table(0, [{"a": 1.5, "b": "x"}])
    table = tables.table(1, [{"a": 2}])
    assert table is not None
    assert table.to_pylist() == [{"a": 2.0, "b": None}]


def test_the_given_schema_types_dicts() -> None:
    """With schema= the first batch need not show the types, and an empty list has columns."""
    schema = pa.schema([("day", pa.date32()), ("n", pa.uint8())])
    tables = RecordTables(SPARK, schema)
    table = tables.table(0, [{"day": None, "n": 3}, {"day": datetime.date(2020, 1, 2)}])
    assert table is not None
    assert table.schema == tables.schema == pa.schema([("day", pa.date32()), ("n", pa.int16())])
    empty = tables.table(1, [])
    assert empty is not None
    assert (empty.num_rows, empty.schema) == (0, tables.schema)


def test_an_empty_list_tells_nothing() -> None:
    """Without schema= an empty list is passed over, and the next batch tells the columns."""
    tables = RecordTables(SPARK)
    assert tables.table(0, []) is None
    assert tables.schema is None
    tables.table(1, [{"a": 1}])
    assert tables.schema == pa.schema([("a", pa.int64())])


@pytest.mark.parametrize("time", [0, 7, np.int32(7), -(2**63), 2**63 - 1])
def test_the_time_is_added(time: Any) -> None:
    """Every row gets the time of its batch, in a 64-bit integer column at the end."""
    tables = RecordTables(SPARK, None, "at")
    table = tables.table(time, TABLE)
    assert table is not None
    assert table.schema.names == ["name", "size", "at"]
    assert table["at"].to_pylist() == [time, time]
    assert table.schema == tables.schema


@pytest.mark.parametrize("time", [(0, 1), "noon", 1.5, None, 2**63])
def test_times_that_are_no_integers_are_refused(time: Any) -> None:
    """A time of a loop, or of a domain of one's own, has no place in an integer column."""
    with raises(BridgeError):
        RecordTables(SPARK, None, "at").table(time, TABLE)


def test_a_time_column_that_exists_is_refused() -> None:
    """A column of the data is never overwritten."""
    with raises(BridgeError):
        RecordTables(SPARK, None, "size").table(3, TABLE)


def test_a_time_column_that_the_schema_has_is_refused_at_once() -> None:
    """Without any batch; Spark does not look at the case of names."""
    with raises(BridgeError):
        RecordTables(SPARK, pa.schema([("size", pa.int64())]), "Size")


@pytest.mark.parametrize(
    "other",
    [
        TABLE.select(["size", "name"]),
        TABLE.select(["name"]),
        TABLE.set_column(1, "size", TABLE["size"].cast(pa.int64())),
    ],
    ids=["order", "missing", "type"],
)
def test_differing_schemas_are_refused(other: Any) -> None:
    """The message shows both schemas and which batches have them."""
    tables = RecordTables(SPARK)
    tables.table(3, TABLE)
    with pytest.raises(BridgeError) as raised:
        tables.table(4, other)
    message = str(raised.value)
    assert "the batch at time 3 has (name: string, size: int32)" in message
    assert f"the batch at time 4 has the columns ({', '.join(f'{f.name}: {f.type}' for f in other.schema)})" in message


def test_a_table_that_differs_from_the_given_schema_is_refused() -> None:
    """What the user said about the columns is held against the first batch too."""
    with raises(BridgeError):
        RecordTables(SPARK, pa.schema([("a", pa.int64())])).table(0, TABLE)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([(1, 2)], r"holds \(1, 2\), a tuple, and Spark needs named columns"),
        ([{"a": 1}, 5], "holds 5, a int"),
        (np.arange(3), r"is a numpy\.ndarray"),
        ("text", r"is a builtins\.str"),
        ([{"a": 1}, {"a": "x"}], "does not fit in columns"),
        ([{"a": 2**70}], "does not fit in columns"),
        ([{"a": object()}], "does not fit in columns"),
        ([{"id": 1, "m": [("k", 1)]}], "the batch at time 0 does not fit in columns: column 'm': .*; pass schema="),
    ],
)
def test_batches_without_columns_are_refused(batch: Any, message: str) -> None:
    """Records without names, or that no column type holds, are refused with what to do about it."""
    with pytest.raises(BridgeError, match=message):
        RecordTables(SPARK).table(0, batch)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"a": 1, "c": 2}, r"records with 'c', which the batch at time 0 has not \(a: int64\)"),
        ({"a": 1.5}, r"does not fit in columns \(a: int64, as in the batch at time 0\)"),
    ],
)
def test_later_dicts_lose_nothing(record: dict[str, Any], message: str) -> None:
    """A value that the first batch's columns cannot hold is refused, not dropped or rounded."""
    tables = RecordTables(SPARK)
    tables.table(0, [{"a": 1}])
    with pytest.raises(BridgeError, match=message):
        tables.table(1, [record])


@pytest.mark.parametrize(
    ("kind", "whole", "broken"),
    [
        (pa.int32(), 2.0, 2.5),
        (pa.int64(), 2.0, float("nan")),
        (pa.uint8(), np.float32(2), np.float32(2.5)),
        (pa.list_(pa.int64()), [1, None, 2.0], [1, 2.5]),
        (pa.list_(pa.list_(pa.int64())), [[1], None], [[], [0.1]]),
        (pa.struct([("x", pa.int64()), ("y", pa.float64())]), {"x": 1, "y": 0.5}, {"x": 0.5}),
        (pa.map_(pa.string(), pa.int64()), {"k": 1}, {"k": 1.5}),
        (pa.map_(pa.int64(), pa.string()), [(1, "v")], [(1.5, "v")]),
    ],
    ids=str,
)
def test_fractions_are_never_cut_off(kind: Any, whole: Any, broken: Any) -> None:
    """A number with a fraction is refused where integers are wanted, at any depth, and a whole one is taken."""
    schema = pa.schema([("a", kind)])
    table = RecordTables(SPARK, schema).table(0, [{"a": None}, {"a": whole}])
    assert table is not None
    assert table.num_rows == 2
    with raises(BridgeError):
        RecordTables(SPARK, schema).table(0, [{"a": None}, {"a": broken}])


def test_values_that_would_be_rounded_are_refused() -> None:
    """Spark keeps microseconds: nanoseconds that would be lost are an error, whole microseconds are not."""
    whole, broken = (pa.table({"at": pa.array([value], pa.timestamp("ns"))}) for value in (1000, 1001))
    table = RecordTables(SPARK).table(0, whole)
    assert table is not None
    assert table["at"].cast(pa.int64()).to_pylist() == [1]
    with raises(BridgeError):
        RecordTables(SPARK).table(0, broken)
