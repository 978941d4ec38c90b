"""Rows as pairs of key and row, for collections: the rows of a table, and the changes in a change feed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tidewheel.connectors.delta.errors import DeltaError

if TYPE_CHECKING:
    import pyarrow as pa

Pair: TypeAlias = tuple[Any, tuple[Any, ...] | None]
"""A key and its row; the row is None if it was deleted."""

_REMOVED = ("delete", "update_preimage")
_PRESENT = ("insert", "update_postimage")


def pairs(rows: "pa.Table | pa.RecordBatch", key: Sequence[str]) -> list[Pair]:
    """Return each row with its key: the value of the key column, or a tuple for several columns.

    >>> import pyarrow as pa
    >>> pairs(pa.table({"hour": [4, 11], "tide": ["low", "high"]}), ["hour"])
    [(4, (4, 'low')), (11, (11, 'high'))]
    """
    columns = {name: rows.column(name).to_pylist() for name in rows.schema.names}
    keys = columns[key[0]] if len(key) == 1 else list(zip(*(columns[name] for name in key), strict=True))
    return list(zip(keys, zip(*columns.values(), strict=True), strict=True))


def changes(feed: "pa.Table", schema: "pa.Schema", key: Sequence[str]) -> list[Pair]:
    """Return the new row of each key that a version changes, in an order independent of the feed's order.

    Args:
        feed: the changes of the version, with a column ``_change_type``.
        schema: the columns of rows.
        key: the columns of the key.

    Raises:
        DeltaError: two new rows have the same key.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    fitted = pa.table(
        [
            feed.column(field.name).cast(field.type)
            if field.name in feed.column_names
            else pa.nulls(feed.num_rows, field.type)
            for field in schema
        ],
        schema=pa.schema([field.with_nullable(True) for field in schema]),
    )
    kind, order = feed.column("_change_type"), [(name, "ascending") for name in key]
    removed, present = (fitted.filter(pc.is_in(kind, pa.array(kinds))).sort_by(order) for kinds in (_REMOVED, _PRESENT))
    rows: dict[Any, Any] = {}
    for one, row in pairs(present, key):
        if one in rows:
            raise DeltaError(f"two rows have the key {one!r:.200}. Give key= columns that identify a row")
        rows[one] = row
    gone = dict.fromkeys(one for one, _ in pairs(removed, key) if one not in rows)
    return [*gone.items(), *rows.items()]
