"""The source of the snapshots of an Iceberg table: the epoch of each snapshot is its sequence number."""

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tidewheel.connectors.iceberg.catalog_table import CatalogTable
from tidewheel.connectors.iceberg.errors import IcebergError
from tidewheel.operators.sources.contract import Fetched, Partition, Pause, Source
from tidewheel.progress import GraphError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.snapshots import Snapshot

LOGGER: Final = logging.getLogger(__name__)

_PAUSE_S: Final = 0.5
_AGAIN: Final = "To read the table anew, start the job with another folder of snapshots"


@dataclass(frozen=True, slots=True)
class IcebergPlace:
    """The position of a reader in the snapshots of a table.

    Attributes:
        table: the UUID of the table; a table that was created anew has another UUID.
        behind: the last snapshot that was read completely; None before the first one.
        reading: the snapshot that is being read; None between two snapshots.
        rows: the number of that snapshot's rows already read.
        is_state: True to read all rows of the table at this snapshot; False to read only the rows that it appends.
        epoch: the epoch of the next row, or an earlier one.
        end: the last snapshot to read, of a bounded source; 0 if the table had none.
    """

    table: str
    behind: int | None = None
    reading: int | None = None
    rows: int = 0
    is_state: bool = False
    epoch: int = 0
    end: int | None = None


