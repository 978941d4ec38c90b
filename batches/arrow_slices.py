"""Arrow slices that refer only to their own rows, without a copy."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

LARGE: Final = 32 * 1024
"""A chunk of a column with fewer bytes than this is faster to copy than to trim."""


def trimmed(batch: "pa.Table | pa.RecordBatch") -> Any:
    """Return a table or record batch with the same rows; its buffers are parts of those of ``batch``.

    None if a copy is faster, as for small slices, or needed: for columns that may have nulls, and for types other than
    dates, times and numbers of whole bytes.
    """
    import pyarrow as pa

    is_table, columns = isinstance(batch, pa.Table), list[Any]()
    if not batch.num_columns:
        return None
    if batch.nbytes < LARGE * batch.num_columns * (batch.column(0).num_chunks if is_table else 1):
        return None
    for column in batch.columns:
        arrays = list(map(_trimmed, column.chunks if is_table else [column]))
        if any(array is None for array in arrays):
            return None
        columns.append(pa.chunked_array(arrays, column.type) if is_table else arrays[0])
    return type(batch).from_arrays(columns, schema=batch.schema)


def _trimmed(array: "pa.Array") -> Any:
    import pyarrow as pa

    if not pa.types.is_primitive(array.type) or array.type.bit_width % 8:
        return None
    validity, values = array.buffers()
    if validity is not None or values is None:
        return None
    size = array.type.bit_width // 8
    own = values.slice(array.offset * size, len(array) * size)
    return pa.Array.from_buffers(array.type, len(array), [None, own])
