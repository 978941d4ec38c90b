"""A column of a table has the values of the records, or the sink refuses them."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.kit.messages import raises
from tidewheel.connectors.base.table_rows import TableRows
from tidewheel.connectors.iceberg import IcebergError

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def stored(values: pa.Array, wanted: pa.DataType) -> list[Any]:
    """Return a column as a sink stores it; the first of three chunks is empty, and the others are slices."""
    column = pa.chunked_array([values.slice(0, 0), values.slice(0, 1), values.slice(1)])
    rows = TableRows("IcebergSink('sea.tides')", IcebergError).typed(
        pa.table({"tide": column}), pa.schema([("tide", wanted)])
    )
    found: list[Any] = rows.column("tide").to_pylist()
    return found


def kind_of(given: Any) -> str:
    return str(given.type if isinstance(given, pa.Array) else given)


def struct(**fields: pa.DataType) -> pa.StructType:
    return pa.struct(list(fields.items()))


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array([NOON]), pa.date32()),
        (pa.array([NOON]), pa.time64("us")),
        (pa.array([datetime(2026, 1, 2)]), pa.date32()),  # noqa: DTZ001
        (pa.array([date(2026, 1, 2)]), pa.timestamp("us")),
        (pa.array([NOON.replace(microsecond=1)]), pa.timestamp("ms", "UTC")),
        (pa.array([0.5, 1e300]), pa.float32()),
        (pa.array([0.5, 0.15]), pa.decimal128(5, 1)),
        (pa.array([Decimal("12345678901234567.89")]), pa.float64()),
        (pa.array([{"a": 1, "b": 2}]), struct(a=pa.int64())),
        (pa.array([{"a": "007"}]), struct(a=pa.int64())),
        (pa.array([{"a": 7}]), struct(a=pa.string())),
        (pa.array([["007"]]), pa.list_(pa.int64())),
        (pa.array([[True]]), pa.list_(pa.int64())),
        (pa.array([[NOON]]), pa.list_(pa.date32())),
        (pa.array([None, [{"a": [0.5]}, {"a": [0.15]}]]), pa.list_(struct(a=pa.list_(pa.decimal128(5, 1))))),
        (pa.array([[("a", 1)], [("b", 1e300)]], pa.map_("string", "float64")), pa.map_("string", "float32")),
        (pa.array([0.5, 0.15]).dictionary_encode(), pa.decimal128(5, 1)),
    ],
    ids=kind_of,
)
def test_a_value_that_would_change_is_refused(values: pa.Array, wanted: pa.DataType) -> None:
    """Also within lists, structs and maps; the error has both types."""
    with raises(IcebergError):
        stored(values, wanted)


@pytest.mark.parametrize(
    ("values", "wanted", "expected"),
    [
        (pa.array([0.1, None]), pa.float32(), [pytest.approx(0.1), None]),
        (pa.array([math.inf, -math.inf]), pa.float32(), [math.inf, -math.inf]),
        (pa.array([5836.16974, 0.1]), pa.decimal128(38, 10), [Decimal("5836.16974"), Decimal("0.1")]),
        (pa.array([Decimal("0.1"), Decimal("1.5")]), pa.float64(), [0.1, 1.5]),
        (pa.array([Decimal("1.50")]), pa.decimal128(9, 1), [Decimal("1.5")]),
        (pa.array([NOON]), pa.timestamp("s", "UTC"), [NOON]),
        (pa.array([{"a": 1}, None]), struct(b=pa.string(), a=pa.int32()), [{"b": None, "a": 1}, None]),
        (pa.array([[1.0], None]), pa.large_list(pa.field("element", pa.int8())), [[1], None]),
        (
            pa.array([[("a", 1.5)], None, [("b", 2)]], pa.map_("string", "float64")),
            pa.map_("large_string", pa.decimal128(9, 1)),
            [[("a", Decimal("1.5"))], None, [("b", Decimal(2))]],
        ),
        (pa.array(["low", None]).dictionary_encode(), pa.large_string(), ["low", None]),
        (pa.nulls(2), pa.list_(pa.int64()), [None, None]),
    ],
    ids=kind_of,
)
def test_a_value_may_have_another_type(values: pa.Array, wanted: pa.DataType, expected: list[Any]) -> None:
    """If it stays the same. A smaller float is the nearest one, since Python has only one type of floats."""
    assert stored(values, wanted) == expected


def test_no_float_is_not_another_one() -> None:
    """Though it differs from itself."""
    assert math.isnan(stored(pa.array([math.nan, 1.0]), pa.float32())[0])
