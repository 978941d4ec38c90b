"""The columns of one file as those of all files: what happens when files differ.

A column that is missing is null. One of another type is cast if no value changes. One that the others do not have is an
error, or left out if the schema was given. All else is an error that names the file and the column.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class SchemaFit:
    """Fits batches to a schema.

    Args:
        schema: the columns that results have, in order.
        leaves_out: whether other columns are left out; otherwise they are an error.
    """

    def __init__(self, schema: "pa.Schema", *, leaves_out: bool) -> None:
        self.schema = schema.remove_metadata()
        self.leaves_out = leaves_out

    def check(self, found: "pa.Schema") -> None:
        """Look at the columns of a file.

        Raises:
            ValueError: there is one that cannot be fitted.
        """
        if not self.leaves_out and (others := [name for name in found.names if name not in self.schema.names]):
            raise ValueError(
                f"columns {others} are new: the first file has {self.schema.names}. Give schema= with them, which "
                "other files then have as nulls, or columns= without them"
            )
        for name in found.names:
            if found.names.count(name) > 1 and name in self.schema.names:
                raise ValueError(f"column {name!r} is there twice: write it under two names")
        for field in self.schema:
            if field.name in found.names and not is_castable(found.field(field.name).type, field.type):
                raise ValueError(_unlike(field.name, found.field(field.name).type, field.type))

    def fit(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """Return a batch with the schema; the arrays are shared where they fit.

        Raises:
            ValueError: a column cannot be fitted, or a value would change.
        """
        import pyarrow as pa

        if batch.schema.equals(self.schema):
            return batch
        self.check(batch.schema)
        columns = []
        for field in self.schema:
            if field.name not in batch.schema.names:
                columns.append(pa.nulls(batch.num_rows, field.type))
                continue
            column = batch.column(field.name)
            try:
                columns.append(column if column.type == field.type else column.cast(field.type))
            except pa.ArrowInvalid as error:
                raise ValueError(f"{_unlike(field.name, column.type, field.type)} ({error})") from error
        return pa.record_batch(columns, schema=self.schema)


def is_castable(found: "pa.DataType", wanted: "pa.DataType") -> bool:
    """Tell whether values of a type can be of another one without a change, unless they are too large for it."""
    from pyarrow import types

    if found == wanted or types.is_null(found):
        return True
    if types.is_dictionary(found):
        return is_castable(found.value_type, wanted)
    if types.is_nested(found) or types.is_nested(wanted):
        return False
    return any(kind(found) and kind(wanted) for kind in (_is_number, types.is_temporal, _is_text, _is_bytes))


def _is_number(given: "pa.DataType") -> bool:
    from pyarrow import types

    return bool(types.is_integer(given) or types.is_floating(given) or types.is_decimal(given))


def _is_text(given: "pa.DataType") -> bool:
    from pyarrow import types

    return bool(types.is_string(given) or types.is_large_string(given) or types.is_string_view(given))


def _is_bytes(given: "pa.DataType") -> bool:
    from pyarrow import types

    return bool(types.is_binary(given) or types.is_large_binary(given) or types.is_fixed_size_binary(given))


def _unlike(name: str, found: "pa.DataType", wanted: "pa.DataType") -> str:
    return (
        f"column {name!r} is {found}, and {wanted} in the first file or in schema=: give a schema= whose type holds "
        "all values, or write the file anew"
    )
