"""Records with named columns: the first column is the key, and several other columns together are one value, a tuple.

So arrangements and exchanges need to know only pairs. Functions, expressions and tables have one column for each name.
"""

from collections.abc import Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, Any

import numpy as np

from tidewheel.batches.batches import is_numpy
from tidewheel.differential.joining import Joined
from tidewheel.differential.records import (
    Array,
    Column,
    array_of,
    as_column,
    as_pairs,
    column_of,
    columns_of,
    diffs_of,
    parts_of,
    row_column,
)
from tidewheel.operators.keys.columns import Expression
from tidewheel.operators.tables.projection import Projection

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS = {"null": ("string", "float64", "timestamp[us]"), "int64": ("int64", "uint64")}
"""Other types to which a column of a type may be cast for Arrow's functions.

Each function accepts nulls of one of these types, or no nulls. It compares numbers of 2**63 or more only with uint64.
"""
_MOST_TRIES = 100


def folded(columns: Sequence[Column]) -> Sequence[Column]:
    """Return the columns of rows as key and value; if there are more than two, the value is a tuple.

    >>> [column.tolist() for column in folded([np.array([1]), np.array([2]), np.array([0.5])])]
    [[1], [(2, 0.5)]]
    """
    return columns if len(columns) <= 2 else [columns[0], row_column(columns[1:])]


def unfolded(array: Array, names: Sequence[str]) -> list[Column]:
    """Return a column for each name; the reverse of `folded`.

    Raises:
        TypeError: the number of columns differs.
    """
    if len(names) == 1 and array.dtype.names == ("key", "diff"):
        return columns_of(array)
    if len(names) == 1:
        raise _is_no_row(names, array[["key", "value"]][0].item())
    key, value = columns_of(as_pairs(array, f"a collection with the columns {', '.join(names)}"))
    return [key, *_parts(value, names)]


def _parts(value: Column, names: Sequence[str]) -> list[Column]:
    if len(names) == 2:
        return [value]
    if value.dtype.names and len(value.dtype.names) == len(names) - 1:
        return parts_of(value)
    rows = value.tolist()
    wrong = [row for row in rows if not (type(row) is tuple and len(row) == len(names) - 1)]
    if wrong:
        raise _is_no_row(names, ("key", wrong[0]))
    return [column_of(part) for part in zip(*rows, strict=True)] if rows else [value] * (len(names) - 1)


def _is_no_row(names: Sequence[str], record: Any) -> TypeError:
    rows = ("single values", "pairs (key, value)")[len(names) - 1 :] or (f"(key, tuple of {len(names) - 1} values)",)
    return TypeError(
        f"the columns {', '.join(names)} are those of records that are {rows[0]}, and {record!r} is none: "
        "name as many columns as the records have, in columns=[...]"
    )


def joined_columns(left: Sequence[str], right: Sequence[str], joined: Joined) -> list[Column]:
    key, *sides = joined.columns
    parts = [_parts(side, names or ("key", "value")) for side, names in zip(sides, (left, right), strict=True)]
    return [key, *parts[0], *parts[1]]


def project_rows(left: Sequence[str], right: Sequence[str], joined: Joined) -> Sequence[Column]:
    return folded(joined_columns(left, right, joined))


def selected(projection: Projection, names: Sequence[str], array: Array) -> Array:
    columns = dict(zip(names, unfolded(array, names), strict=True))
    made = {name: columns[name] for name in projection.names}
    if projection.expressions:
        table = _projected(Projection((), projection.expressions), _table(columns))
        made |= {name: column_from(table[name]) for name in projection.expressions}
    return array_of(folded(list(made.values())), array["diff"])


def kept_by(condition: Expression, names: Sequence[str], array: Array) -> Array:
    """Return the updates whose records satisfy ``condition``; null counts as false.

    Raises:
        ValueError: the expression cannot be computed, or is not a condition.
    """
    table = _table(dict(zip(names, unfolded(array, names), strict=True)))
    is_kept = _projected(Projection((), {"condition": condition}), table)["condition"]
    if str(is_kept.type) not in {"bool", "null"}:
        raise ValueError(f"{condition} is no condition, as it is of type {is_kept.type}: compare it, such as with > 0")
    found: Array = array[np.asarray(is_kept.cast("bool").fill_null(False))]
    return found


def as_table(names: Sequence[str], types: "pa.Schema | None", array: Array) -> "pa.Table":
    """Return an Arrow table with the columns of the records and the column ``diff``.

    Raises:
        TypeError: the number of columns differs, or the values of a column have no common type.
    """
    return _table({**dict(zip(names, unfolded(array, names), strict=True)), "diff": diffs_of(array)}, types)


def schema_with_diff(types: "pa.Schema") -> "pa.Schema":
    """Return the schema of tables that `as_table` makes."""
    import pyarrow as pa

    return types.append(pa.field("diff", pa.int64()))


def _table(columns: dict[str, Column], types: "pa.Schema | None" = None) -> "pa.Table":
    import pyarrow as pa

    from tidewheel.batches.arrow_columns import exact_array

    kinds = {} if types is None else dict(zip(types.names, types.types, strict=True))
    made = {}
    for name, column in columns.items():
        try:
            if column.dtype.kind == "O" and name not in kinds:
                made[name] = exact_array(column.tolist())
            else:
                values = column.tolist() if column.dtype.kind == "O" else np.ascontiguousarray(column)
                made[name] = pa.array(values, kinds.get(name))
        except (pa.ArrowException, OverflowError, TypeError, UnicodeError) as error:
            raise TypeError(
                f"column {name!r} has values that are not of {kinds.get(name, 'one type')}: {error}. Convert them, "
                "such as by map(), or give changes() a schema"
            ) from error
    return pa.table(made)


def _projected(projection: Projection, table: "pa.Table") -> "pa.Table":
    """Return the columns that expressions compute from a table; the values decide their types.

    Some functions of Arrow reject columns without type, so columns of nulls get a type first.
    """
    import pyarrow as pa

    try:
        return projection.of(table)
    except ValueError:
        other = {place: _KINDS[str(kind)] for place, kind in enumerate(table.schema.types) if str(kind) in _KINDS}
        for kinds in islice(product(*other.values()), _MOST_TRIES if other else 0):
            schema = table.schema
            for place, kind in zip(other, kinds, strict=True):
                schema = schema.set(place, schema.field(place).with_type(pa.type_for_alias(kind)))
            try:
                return projection.of(table.cast(schema))
            except ValueError:
                continue
        raise


def column_from(values: Any) -> Column:
    """Convert a column of a table, a structured array or an Arrow array; null becomes None."""
    if is_numpy(values):
        return as_column(values)
    kind = str(values.type)
    if values.null_count or not kind.startswith(("int", "float", "double", "uint8", "uint16", "uint32")):
        return column_of(values.to_pylist())
    return as_column(values.to_numpy())
