"""The sink that appends each epoch to an Iceberg table, as one snapshot whose properties have the epoch.

The sink loads the table, reads the last epoch from its snapshots, and appends to the loaded snapshot. The append fails
if the table has a newer snapshot by then. The library would append to the newer snapshot, which may already have the
epoch. So the library's retries are off, and the sink loads the table again.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tidewheel.batches.batches import Batch
from tidewheel.connectors.base.attempts import attempted
from tidewheel.connectors.base.table_rows import TableRows
from tidewheel.connectors.iceberg.catalog_table import CatalogTable
from tidewheel.connectors.iceberg.errors import IcebergError
from tidewheel.host.retry import Retry
from tidewheel.operators.sinks.sink import Sink
from tidewheel.progress import GraphError, Time

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

T = TypeVar("T")


class IcebergSink(Sink):
    """An Iceberg table as the destination of `Stream.sink`; needs the extra ``iceberg``.

    Records are Arrow tables, dicts by column, named tuples or dataclasses. Columns that a record lacks are null. Each
    epoch is appended as one snapshot, whose properties have the epoch. So readers see each epoch once and whole. Other
    programs may also write to the table. The sink neither creates a table nor changes its columns.

    Args:
        catalog: the name of a catalog in pyiceberg's configuration, or the properties of a catalog, including ``name``.
            A password in them is a `tidewheel.Secret`.
        table: the name of the table, including its namespace, such as ``sea.tides``.
        name: the name of the sink, the same for all runs of this job and different from all other sinks of the table.
            The property of snapshots is ``tidewheel.`` and this name.

    Raises:
        GraphError: an argument is wrong, for example a password that is not a `Secret`.
        IcebergError: the extra is not installed.
    """

    retry = Retry(within_s=60.0, first_pause_s=0.1, longest_pause_s=5.0, jitter=0.5, on=OSError)

    def __init__(self, catalog: str | Mapping[str, Any], table: str, *, name: str) -> None:
        self._named = CatalogTable("IcebergSink", catalog, table)
        if not isinstance(name, str) or not name:
            raise GraphError(f"IcebergSink: name is a text, not {name!r}")
        self._property = f"tidewheel.{name}"
        self._rows = TableRows(repr(self._named), IcebergError)
        self._catalog: Catalog | None = None
        self._schema: pa.Schema | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_catalog": None, "_schema": None}

    def __repr__(self) -> str:
        return repr(self._named)

    def prepare(self, epoch: Time, records: Batch) -> "pa.Table":
        """Return the records as rows of the table. They are stored once the epoch is complete."""
        found = self._rows.untyped(records)
        if self._schema is None or not set(found.column_names) <= set(self._schema.names):
            self.last_committed()  # the table may have a new column
        assert self._schema is not None, "the table has one"
        return self._rows.typed(found, self._schema)

    def commit(self, epoch: Time, parts: "list[pa.Table]") -> None:
        """Append an epoch unless the table has it."""
        if type(epoch) is not int:
            raise IcebergError(f"{self!r}: epochs are compared as integers, and this one is {epoch!r}")
        self._try(lambda: self._store(epoch, parts))

    def last_committed(self) -> int | None:
        """Return the epoch of this sink's latest snapshot."""
        return self._try(lambda: self._last(self._load()))

    def close(self) -> None:
        catalog, self._catalog = self._catalog, None
        if catalog is not None:
            catalog.close()

    def _try(self, act: Callable[[], T]) -> T:
        def guarded() -> T:
            with self._named.clear_errors():
                return act()

        return attempted(guarded, self.retry, self, IcebergError)

    def _load(self) -> "Table":
        if self._catalog is None:
            self._catalog = self._named.open()
        table = self._named.load(self._catalog)
        self._schema = table.schema().as_arrow()
        return table

    def _last(self, table: "Table") -> int | None:
        """Return the epoch of this sink's latest snapshot, searching backwards from the newest snapshot."""
        snapshot = table.current_snapshot()
        while snapshot is not None:
            found = None if snapshot.summary is None else snapshot.summary.additional_properties.get(self._property)
            if found is not None:
                return int(found)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        return None

    def _store(self, epoch: int, parts: "list[pa.Table]") -> None:
        import pyarrow as pa

        table = self._load()
        last = self._last(table)
        if last is not None and last >= epoch:
            return
        assert self._schema is not None, "the table has one"
        rows = pa.concat_tables([self._rows.typed(part, self._schema) for part in parts])
        properties = {**table.metadata.properties, "commit.retry.num-retries": "0"}  # of this copy, not of the table
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        table.append(rows, snapshot_properties={self._property: str(epoch)})
