"""What a message carries: a list, an Arrow table or record batch, or a NumPy array, handled alike.

Arrow and NumPy are looked up among the modules that are loaded already: a batch of theirs cannot exist before.
"""

import sys
from collections.abc import Sequence
from sys import getsizeof
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy.typing as npt

Batch: TypeAlias = Any
"""A list, `pyarrow.Table`, `pyarrow.RecordBatch` or `numpy.ndarray`."""


_FEW_PARTS = 8
"""Up to so many parts, looking for each is faster than sorting."""


def is_arrow(batch: Batch) -> bool:
    """Tell whether ``batch`` is an Arrow table or record batch."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(batch, pyarrow.Table | pyarrow.RecordBatch)


def is_numpy(batch: Batch) -> bool:
    """Tell whether ``batch`` is a NumPy array of at least one dimension."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(batch, numpy.ndarray) and batch.ndim > 0


def check_batch(batch: Batch) -> None:
    """Raise TypeError unless ``batch`` is something that a message can carry."""
    if not (isinstance(batch, list) or is_arrow(batch) or is_numpy(batch)):
        raise TypeError(
            f"a batch is a list, a pyarrow.Table, a pyarrow.RecordBatch or a numpy.ndarray, not "
            f"{type(batch).__qualname__}: make it [record] for a single record, list(...) for an iterable, "
            "pyarrow.Table.from_pandas(...) for a DataFrame of pandas"
        )


def length(batch: Batch) -> int:
    """Return the number of records of a batch."""
    if type(batch) is list:
        return len(batch)
    return int(batch.num_rows) if is_arrow(batch) else len(batch)


def size_in_bytes(batch: Batch) -> int:
    """Return how much memory a batch takes; for a list, which is not empty, as if all records were like the first."""
    if isinstance(batch, list):
        return getsizeof(batch) + len(batch) * _size_of_record(batch[0])
    return int(batch.nbytes)


def _size_of_record(record: Any) -> int:
    """Return its size without what it refers to; classes' own ``__sizeof__`` may take long, or raise."""
    return getsizeof(record) if type(record).__module__ == "builtins" else object.__sizeof__(record)


def records(batch: Batch) -> list[Any]:
    """Return the records of a batch as Python objects: dicts for Arrow rows, scalars or tuples for NumPy."""
    if isinstance(batch, list):
        return batch
    if is_arrow(batch):
        rows: list[Any] = batch.to_pylist()
        return rows
    # tolist() makes plain numbers of times in nanoseconds.
    values: list[Any] = list(batch) if batch.dtype.kind in "mM" else batch.tolist()
    return values


def concatenate(batches: Sequence[Batch]) -> Batch:
    """Join batches of one kind, at least one, into a single one."""
    if len(batches) == 1:
        return batches[0]
    if all(isinstance(batch, list) for batch in batches):
        return [record for batch in batches for record in batch]
    if all(is_arrow(batch) for batch in batches):
        import pyarrow as pa

        return pa.concat_tables(
            pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch for batch in batches
        )
    if all(is_numpy(batch) for batch in batches):
        import numpy as np

        return np.concatenate(batches)
    raise TypeError(f"batches of different kinds cannot be joined: {sorted({type(b).__name__ for b in batches})}")


def take_slice(batch: Batch, start: int, stop: int) -> Batch:
    """Return records ``start`` up to, not including, ``stop``; without a copy for Arrow and NumPy."""
    return batch.slice(start, stop - start) if is_arrow(batch) else batch[start:stop]


def copy_of(batch: Batch) -> Batch:
    """Return a batch that does not change when the list or array that was given does; its records are not copied."""
    return batch.copy() if isinstance(batch, list) or is_numpy(batch) else batch


def scatter(batch: Batch, owners: "npt.NDArray[Any]", parts: int) -> list[Batch | None]:
    """Split an Arrow or NumPy batch: part ``i`` has, in order, the records whose owner is ``i``.

    A part without records is None, and one with all of them is the batch itself. ``owners`` has a whole number in
    ``0 .. parts - 1`` for each record; the smaller its type, the faster.
    """
    import numpy as np

    if not len(owners):
        return [None] * parts
    only = int(owners[0])
    if (owners == only).all():
        return [batch if part == only else None for part in range(parts)]
    if parts <= _FEW_PARTS:
        picked = [np.flatnonzero(owners == part) for part in range(parts)]
    else:
        picked = np.split(np.argsort(owners, kind="stable"), np.cumsum(np.bincount(owners, minlength=parts))[:-1])
    # Each part is a copy of its own and no slice of a common one, which could not be sent without another copy.
    return [(batch.take(pick) if is_arrow(batch) else batch[pick]) if len(pick) else None for pick in picked]
