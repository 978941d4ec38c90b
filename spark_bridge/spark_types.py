"""The Arrow types that Spark reads, the Spark types that they become, and the names of columns.

Spark reads a record batch by Spark's own schema, not by the batch's schema. So each Arrow type must be exactly the type
that Spark expects. ``readable_type`` returns that type, wide enough for all values; ``spark_schema`` returns Spark's
types. ``arrow_type`` is for the opposite direction.

The bridge supports the types of Spark 3.5, which all supported releases have. It refuses the additional types of Spark
4, such as times of day and variants.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
)

from tidewheel.connectors.object_blocks.record_tables import TableReader
from tidewheel.spark_bridge.errors import BridgeError

_MOST_DIGITS = 38

_PLAIN: Final[Mapping[pa.DataType, type[DataType]]] = {
    pa.null(): NullType,
    pa.bool_(): BooleanType,
    pa.int8(): ByteType,
    pa.int16(): ShortType,
    pa.int32(): IntegerType,
    pa.int64(): LongType,
    pa.float32(): FloatType,
    pa.float64(): DoubleType,
    pa.string(): StringType,
    pa.binary(): BinaryType,
    pa.date32(): DateType,
    pa.timestamp("us"): TimestampNTZType,
    pa.timestamp("us", "UTC"): TimestampType,
    pa.duration("us"): DayTimeIntervalType,
}
"""The types without parts or parameters."""

_MARKS_OF_SPARK = {b"variant", b"geometry", b"geography"}
"""The metadata of a struct's field that make Spark take the struct for a value of Spark 4, such as a variant."""


def readable_schema(schema: pa.Schema, where: str) -> pa.Schema:
    """Return ``schema`` with the types that Spark reads, every field nullable and without metadata.

    Raises:
        BridgeError: two columns have the same name apart from case, or Spark has no type for a column. The message has
            ``where``, the origin of the schema.
    """
    fields = []
    for field in schema:
        kind = readable_type(field.type)
        if kind is None:
            raise BridgeError(
                f"column {field.name!r} of {where} is {field.type}, which Spark has no type for: cast it first"
            )
        fields.append(pa.field(field.name, kind))
    if len({name.casefold() for name in schema.names}) < len(schema.names):
        raise BridgeError(
            f"{where} has several columns of one name, whose case Spark does not look at ({', '.join(schema.names)}): "
            "rename them"
        )
    return pa.schema(fields)


SPARK = TableReader("Spark", "DataFrame", "to_spark", BridgeError, readable_schema)


def readable_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the Arrow type as which Spark can read values of ``kind``; None if there is none.

    >>> import pyarrow as pa
    >>> readable_type(pa.dictionary(pa.int8(), pa.uint32()))
    DataType(int64)
    """
    types = pa.types
    if types.is_dictionary(kind):
        return readable_type(kind.value_type)
    if types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= _MOST_DIGITS else None
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if types.is_duration(kind):
        return pa.duration("us")
    if types.is_nested(kind):
        return _readable_nested(kind)
    widened = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
        pa.large_string(): pa.string(),
        pa.string_view(): pa.string(),
        pa.large_binary(): pa.binary(),
        pa.binary_view(): pa.binary(),
        pa.date64(): pa.date32(),
    }
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    return widened.get(kind, kind if kind in _PLAIN else None)


def spark_schema(fields: Iterable[pa.Field]) -> StructType:
    """Return the Spark schema of fields from ``readable_schema``."""
    return StructType([StructField(field.name, spark_type(field.type)) for field in fields])


def spark_type(kind: pa.DataType) -> DataType:
    """Return Spark's type for an Arrow type from ``readable_type``."""
    if pa.types.is_list(kind):
        return ArrayType(spark_type(kind.value_type))
    if pa.types.is_map(kind):
        return MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    if pa.types.is_struct(kind):
        return spark_schema(kind)
    if pa.types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return TimestampType()
    return _PLAIN[kind]()


def arrow_type(kind: DataType) -> pa.DataType | None:
    """Return the Arrow type as which Spark writes values of ``kind``; None if it cannot.

    >>> arrow_type(ArrayType(LongType()))
    ListType(list<item: int64>)
    """
    if isinstance(kind, StructType):
        fields = [(field.name, arrow_type(field.dataType)) for field in kind]
        return None if any(part is None for _, part in fields) else pa.struct(fields)
    if isinstance(kind, ArrayType):
        item = arrow_type(kind.elementType)
        return None if item is None else pa.list_(item)
    if isinstance(kind, MapType):
        key, value = arrow_type(kind.keyType), arrow_type(kind.valueType)
        return None if key is None or value is None else pa.map_(key, value)
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, UserDefinedType):
        return arrow_type(kind.sqlType())
    return next((arrow for arrow, spark in _PLAIN.items() if isinstance(kind, spark)), None)


def quoted(column: str) -> str:
    """Return ``column`` quoted so that Spark finds exactly this name, dots and backquotes included.

    >>> quoted("net.price")
    '`net.price`'
    """
    return "`" + column.replace("`", "``") + "`"


def _readable_nested(kind: pa.DataType) -> pa.DataType | None:
    types = pa.types
    if types.is_map(kind):
        parts = [readable_type(kind.key_type), readable_type(kind.item_type)]
        return None if None in parts else pa.map_(*parts)
    if types.is_struct(kind):
        if any(_MARKS_OF_SPARK & set(field.metadata or ()) for field in kind):
            return None
        fields = [(field.name, readable_type(field.type)) for field in kind]
        return None if any(part is None for _, part in fields) else pa.struct(fields)
    if not hasattr(kind, "value_type"):
        return None  # a union
    item = readable_type(kind.value_type)
    return None if item is None else pa.list_(item)
