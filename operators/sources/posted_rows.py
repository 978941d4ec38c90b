"""Conversion of JSON objects to an Arrow table, which refuses objects that would change.

Arrow truncates fractions, and leaves out values without a column. So values are compared with the table's. JSON has no
times and no bytes: whole numbers fit columns of times, and texts fit columns of bytes.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


class WrongRowError(ValueError):
    """A row does not fit the schema.

    Attributes:
        row: its number, from 0.
    """

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


def table_of_rows(rows: Sequence[Any], schema: "pa.Schema") -> "pa.Table":
    """Return a table with the schema and exactly the values of the rows; missing columns become null.

    Raises:
        WrongRowError: a row is not a dict, has other columns, or has values that their column cannot hold exactly.

    >>> import pyarrow as pa
    >>> table_of_rows([{"n": 1}, {}], pa.schema({"n": pa.int64()})).to_pylist()
    [{'n': 1}, {'n': None}]
    """
    import pyarrow as pa

    names = set(schema.names)
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise WrongRowError(number, f"a record is an object with the columns {', '.join(schema.names)}")
        if not row.keys() <= names:
            other = _shown(min(row.keys() - names))
            raise WrongRowError(number, f"there is no column {other}, but {', '.join(schema.names)}")
    columns = [_column([row.get(field.name) for row in rows], field) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(values: list[Any], field: "pa.Field") -> "pa.Array":
    from pyarrow import types

    made = _array(values, field)
    if _is_exact(values, field):
        return made
    found = values if types.is_temporal(field.type) else made.to_pylist()  # a time may be too large for Python's
    for number, (value, became) in enumerate(zip(values, found, strict=True)):
        if not _is_kept(value, became, field):
            raise WrongRowError(number, f"column {field.name!r}: {_shown(value)} is no {_named(field)}")
    return made


def _array(values: list[Any], field: "pa.Field") -> "pa.Array":
    import pyarrow as pa

    errors = pa.ArrowException, TypeError, ValueError, OverflowError
    try:
        return pa.array(values, field.type)
    except errors:
        for number, value in enumerate(values):
            try:
                pa.array([value], field.type)
            except errors:
                raise WrongRowError(number, f"column {field.name!r}: {_shown(value)} is no {_named(field)}") from None
        raise


def _shown(value: Any) -> str:
    return f"{value!r:.100}"


def _named(field: "pa.Field") -> str:
    return f"{field.type}{'' if field.nullable else ' that is not null'}"


def _is_exact(values: list[Any], field: "pa.Field") -> bool:
    """Tell whether Arrow keeps all values unchanged, judging by their types alone."""
    from pyarrow import types

    plain: dict[type, Callable[[Any], object]] = {
        bool: types.is_boolean,
        float: types.is_float64,
        int: lambda kind: types.is_integer(kind) or types.is_temporal(kind),
        str: types.is_string,
    }
    kinds = set(map(type, values))
    if field.nullable:
        kinds.discard(type(None))
    return all(kind in plain and plain[kind](field.type) for kind in kinds)


def _is_kept(value: Any, became: Any, field: "pa.Field") -> bool:
    from pyarrow import types

    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if value is None or became is None:
        return value is became and field.nullable
    if types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return (
            isinstance(value, dict)
            and value.keys() <= {inner.name for inner in fields}
            and all(_is_kept(value.get(inner.name), became[inner.name], inner) for inner in fields)
        )
    if types.is_map(kind):
        pairs = list(value.items() if isinstance(value, dict) else value)
        return len(pairs) == len(became) and all(
            _is_kept(key, came_key, kind.key_field) and _is_kept(item, came, kind.item_field)
            for (key, item), (came_key, came) in zip(pairs, became, strict=True)
        )
    if types.is_nested(kind):
        return len(value) == len(became) and all(
            _is_kept(item, came, kind.value_field) for item, came in zip(value, became, strict=True)
        )
    return _is_same(value, became, kind)


def _is_same(value: Any, became: Any, kind: "pa.DataType") -> bool:
    from pyarrow import types

    if isinstance(value, bool) or isinstance(became, bool):
        return value is became
    if types.is_temporal(kind):
        return isinstance(value, int)
    if types.is_floating(kind) and not types.is_float64(kind):  # a shorter number is rounded, but no other is infinite
        return isinstance(value, int | float) and abs(became) != float("inf")
    if isinstance(became, bytes):
        return bool(became == (value.encode() if isinstance(value, str) else value))
    return bool(value == became)
