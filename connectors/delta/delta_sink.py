"""The sink that appends each epoch to a table of Delta Lake, in one transaction with the epoch's number.

The table's log records the last epoch as the version of an application. The sink loads the table once, reads the last
epoch from this copy, and commits to it. So the library refuses the commit if another writer has written the epoch
since: a worker that seemed dead, or an earlier attempt whose answer was lost.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidewheel.batches.batches import Batch
from tidewheel.connectors.base.attempts import attempted
from tidewheel.connectors.base.table_rows import TableRows
from tidewheel.connectors.delta.errors import DeltaError
from tidewheel.connectors.delta.table_address import TableAddress, arrow_schema
from tidewheel.host.retry import Retry
from tidewheel.operators.sinks.sink import Sink
from tidewheel.progress import GraphError, Time

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


class DeltaSink(Sink):
    """A table of Delta Lake as the destination of `Stream.sink`; needs the extra ``delta``.

    Records are Arrow tables, dicts by column, named tuples or dataclasses. Columns that a record lacks are null. Each
    epoch is appended in one transaction, which also records its number. So readers see each epoch once and whole. Other
    programs may also write to the table.

    The first epoch creates the table if it does not exist. The sink never changes the columns of a table. If you add a
    column while the job runs, records may have it from then on.

    Args:
        table: its path, or a URL such as ``s3://bucket/tides``.
        name: the name of the sink, the same for all runs of this job and different from all other sinks of the table.
            The application in the table's log is ``tidewheel-`` and this name.
        partition_by: the partition columns of a new table. Empty text in them is an error, since readers would take it
            for null.
        schema: the columns of a new table; by default those of the first epoch.
        storage_options: the storage options of deltalake. A password is a `tidewheel.Secret`.

    Raises:
        GraphError: an argument is wrong, for example a password that is not a `Secret`.
        DeltaError: the extra is not installed.
    """

    retry = Retry(within_s=60.0, first_pause_s=0.1, longest_pause_s=5.0, jitter=0.5, on=OSError)

    def __init__(
        self,
        table: str | Path,
        *,
        name: str,
        partition_by: str | Sequence[str] = (),
        schema: "pa.Schema | None" = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._address = TableAddress.of("DeltaSink", table, storage_options)
        if not isinstance(name, str) or not name:
            raise GraphError(f"DeltaSink: name is a text, not {name!r}")
        self._application = f"tidewheel-{name}"
        self._partition_by = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        self._new_schema = schema
        self._schema: pa.Schema | None = None
        self._divided: list[str] = []
        self._table: DeltaTable | None = None
        self._rows = TableRows(repr(self._address), DeltaError)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_schema": None, "_table": None}

    def __repr__(self) -> str:
        return repr(self._address)

    def prepare(self, epoch: Time, records: Batch) -> "pa.Table":
        """Return the records as rows of the table. They are stored once the epoch is complete."""
        found = self._rows.untyped(records)
        if self._schema is None or not set(found.column_names) <= set(self._schema.names):
            self._try(self._look)  # the table is new, or has a new column
        return found if self._schema is None else self._typed(found, self._schema)

    def commit(self, epoch: Time, parts: "list[pa.Table]") -> None:
        """Append an epoch unless the table has it, and record its number."""
        if type(epoch) is not int or epoch < 0:
            raise DeltaError(f"{self!r}: the log notes integers from 0 on as epochs, and this one is {epoch!r}")
        self._try(lambda: self._store(epoch, parts))

    def last_committed(self) -> int | None:
        """Return the last epoch in the log; raise DeltaError if the table does not fit."""
        self._try(self._look)
        return None if self._table is None else self._last(self._table)

    def _try(self, act: Callable[[], None]) -> None:
        def guarded() -> None:
            with self._address.clear_errors():
                act()

        attempted(guarded, self.retry, self, DeltaError)

    def _look(self) -> None:
        """Load the table, or only its newer versions."""
        if self._table is not None:
            self._table.update_incremental()
        else:
            self._table = self._address.find()
        if self._table is None:
            return
        self._schema = arrow_schema(self._table)
        self._divided = self._table.metadata().partition_columns
        if self._partition_by and self._divided != self._partition_by:
            raise DeltaError(
                f"{self!r}: partition_by={self._partition_by}, and the table is divided by {self._divided}. Leave "
                "partition_by out, which is for new tables"
            )

    def _typed(self, records: "pa.Table", schema: "pa.Schema") -> "pa.Table":
        import pyarrow as pa
        import pyarrow.compute as pc

        found = self._rows.typed(records, schema)
        for name in self._divided:
            column = found.column(name)
            may_be_empty = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
            if may_be_empty and pc.any(pc.equal(pc.binary_length(column), 0)).as_py():
                raise DeltaError(
                    f"{self!r}: column {name!r} of a record is empty, and the table is divided by it. Delta Lake would "
                    "read it as null. Write null or another value, or divide the table by other columns"
                )
        return found

    def _last(self, table: "DeltaTable") -> int | None:
        return table.transaction_version(self._application)

    def _store(self, epoch: int, parts: "list[pa.Table]") -> None:
        import pyarrow as pa
        from deltalake import CommitProperties, Transaction, write_deltalake

        self._look()
        table = self._create(parts) if self._table is None else self._table
        last = self._last(table)
        if last is not None and last >= epoch:
            return
        assert self._schema is not None, "the table has one"
        rows = pa.concat_tables([self._typed(part, self._schema) for part in parts])
        noted = Transaction(self._application, epoch)  # without the time of day, so that it never expires
        write_deltalake(table, rows, mode="append", commit_properties=CommitProperties(app_transactions=[noted]))

    def _create(self, parts: "list[pa.Table]") -> "DeltaTable":
        """Create the table without rows, unless another program has created it."""
        import pyarrow as pa
        from deltalake import DeltaTable

        schema = self._new_schema
        if schema is None:
            schema = self._rows.untyped(pa.concat_tables(parts, promote_options="permissive")).schema
        if empty := [field.name for field in schema if pa.types.is_null(field.type)]:
            raise DeltaError(
                f"{self!r}: columns {empty} of the first epoch have only nulls. Say their types by schema="
            )
        DeltaTable.create(
            self._address.uri,
            schema,
            mode="ignore",
            partition_by=self._partition_by or None,
            storage_options=self._address.store_options(),
        )
        self._look()
        assert self._table is not None, "it is there now"
        return self._table
