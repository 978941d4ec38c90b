"""The rows of each epoch in a table."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def epoch_slices(table: "pa.Table", column: str) -> "Iterator[tuple[int, pa.Table]]":
    """Yield ``(epoch, rows)`` for each run of equal values in ``column``, of integers without nulls.

    The slices are zero-copy; together, in order, they are the table. A table sorted by ``column`` has one slice per
    epoch. The cost is one pass over one column plus a constant per slice.

    >>> import pyarrow as pa
    >>> [(epoch, rows.num_rows) for epoch, rows in epoch_slices(pa.table({"day": [3, 3, 5]}), "day")]
    [(3, 2), (5, 1)]
    """
    import numpy as np

    if not table.num_rows:
        return
    epochs = table.column(column).to_numpy()
    starts = np.concatenate(([0], np.flatnonzero(epochs[1:] != epochs[:-1]) + 1))
    lengths = np.diff(starts, append=len(epochs))
    for epoch, start, length in zip(epochs[starts].tolist(), starts.tolist(), lengths.tolist(), strict=True):
        yield epoch, table.slice(start, length)
