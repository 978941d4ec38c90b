"""The Arrow types that Spark reads, and the types as which it reads them."""

import re
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from tests.kit.messages import raises
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.spark_types import arrow_type, readable_schema, readable_type, spark_schema, spark_type

UNCHANGED = [
    (pa.null(), spark.NullType()),
    (pa.bool_(), spark.BooleanType()),
    (pa.int8(), spark.ByteType()),
    (pa.int16(), spark.ShortType()),
    (pa.int32(), spark.IntegerType()),
    (pa.int64(), spark.LongType()),
    (pa.float32(), spark.FloatType()),
    (pa.float64(), spark.DoubleType()),
    (pa.string(), spark.StringType()),
    (pa.binary(), spark.BinaryType()),
    (pa.date32(), spark.DateType()),
    (pa.timestamp("us"), spark.TimestampNTZType()),
    (pa.timestamp("us", "UTC"), spark.TimestampType()),
    (pa.duration("us"), spark.DayTimeIntervalType()),
    (pa.decimal128(38, 10), spark.DecimalType(38, 10)),
    (pa.list_(pa.list_(pa.int32())), spark.ArrayType(spark.ArrayType(spark.IntegerType()))),
    (pa.map_(pa.string(), pa.float64()), spark.MapType(spark.StringType(), spark.DoubleType())),
    (pa.struct([("a", pa.int8())]), spark.StructType([spark.StructField("a", spark.ByteType())])),
]
CHANGED = [
    (pa.uint8(), pa.int16()),
    (pa.uint16(), pa.int32()),
    (pa.uint32(), pa.int64()),
    (pa.uint64(), pa.decimal128(20, 0)),
    (pa.float16(), pa.float32()),
    (pa.large_string(), pa.string()),
    (pa.string_view(), pa.string()),
    (pa.large_binary(), pa.binary()),
    (pa.binary(4), pa.binary()),
    (pa.date64(), pa.date32()),
    (pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC")),
    (pa.duration("s"), pa.duration("us")),
    (pa.decimal256(30, 2), pa.decimal128(30, 2)),
    (pa.large_list(pa.uint8()), pa.list_(pa.int16())),
    (pa.list_(pa.int8(), 3), pa.list_(pa.int8())),
    (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
    (pa.struct([("a", pa.dictionary(pa.int8(), pa.uint8()))]), pa.struct([("a", pa.int16())])),
]
VARIANT = pa.struct([("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={"variant": "true"})])
FOREIGN = [
    pa.time64("us"),
    VARIANT,
    pa.list_(VARIANT),
    pa.month_day_nano_interval(),
    pa.decimal256(60, 2),
    pa.list_(pa.time32("s")),
    pa.map_(pa.string(), pa.time32("s")),
    pa.struct([("a", pa.time32("s"))]),
    pa.sparse_union([pa.field("a", pa.int8())]),
]


@pytest.mark.parametrize(("kind", "expected"), UNCHANGED, ids=str)
def test_types_of_spark_stay_and_are_named(kind: Any, expected: spark.DataType) -> None:
    """What Spark itself would choose is left alone, and read as what it came from."""
    assert readable_type(kind) == kind
    assert spark_type(kind) == expected
    assert arrow_type(expected) == kind


@pytest.mark.parametrize(("kind", "expected"), CHANGED, ids=str)
def test_other_types_become_what_spark_reads(kind: Any, expected: Any) -> None:
    """A type that Spark would misread from the buffers is turned into one that holds the same values."""
    assert readable_type(kind) == expected
    assert spark_type(expected) is not None


@pytest.mark.parametrize("kind", FOREIGN, ids=str)
def test_types_without_a_counterpart_are_refused(kind: Any) -> None:
    """Also deep inside another type; the message names column, type and batch."""
    assert readable_type(kind) is None
    with pytest.raises(BridgeError, match=rf"column 'x' of the table is {re.escape(str(kind))}, which Spark"):
        readable_schema(pa.schema([("x", kind)]), "the table")


@pytest.mark.parametrize("kind", [spark.YearMonthIntervalType(), spark.DataType()], ids=str)
def test_types_of_spark_without_a_counterpart_have_no_arrow_type(kind: spark.DataType) -> None:
    """Also deep inside another type."""
    assert arrow_type(kind) is None
    assert arrow_type(spark.ArrayType(kind)) is None
    assert arrow_type(spark.MapType(spark.StringType(), kind)) is None
    assert arrow_type(spark.StructType([spark.StructField("x", kind)])) is None


@pytest.mark.parametrize("name", ["x", "X"])
def test_two_columns_of_one_name_are_refused(name: str) -> None:
    """Spark would fail later, at the first use of the name."""
    with raises(BridgeError):
        readable_schema(pa.schema([("x", pa.int8()), (name, pa.int8())]), "the table")


def test_a_schema_is_turned_column_by_column() -> None:
    """Metadata and nullability, which differ from batch to batch, do not make two schemas differ."""
    plain = pa.schema([("x", pa.int64())])
    marked = pa.schema([pa.field("x", pa.uint32(), nullable=False)], metadata={"a": "b"})
    assert readable_schema(marked, "it").equals(plain, check_metadata=True)
    assert spark_schema(plain) == spark.StructType([spark.StructField("x", spark.LongType(), nullable=True)])
