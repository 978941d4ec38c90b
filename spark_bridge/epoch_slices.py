"""A table in epoch order, cut where the epoch changes.

The cuts are found on the whole column at once and each slice shares the table's memory, so the cost is that of one pass
over one column plus a constant per epoch.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def epoch_slices(table: "pa.Table", column: str) -> "Iterator[tuple[int, pa.Table]]":
    """Yield ``(epoch, rows)`` for each run of equal values in ``column``, which holds integers without nulls.

    The slices are zero-copy, keep ``column``, and are the table again when put together. On a table sorted by
    ``column`` there is one slice per epoch; a table without rows has none.

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