class IcebergSource(Source[Any]):
    """The appended snapshots of an Iceberg table, for `Dataflow.source`; needs the extra ``iceberg``.

    Records are rows of Arrow tables. The epoch of a snapshot is its sequence number. The first epoch has all rows of
    the table, unless ``after`` says where to begin. A snapshot that deletes or overwrites rows fails the job. A
    snapshot that only rewrites files has no records.

    Columns added to the table after the source is made are left out, with a warning.

    Args:
        catalog: the name of a catalog in pyiceberg's configuration, or the properties of a catalog, including ``name``.
            A password in them is a `tidewheel.Secret`.
        table: the name of the table, including its namespace, such as ``sea.tides``.
        columns: the names of the columns to read; by default all.
        after: the id of a snapshot; only rows that were appended later are read.
        bounded: True to end with the last snapshot that exists when the source is first opened.

    Raises:
        GraphError: an argument is wrong, for example a password that is not a `Secret`.
        IcebergError: there is no such table or snapshot, or the extra is not installed.
    """

    says_epochs = True

    def __init__(
        self,
        catalog: str | Mapping[str, Any],
        table: str,
        *,
        columns: Sequence[str] | None = None,
        after: int | None = None,
        bounded: bool = False,
    ) -> None:
        self._named = CatalogTable("IcebergSource", catalog, table)
        self._after = after
        self._bounded = bounded
        self.endless = not bounded
        with closing(self._named.open()) as opened:
            found = self._named.load(opened)
        if after is not None and found.snapshot_by_id(after) is None:
            raise IcebergError(f"{self!r}: the table has no snapshot {after!r}")
        known = found.schema()
        if missing := [name for name in columns or () if name not in known.column_names]:
            raise GraphError(f"{self!r}: the table has the columns {known.column_names}, and no {missing}")
        self._known_columns = known.column_names
        self._known_schema = found.metadata.current_schema_id
        self._schema = known if columns is None else known.select(*columns)

    def __repr__(self) -> str:
        return repr(self._named)

    def partitions(self) -> list[Partition]:
        """Return one partition, since snapshots have one order."""
        return ["snapshots"]

    def open(self, partition: Partition, position: IcebergPlace | None) -> Iterator[Fetched[Any] | Pause]:
        """Read the snapshots after a position."""
        with self._named.clear_errors(), closing(self._named.open()) as catalog:
            table = self._named.load(catalog)
            place = self._first_place(table) if position is None else position
            if str(table.metadata.table_uuid) != place.table:
                raise IcebergError(
                    f"{self!r}: the table was made anew: the job has read another one of its name. {_AGAIN}"
                )
            while place.end != 0:
                self._check_columns(table)
                for snapshot in self._next(table, place):
                    place = yield from self._read(table, snapshot, place)
                if place.end is not None:
                    return
                yield Pause(_PAUSE_S)
                table = self._named.load(catalog)

    def _first_place(self, table: "Table") -> IcebergPlace:
        current, uuid = table.current_snapshot(), str(table.metadata.table_uuid)
        end = None if not self._bounded else 0 if current is None else current.snapshot_id
        if current is None or self._after is not None:
            return IcebergPlace(uuid, behind=self._after, epoch=table.last_sequence_number, end=end)
        return IcebergPlace(uuid, None, current.snapshot_id, is_state=True, epoch=current.sequence_number or 0, end=end)

    def _next(self, table: "Table", place: IcebergPlace) -> "list[Snapshot]":
        """Return the snapshots after a position, oldest first."""
        if place.is_state:
            snapshot = table.snapshot_by_id(place.reading or 0)
            if snapshot is None:
                raise self._gone(place)
            return [snapshot]
        line: list[Snapshot] = []
        snapshot = table.current_snapshot() if place.end is None else table.snapshot_by_id(place.end)
        while snapshot is not None and snapshot.snapshot_id != place.behind:
            line.insert(0, snapshot)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
            if snapshot is None and parent is not None:
                raise self._gone(place)
        is_cut = snapshot is None and place.behind is not None
        if line and place.behind is None:  # the library forgets the parent of a snapshot when that expires
            is_cut = (line[0].sequence_number or 0) > place.epoch + 1
        if is_cut or (place.reading is not None and line and line[0].snapshot_id != place.reading):
            raise self._gone(place)
        return line

    def _gone(self, place: IcebergPlace) -> IcebergError:
        return IcebergError(
            f"{self!r}: the table has no line of snapshots from {place.behind or place.reading} on any more: some have "
            "expired, or it was rolled back. Let snapshots expire later than a job stands still, by "
            f"history.expire.max-snapshot-age-ms. {_AGAIN}"
        )

    # ------------------------------------------------------------------ one snapshot

    def _read(
        self, table: "Table", snapshot: "Snapshot", place: IcebergPlace
    ) -> Generator[Fetched[Any], None, IcebergPlace]:
        """Yield the rows of a snapshot after a position; return the position after the snapshot."""
        number = snapshot.sequence_number or 0
        rows = place.rows
        skipped = rows
        for batch in self._batches(table, snapshot, place):
            if skipped >= len(batch):
                skipped -= len(batch)
                continue
            rows += len(batch) - skipped
            at = replace(place, reading=snapshot.snapshot_id, rows=rows, epoch=number)
            yield Fetched(batch.slice(skipped), at, epoch=number)
            skipped = 0
        place = IcebergPlace(place.table, snapshot.snapshot_id, epoch=number + 1, end=place.end)
        yield Fetched([], place, epoch=number + 1)
        return place

    def _batches(self, table: "Table", snapshot: "Snapshot", place: IcebergPlace) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of a snapshot, always in the same order."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        tasks: list[FileScanTask]
        if place.is_state:
            tasks = list(table.scan(snapshot_id=snapshot.snapshot_id).plan_files())
        elif not self._appends(snapshot):
            return
        else:
            scan = table.incremental_append_scan(
                from_snapshot_id_exclusive=snapshot.parent_snapshot_id, to_snapshot_id_inclusive=snapshot.snapshot_id
            )
            tasks = list(scan.plan_files())
        scan_rows = ArrowScan(table.metadata, table.io, self._schema, AlwaysTrue())
        for task in sorted(tasks, key=lambda one: one.file.file_path):
            try:
                yield from scan_rows.to_record_batches([task])
            except FileNotFoundError:
                raise self._gone(place) from None

    def _appends(self, snapshot: "Snapshot") -> bool:
        """Tell whether a snapshot appends rows; raise IcebergError if it removes or changes rows, or does not say."""
        summary = snapshot.summary
        kind = "unknown" if summary is None else summary.operation.value
        if kind == "replace":
            return False
        deletes = "0" if summary is None else summary.additional_properties.get("added-delete-files", "0")
        if kind != "append" or deletes != "0":
            raise IcebergError(
                f"{self!r}: snapshot {snapshot.snapshot_id} ({kind}) removes or changes rows, and the source reads "
                f"appended ones. To leave it out, begin with after={snapshot.snapshot_id} and another folder of "
                "snapshots"
            )
        return True

    def _check_columns(self, table: "Table") -> None:
        """Compare the columns of the source with the columns of the table, if the table's columns have changed."""
        if table.metadata.current_schema_id == self._known_schema:
            return
        found = table.schema()
        fields = {field.field_id: field for field in found.fields}
        for field in self._schema.fields:
            if field.field_id not in fields:
                raise IcebergError(f"{self!r}: the table has lost column {field.name!r}. {_AGAIN}")
            if fields[field.field_id].field_type != field.field_type:
                raise IcebergError(
                    f"{self!r}: the table has column {field.name!r} as {fields[field.field_id].field_type}, and the "
                    f"source reads {field.field_type}. {_AGAIN}"
                )
        if new := [name for name in found.column_names if name not in self._known_columns]:
            LOGGER.warning("%r: columns %s of the table are new, and records leave them out", self, new)
        self._known_schema = table.metadata.current_schema_id
