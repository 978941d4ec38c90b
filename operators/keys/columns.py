"""The known columns of batches and streams, and the checks of them."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from tidewheel.batches.batches import Batch, is_arrow, shown, type_of_values
from tidewheel.operators.keys.arrow_rows import as_table
from tidewheel.progress import GraphError

if TYPE_CHECKING:
    import pyarrow as pa


class Expression(Protocol):
    """The part of a `pyarrow.compute.Expression`, such as ``pc.field("n") * 2``, that tidewheel needs."""

    def is_valid(self) -> Any:
        """Return an expression that is true for the rows in which this expression is not null."""


def is_expression(value: object) -> TypeGuard[Expression]:
    """Tell whether ``value`` is an Arrow expression, without importing Arrow."""
    compute = sys.modules.get("pyarrow.compute")
    return compute is not None and isinstance(value, compute.Expression)


def check_names(operator: str, schema: "pa.Schema | None", names: Sequence[str]) -> None:
    """Raise GraphError if a stream's known schema lacks one of these columns, or has one twice.

    >>> import pyarrow as pa
    >>> check_names("select", pa.schema({"word": pa.string()}), ["n"])
    Traceback (most recent call last):
        ...
    tidewheel.progress.errors.GraphError: operator 'select': there is no column 'n'; the stream has (word: string)
    """
    for name in names:
        if not isinstance(name, str) or not name:
            raise GraphError(f"operator {operator!r}: the name of a column is a non-empty string, not {name!r}")
        if schema is not None and schema.get_field_index(name) < 0:
            raise GraphError(f"operator {operator!r}: {_what_is_wrong(schema, name)}; the stream has {shown(schema)}")


def check_has(table: "pa.Table", names: Sequence[str]) -> None:
    """Raise TypeError if a table lacks one of these columns, or has one twice."""
    for name in names:
        if table.schema.get_field_index(name) < 0:
            raise TypeError(f"{_what_is_wrong(table.schema, name)}; a batch came with {shown(table.schema)}")


def _what_is_wrong(schema: "pa.Schema", name: str) -> str:
    often = schema.names.count(name)
    return f"there are {often} columns {name!r}" if often else f"there is no column {name!r}"


def check_same(came: "pa.Schema", expected: "pa.Schema") -> None:
    """Raise TypeError, naming the first wrong column, if the names or types of columns are not as expected.

    Metadata and nullability do not matter.
    """
    if came.equals(expected) or (came.names == expected.names and came.types == expected.types):
        return
    wrong = _wrong_names(came, expected) if came.names != expected.names else _wrong_type(came, expected)
    raise TypeError(f"{wrong}; a batch came with {shown(came)}, {shown(expected)} is expected")


def check_alike(came: "pa.Schema", expected: "pa.Schema") -> None:
    """Raise TypeError as `check_same` does, but ignore the index types of dictionaries."""
    if came.equals(expected):
        return
    check_same(_with_values(came), _with_values(expected))


def _with_values(schema: "pa.Schema") -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([field.with_type(type_of_values(field.type)) for field in schema])


def _wrong_names(came: "pa.Schema", expected: "pa.Schema") -> str:
    missing, added = (Counter(one.names) - Counter(other.names) for one, other in ((expected, came), (came, expected)))
    for name in missing:
        return f"column {name!r} is missing"
    for name in added:
        return f"column {name!r} is one too many"
    return "the columns are in another order"


def _wrong_type(came: "pa.Schema", expected: "pa.Schema") -> str:
    pairs = zip(came, expected, strict=True)
    one, other = next((one, other) for one, other in pairs if one.type != other.type)
    return f"column {one.name!r} is {one.type}, not {other.type}"


def common_schema(operator: str, schemas: "Sequence[pa.Schema | None]") -> "pa.Schema | None":
    """Return the common schema of these streams; None if a stream's schema is not known.

    Raises:
        GraphError: names or types of columns differ.
    """
    known = [schema for schema in schemas if schema is not None]
    for schema in known[1:]:
        if (schema.names, schema.types) != (known[0].names, known[0].types):
            raise GraphError(
                f"operator {operator!r}: one stream has {shown(known[0])} and another {shown(schema)}: "
                "bring them to the same columns by select(...) before"
            )
    return known[0] if len(known) == len(schemas) else None


def schema_after(
    operator: str, change: "Callable[[pa.Table], pa.Table]", schema: "pa.Schema | None"
) -> "pa.Schema | None":
    """Return the schema of ``change(table)`` for tables with ``schema``; None if ``schema`` is None.

    Raises:
        GraphError: ``change`` raises a TypeError or a ValueError.
    """
    if schema is None:
        return None
    try:
        return change(schema.empty_table()).schema
    except (TypeError, ValueError) as error:
        raise GraphError(f"operator {operator!r}: {error}") from error


def check_schema(batch: Batch, schema: "pa.Schema") -> Batch:
    """Return the batch if it has the columns of ``schema``; a structured array becomes a table.

    Raises:
        TypeError: the batch has other columns, or none.
    """
    if isinstance(batch, list):
        raise TypeError(f"a list came, where an Arrow table is expected with {shown(schema)}")
    table = batch if is_arrow(batch) else as_table(batch)
    check_same(table.schema, schema)
    return table
