"""The rows of an epoch as a sink prepares them: one row for each key, and the keys to be deleted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from tidewheel.batches.batches import Batch, is_arrow, length, records
from tidewheel.connectors.postgres.errors import PostgresError

if TYPE_CHECKING:
    import pyarrow as pa

Values: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Deleted:
    """A record that lets a `PostgresSink` delete the row with a key.

    Attributes:
        key: the value of the key column, or a tuple for several columns.
    """

    key: Any


@dataclass(frozen=True, slots=True)
class EpochRows:
    """The rows of an epoch, or of a part of it.

    Attributes:
        columns: the names of their columns.
        rows: an Arrow table with these columns, or tuples.
        deleted: the keys of rows to delete; ``rows`` has no row with such a key.
    """

    columns: tuple[str, ...]
    rows: Any
    deleted: list[Values] = field(default_factory=list)


def epoch_rows(batch: Batch, columns: Sequence[str], key: Sequence[str]) -> EpochRows:
    """Return the rows of a batch; if several have the same key, only the last.

    Args:
        batch: tuples in the order of ``columns``, dicts, `Deleted`, or an Arrow table.
        columns: the columns of the table.
        key: a row replaces an earlier row with the same values in these columns; empty to keep all rows.

    Raises:
        PostgresError: a record has another type, or columns that the table or the first record lacks.

    >>> epoch_rows([(1, "low"), (2, "low"), (1, "high"), Deleted(2)], ["hour", "tide"], ["hour"])
    EpochRows(columns=('hour', 'tide'), rows=[(1, 'high')], deleted=[(2,)])
    """
    if is_arrow(batch):
        names = _checked(tuple(batch.schema.names), columns, key)
        return EpochRows(names, _last_rows(batch, key) if key else batch)
    found = records(batch)
    first = next((record for record in found if not isinstance(record, Deleted)), ())
    names = _checked(tuple(first), columns, key) if isinstance(first, dict) else tuple(columns)
    places = [names.index(name) for name in key]
    if set(map(type, found)) == {tuple} and set(map(len, found)) == {len(names)}:  # the usual rows, without a loop
        last_rows = dict(zip(map(itemgetter(*places), found), found, strict=True)).values() if key else found
        return EpochRows(names, list(last_rows))
    if not key:
        return EpochRows(names, [_values(record, names) for record in found])
    last: dict[Values, Values | None] = {}
    for record in found:
        if isinstance(record, Deleted):
            values = record.key if isinstance(record.key, tuple) else (record.key,)
            if len(values) != len(key):
                raise PostgresError(f"PostgresSink: {record!r:.200} has {len(values)} values for the key {list(key)}")
            last[values] = None
        else:
            row = _values(record, names)
            last[tuple(row[place] for place in places)] = row
    rows = [row for row in last.values() if row is not None]
    return EpochRows(names, rows, [values for values, row in last.items() if row is None])


def _checked(names: Values, columns: Sequence[str], key: Sequence[str]) -> Values:
    if unknown := [name for name in names if name not in columns]:
        raise PostgresError(f"PostgresSink: records have {unknown}, and the table has the columns {list(columns)}")
    if missing := [name for name in key if name not in names]:
        raise PostgresError(f"PostgresSink: records have the columns {list(names)}, and not {missing} of the key")
    return names


def _values(record: Any, names: Sequence[str]) -> Values:
    if isinstance(record, dict):
        if len(record) == len(names) and all(name in record for name in names):
            return tuple(record[name] for name in names)
        raise PostgresError(f"PostgresSink: one record has the columns {list(names)}, another one {list(record)}")
    if isinstance(record, Deleted):
        raise PostgresError("PostgresSink: a Deleted needs a sink with key=, which says what its key is")
    if isinstance(record, tuple) and len(record) == len(names):
        return record
    raise PostgresError(
        f"PostgresSink: a record is a tuple with the {len(names)} columns {list(names)} of the table, or a dict, not "
        f"{record!r:.200}"
    )


def _last_rows(batch: "pa.Table | pa.RecordBatch", key: Sequence[str]) -> "pa.Table":
    import pyarrow as pa

    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    number = "number" + "_" * max(map(len, table.schema.names))  # a name that no column has
    numbered = table.append_column(number, pa.array(range(length(table))))
    last = numbered.group_by(list(key), use_threads=False).aggregate([(number, "max")])[f"{number}_max"]
    return table if len(last) == length(table) else table.take(last)
