"""Arrow columns as keys, such that equal keys have equal bits, numbers and hashes."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from tidewheel.batches.batches import Batch
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.runtime.description.stable_hash import hash_column, hash_tuples

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Column: TypeAlias = pa.Array | pa.ChunkedArray


def as_key_column(column: "Column") -> "Column":
    """Return a column in which equal keys have equal bits: -0.0 becomes 0.0, and all NaN become the same NaN.

    >>> import pyarrow as pa
    >>> as_key_column(pa.array([-0.0, 1.0])).to_pylist()
    [0.0, 1.0]
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    kind = column.type
    if kinds.is_dictionary(kind) and kinds.is_floating(kind.value_type):
        return as_key_column(column.cast(kind.value_type)).dictionary_encode().cast(kind)
    if not kinds.is_floating(kind):
        return column
    if kinds.is_float16(kind):
        return as_key_column(column.cast(pa.float32())).cast(kind)
    column = pc.add(column, pa.scalar(0.0, kind))
    missing = pc.is_nan(column)
    return pc.if_else(missing, pa.scalar(math.nan, kind), column) if pc.any(missing).as_py() else column


def number_rows(columns: "Sequence[pa.ChunkedArray]") -> "npt.NDArray[np.int64]":
    """Number the rows, from 0; only equal rows have the same number. Null equals null.

    >>> import pyarrow as pa
    >>> number_rows([pa.chunked_array([[3, None, 3, None]]), pa.chunked_array([["a", "a", "a", "b"]])])
    array([0, 1, 0, 2])
    """
    import numpy as np
    import pyarrow as pa

    numbers = np.zeros(len(columns[0]), np.int64)
    for place, column in enumerate(columns):
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        numbers = numbers * len(encoded.dictionary) + encoded.indices.to_numpy()
        if place:  # numbers stay small with any number of columns
            numbers = pa.array(numbers).dictionary_encode().indices.to_numpy().astype(np.int64)
    return numbers


def hash_rows(batch: Batch, keys: Keys) -> "npt.NDArray[np.uint64]":
    columns = [hash_column(batch.column(name)) for name in keys.names]
    return columns[0] if isinstance(keys.key, str) else hash_tuples(columns)


def sortable(column: "Column") -> "Column":
    """Return a column with the same order that Arrow can sort."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_dictionary(column.type):
        return sortable(column.cast(column.type.value_type))
    return column.cast(pa.float32()) if kinds.is_float16(column.type) else column
