"""Conversion of batches with columns to Arrow tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidewheel.batches.batches import Batch, concatenate_tables, is_arrow, is_numpy, without_views

if TYPE_CHECKING:
    import pyarrow as pa


def as_table(batch: Batch) -> "pa.Table":
    """Return an Arrow table, record batch or structured NumPy array as a table; string_view becomes large_string.

    Raises:
        TypeError: ``batch`` has no columns.
    """
    import pyarrow as pa

    if isinstance(batch, pa.Table):
        return without_views(batch)
    if is_arrow(batch):
        return without_views(pa.Table.from_batches([batch]))
    if is_numpy(batch) and batch.dtype.names is not None:
        return pa.table({name: batch[name] for name in batch.dtype.names})
    kind = f"an array of {batch.dtype}" if is_numpy(batch) else f"a {type(batch).__qualname__}"
    raise TypeError(
        f"{kind} has no columns: use functions of a record instead of names of columns, or make Arrow tables before, "
        "such as of dicts by map_batches(pa.Table.from_pylist)"
    )


def one_table(batches: Sequence[Batch]) -> "pa.Table | None":
    """Return the rows of all batches as one table; None if there are none.

    Raises:
        TypeError: names or types of columns differ.
    """
    return concatenate_tables([as_table(batch) for batch in batches]) if batches else None


def table_schema(schema: "pa.Schema") -> "pa.Schema":
    """Return the schema of the tables that `as_table` makes from batches with ``schema``."""
    return as_table(schema.empty_table()).schema
