"""Records as rows of a table with typed columns; a value that its column would change is an error."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidewheel.batches.batches import Batch
from tidewheel.operators.files.schema_fit import cast_exactly, is_castable
from tidewheel.operators.sinks.file_formats import table_of
from tidewheel.progress.errors import TidewheelError

if TYPE_CHECKING:
    import pyarrow as pa


class TableRows:
    """Makes rows for one sink.

    Args:
        whose: the sink, for errors.
        error: makes the exception from a message.
    """

    def __init__(self, whose: str, error: Callable[[str], TidewheelError]) -> None:
        self._whose = whose
        self._error = error

    def untyped(self, batch: Batch) -> "pa.Table":
        """Return records as a table with the types of their values; raise if they have no common columns."""
        try:
            return table_of([batch])
        except TypeError as error:
            raise self._error(f"{self._whose}: {error}") from error

    def typed(self, batch: Batch, schema: "pa.Schema") -> "pa.Table":
        """Return records with the columns of a table; columns that they lack are null.

        Raise if the table lacks a column, a value does not fit into its column, or a null is not allowed.

        >>> import pyarrow as pa
        >>> tides = pa.schema([("hour", pa.int32()), ("height", pa.float64())])
        >>> TableRows("the sink", ValueError).typed([{"hour": 4}], tides).to_pylist()
        [{'hour': 4, 'height': None}]
        """
        import pyarrow as pa

        found = self.untyped(batch)
        if not found.schema.equals(schema):
            if unknown := [name for name in found.column_names if name not in schema.names]:
                raise self._error(
                    f"{self._whose}: records have the columns {unknown}, and the table has {schema.names}. Leave them "
                    "out, or add them to the table, which the sink does not"
                )
            found = pa.table([self._column(found, field) for field in schema], schema=schema)
        for field, column in zip(schema, found.columns, strict=True):
            if not field.nullable and column.null_count:
                raise self._error(
                    f"{self._whose}: column {field.name!r} of the table must not be null, and is in "
                    f"{column.null_count} records"
                )
        return found

    def _column(self, found: "pa.Table", field: "pa.Field") -> "pa.ChunkedArray":
        import pyarrow as pa

        if field.name not in found.column_names:
            return pa.chunked_array([pa.nulls(found.num_rows, field.type)])
        column = found.column(field.name)
        why = ""
        if column.type == field.type:
            return column
        if is_castable(column.type, field.type):
            try:
                return pa.chunked_array([cast_exactly(one, field.type) for one in column.chunks], field.type)
            except ValueError as error:
                why = f" ({error})"
        raise self._error(
            f"{self._whose}: column {field.name!r} of the table is {field.type}, and records have {column.type}, whose "
            f"values would change{why}"
        )
