"""Gives all files the same columns.

A missing column becomes null. A column of another type is cast if no value changes. A surplus column is left out if the
user has given the schema. Everything else is an error that names the file and the column.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class SchemaFit:
    """Fits batches to a schema.

    Args:
        schema: the columns of results, in order.
        leaves_out: whether surplus columns are left out; otherwise they are an error.
    """

    def __init__(self, schema: "pa.Schema", *, leaves_out: bool) -> None:
        self.schema = schema.remove_metadata()
        self.leaves_out = leaves_out

    def check(self, found: "pa.Schema") -> None:
        """Check the columns of a file.

        Raises:
            ValueError: a column cannot be fitted.
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
        """Return a batch with the schema; arrays that already fit are shared.

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
                columns.append(cast_exactly(column, field.type))
            except ValueError as error:
                raise ValueError(f"{_unlike(field.name, column.type, field.type)} ({error})") from error
        return pa.record_batch(columns, schema=self.schema)


def is_castable(found: "pa.DataType", wanted: "pa.DataType") -> bool:
    """Tell whether values of a type can be converted to another unchanged, unless one is too large or too precise.

    Fields of structs are found by name; missing fields become null.
    """
    from pyarrow import types

    if found == wanted or types.is_null(found):
        return True
    if types.is_dictionary(found):
        return is_castable(found.value_type, wanted)
    if types.is_struct(found) and types.is_struct(wanted):
        names, others = ([field.name for field in kind] for kind in (found, wanted))
        return (
            set(names) <= set(others)
            and all(len(some) == len(set(some)) for some in (names, others))
            and all(is_castable(field.type, wanted.field(field.name).type) for field in found)
        )
    if types.is_map(found) and types.is_map(wanted):
        return is_castable(found.key_type, wanted.key_type) and is_castable(found.item_type, wanted.item_type)
    if _is_list(found) and _is_list(wanted):
        return is_castable(found.value_type, wanted.value_type)
    kinds = (_is_number, types.is_date, types.is_time, types.is_timestamp, types.is_duration, _is_text, _is_bytes)
    return any(kind(found) and kind(wanted) for kind in kinds)


def cast_exactly(column: "pa.Array", wanted: "pa.DataType") -> "pa.Array":
    """Return an array with another type, for which `is_castable` is true.

    Conversion to a smaller float type rounds to the nearest float.

    Raises:
        ValueError: a value would change, or a null is not allowed.

    >>> import pyarrow as pa
    >>> cast_exactly(pa.array([1.0, None]), pa.int64()).to_pylist()
    [1, None]
    >>> cast_exactly(pa.array([0.15]), pa.decimal128(5, 1))
    Traceback (most recent call last):
        ...
    ValueError: 0.15 would become 0.1
    """
    import pyarrow as pa

    if column.type == wanted:
        return column
    try:
        result = column.cast(wanted)
        for before, after in _leaves(column, result):
            _check_equal(before, after)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ValueError(str(error)) from error
    return result


def _leaves(before: "pa.Array", after: "pa.Array") -> "Iterator[tuple[pa.Array, pa.Array]]":
    """Yield the innermost arrays of a nested column before and after a cast, without structs and lists around them."""
    from pyarrow import types

    if before.type == after.type or types.is_null(before.type):
        return
    if types.is_dictionary(before.type):
        yield from _leaves(before.dictionary_decode(), after)
    elif types.is_struct(before.type):
        names = [field.name for field in after.type]
        columns = after.flatten()
        for field, column in zip(before.type, before.flatten(), strict=True):
            yield from _leaves(column, columns[names.index(field.name)])
    elif types.is_map(before.type):
        for values in ("keys", "items"):
            yield from _leaves(*(_values_of_map(one, values) for one in (before, after)))
    elif types.is_nested(before.type):
        yield from _leaves(before.flatten(), after.flatten())
    else:
        yield before, after


def _values_of_map(column: "pa.MapArray", which: str) -> "pa.Array":
    first, last = (column.offsets[place].as_py() for place in (0, -1))  # of a slice
    return getattr(column, which).slice(first, last - first)


def _check_equal(before: "pa.Array", after: "pa.Array") -> None:
    import pyarrow.compute as pc
    from pyarrow import types

    if types.is_floating(before.type) and types.is_floating(after.type):
        changed = pc.and_(pc.is_inf(after), pc.is_finite(before))
    elif types.is_integer(before.type) or types.is_decimal(before.type) or types.is_temporal(before.type):
        changed = pc.not_equal(before, after.cast(before.type))
    elif types.is_floating(before.type):
        # Arrow converts decimals to floats inexactly, but text to the nearest float.
        text = after.cast("string") if types.is_decimal(after.type) else after
        wide = "float32" if types.is_float16(before.type) else before.type
        changed = pc.not_equal(before.cast(wide), text.cast(wide))
    else:
        return
    if pc.any(changed).as_py():
        place = pc.index(changed, True).as_py()
        raise ValueError(f"{before[place].as_py()} would become {after[place].as_py()}")


def _is_number(given: "pa.DataType") -> bool:
    from pyarrow import types

    return bool(types.is_integer(given) or types.is_floating(given) or types.is_decimal(given))


def _is_list(given: "pa.DataType") -> bool:
    from pyarrow import types

    return bool(types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given))


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
