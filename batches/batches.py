"""The batch of a message: a list, an Arrow table or record batch, or a NumPy array. The functions accept all of these.

This module does not import Arrow or NumPy: such batches exist only after another module has imported them.

Pickled by itself, an Arrow slice would include its whole table, and a slice without columns would lose its number of
rows. So slices are copied, or written as an IPC stream.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias

from tidewheel.batches.arrow_slices import trimmed
from tidewheel.batches.held_bytes import RecordSizes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

Batch: TypeAlias = Any
"""A list, `pyarrow.Table`, `pyarrow.RecordBatch` or `numpy.ndarray`."""

_FEW_PARTS = 8
"""Up to this number of parts, a search for each part is faster than a sort."""
_FITS_16_BITS = 1 << 16
_SPARE = 1.25
_SMALL = 1024
"""`pack` does not copy a slice whose buffers have less than this many bytes outside the slice."""
_ENOUGH_BITS = 32
"""Indices of at least this many bits suffice for any likely dictionary."""


def is_arrow(batch: Batch) -> bool:
    pyarrow = sys.modules.get("pyarrow")
    # While another thread is still importing pyarrow, the module has no classes yet.
    return pyarrow is not None and isinstance(
        batch, (getattr(pyarrow, "Table", ()), getattr(pyarrow, "RecordBatch", ()))
    )


def is_numpy(batch: Batch) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(batch, numpy.ndarray) and batch.ndim > 0


def check_batch(batch: Batch) -> None:
    if not (isinstance(batch, list) or is_arrow(batch) or is_numpy(batch)):
        raise TypeError(
            f"a batch is a list, a pyarrow.Table, a pyarrow.RecordBatch or a numpy.ndarray, not "
            f"{type(batch).__qualname__}. Make it [record] for a single record, list(...) for an iterable, "
            "pyarrow.Table.from_pandas(...) for a DataFrame of pandas"
        )
    if _is_masked(batch):
        raise TypeError(
            "a masked array of NumPy is no batch, since its mask gets lost on the way. Fill it, array.filled(value), "
            "or make it a column with nulls, pyarrow.table({name: pyarrow.array(array)})"
        )


def _is_masked(batch: Batch) -> bool:
    masked = sys.modules.get("numpy.ma")
    # While another thread is still importing it, the module has no class yet.
    return masked is not None and isinstance(batch, getattr(masked, "MaskedArray", ()))


def length(batch: Batch) -> int:
    if type(batch) is list:
        return len(batch)
    return int(batch.num_rows) if is_arrow(batch) else len(batch)


def size_in_bytes(batch: Batch, sizes: RecordSizes) -> int:
    if isinstance(batch, list):
        return sizes.of(batch)
    size = int(batch.nbytes)
    if is_numpy(batch) and batch.dtype.hasobject:
        size += sizes.of(batch.reshape(-1))
    return size


def records(batch: Batch) -> list[Any]:
    """Return records as Python objects: dicts for Arrow rows, scalars or tuples for NumPy."""
    if isinstance(batch, list):
        return batch
    if is_arrow(batch):
        rows: list[Any] = batch.to_pylist()
        return rows
    # tolist() turns times in nanoseconds into plain numbers.
    values: list[Any] = batch.tolist() if is_numpy(batch) and batch.dtype.kind not in "mM" else list(batch)
    return values


def concatenate(batches: Sequence[Batch]) -> Batch:
    """Join one or more batches to one of the same kind; batches of different kinds to a list of records.

    Arrays become a list if their common dtype would change values, as for integers and floats. In tables, string_view
    becomes large_string. A single batch of another type is returned as it is.

    Raises:
        TypeError: names or types of tables' columns, or fields of structured arrays, differ.

    >>> import numpy as np
    >>> concatenate([np.array([1]), np.array([0.5])]), concatenate([np.array([2]), ["two"]])
    ([1, 0.5], [2, 'two'])
    """
    if all(is_arrow(batch) for batch in batches):
        import pyarrow as pa

        tables = [without_views(batch) for batch in batches]
        if len(tables) == 1:
            return tables[0]
        return concatenate_tables(
            [pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch for batch in tables]
        )
    if len(batches) == 1:
        return batches[0]
    if all(is_numpy(batch) for batch in batches) and _fit_together(batches):
        import numpy as np

        return np.concatenate(batches)
    return [record for batch in batches for record in records(batch)]


def _fit_together(arrays: "Sequence[npt.NDArray[Any]]") -> bool:
    import numpy as np

    dtypes = list(dict.fromkeys(array.dtype for array in arrays))
    alike = len({array.shape[1:] for array in arrays}) == 1
    if len(dtypes) > 1 and alike:
        try:
            common = np.result_type(*dtypes)
        except TypeError:
            alike = False
        else:
            alike = all(_keeps_values(dtype, common) for dtype in dtypes)
    if not alike and any(dtype.names for dtype in dtypes):
        raise TypeError(
            f"arrays of {dtypes[0]} and of {dtypes[-1]} cannot be joined: give all of them one dtype before"
        )
    return alike


def _keeps_values(dtype: "np.dtype[Any]", common: "np.dtype[Any]") -> bool:
    if dtype.names is not None and common.names is not None:
        return all(_keeps_values(dtype[name], common[name]) for name in dtype.names)
    # Dates are left out: a finer unit cannot represent all dates.
    return dtype == common or any(dtype.kind in kinds and common.kind in kinds for kinds in ("iu", "f", "c", "U", "S"))


def concatenate_tables(tables: "Sequence[pa.Table]") -> "pa.Table":
    """Return the rows of one or more tables as one table.

    A column is nullable if it is nullable in any table; dictionary indices get the type that they need.

    Raises:
        TypeError: names or types of columns differ.
    """
    import pyarrow as pa

    first = tables[0].schema
    if all(table.schema.equals(first) for table in tables):
        whole = pa.concat_tables(tables)
    else:
        for table in tables:
            _check_alike(first, table.schema)
        whole = pa.concat_tables(tables, promote_options="permissive")
    for place, kind in enumerate(whole.schema.types):
        if pa.types.is_dictionary(kind) and kind.index_type.bit_width < _ENOUGH_BITS:
            column = _with_one_dictionary(whole.column(place))
            whole = whole.set_column(place, whole.field(place).with_type(column.type), column)
    return whole


def _check_alike(one: "pa.Schema", other: "pa.Schema") -> None:
    if one.names != other.names:
        raise TypeError(
            f"batches with the columns {one.names} and {other.names} cannot be joined: bring them to the same columns "
            "by select(...) before"
        )
    for name, kind, came in zip(one.names, one.types, other.types, strict=True):
        if type_of_values(kind) != type_of_values(came):
            raise TypeError(
                f"column {name!r} is {kind} in one batch and {came} in another: cast one of them before, by select(...)"
            )


def is_schema(value: object) -> bool:
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(value, getattr(pyarrow, "Schema", ()))


def shown(schema: "pa.Schema") -> str:
    """Return the columns of a schema in words, such as ``(word: string, n: int64)``."""
    return f"({', '.join(f'{field.name}: {field.type}' for field in schema)})"


def type_of_values(kind: "pa.DataType") -> "pa.DataType":
    """Return an Arrow type. Dictionary types with the same type of values become one, whatever their indices."""
    import pyarrow as pa

    return pa.dictionary(pa.int32(), kind.value_type, kind.ordered) if pa.types.is_dictionary(kind) else kind


def _with_one_dictionary(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa

    try:
        return column.unify_dictionaries()
    except pa.ArrowNotImplementedError:  # such as lists
        return column
    except pa.ArrowInvalid:
        kind = column.type
        return column.cast(pa.dictionary(pa.int32(), kind.value_type, kind.ordered)).unify_dictionaries()


def without_views(batch: Batch) -> Batch:
    """Return an Arrow batch with string_view columns as large_string, since Arrow cannot take or sort string_view."""
    import pyarrow as pa

    types = batch.schema.types
    kept = [_takeable(kind) for kind in types]
    if all(one is other for one, other in zip(types, kept, strict=True)):
        return batch
    fields = [field.with_type(kind) for field, kind in zip(batch.schema, kept, strict=True)]
    return batch.cast(pa.schema(fields, batch.schema.metadata))


def _takeable(kind: "pa.DataType") -> "pa.DataType":
    import pyarrow as pa

    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def take_slice(batch: Batch, start: int, stop: int) -> Batch:
    """Return records ``start`` to ``stop``, exclusive; Arrow and NumPy without a copy."""
    return batch.slice(start, stop - start) if is_arrow(batch) else batch[start:stop]


def copy_of(batch: Batch) -> Batch:
    """Return a copy that later changes of the list or array do not affect; the records themselves are not copied."""
    return batch.copy() if isinstance(batch, list) or is_numpy(batch) else batch


def keep(batch: Batch, wanted: Sequence[object]) -> Batch:
    """Return the records of ``batch`` whose entry of ``wanted`` is true.

    >>> keep(["a", "b", "c"], [1, 0, True])
    ['a', 'c']
    """
    if isinstance(batch, list | tuple):
        return list(compress(batch, wanted))
    mask = [bool(entry) for entry in wanted]
    if all(mask):
        return batch
    if not any(mask):
        return take_slice(batch, 0, 0)
    if is_arrow(batch):
        import pyarrow as pa

        return batch.filter(pa.array(mask, pa.bool_()))
    import numpy as np

    return batch[np.array(mask, dtype=np.bool_)]


def scatter(batch: Batch, owners: "Sequence[int] | npt.NDArray[Any]", parts: int) -> list[Batch | None]:
    """Split a batch: part ``i`` of ``parts`` has, in order, the records with owner ``i``.

    A part without records is None; an Arrow or NumPy part with all of them is the batch itself.

    >>> scatter(["a", "b", "c"], [2, 0, 2], 3)
    [['b'], None, ['a', 'c']]
    """
    if parts == 1 and length(batch):
        return [batch]
    if isinstance(batch, list):
        made: list[Batch] = [[] for _ in range(parts)]
        for record, owner in zip(batch, owners, strict=True):
            made[owner].append(record)
        return [part or None for part in made]
    import numpy as np

    # Owners of a smaller type are compared and sorted faster.
    owner_of = np.asarray(owners).astype(np.uint16 if parts <= _FITS_16_BITS else np.int64)
    assert len(owner_of) == length(batch), "each record has an owner"
    if not len(owner_of):
        return [None] * parts
    if is_arrow(batch):
        batch = without_views(batch)
    only = int(owner_of[0])
    if (owner_of == only).all():
        return [batch if part == only else None for part in range(parts)]
    if parts <= _FEW_PARTS:
        picked = [np.flatnonzero(owner_of == part) for part in range(parts)]
    else:
        picked = np.split(np.argsort(owner_of, kind="stable"), np.cumsum(np.bincount(owner_of, minlength=parts))[:-1])
    # Each part is a separate copy: a slice of a common copy would be copied again when it is sent. On arrays with
    # fields, `take` is several times faster than an index.
    return [
        (batch.take(pick) if is_arrow(batch) else batch.take(pick, axis=0)) if len(pick) else None for pick in picked
    ]


@dataclass(frozen=True, slots=True)
class PackedArrow:
    """An Arrow IPC stream of one table, or of one record batch if ``is_record_batch``."""

    stream: Any
    is_record_batch: bool


def pack(batch: Batch) -> Any:
    if not is_arrow(batch) or (batch.num_columns and batch.get_total_buffer_size() <= batch.nbytes * _SPARE + _SMALL):
        return batch
    made = trimmed(batch)
    return stream_of(batch) if made is None else made


def stream_of(batch: Batch) -> PackedArrow:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    return PackedArrow(sink.getvalue(), isinstance(batch, pa.RecordBatch))


def unpack(packed: Any) -> Batch:
    if not isinstance(packed, PackedArrow):
        return packed
    import pyarrow as pa

    with pa.ipc.open_stream(packed.stream) as reader:
        return reader.read_next_batch() if packed.is_record_batch else reader.read_all()
