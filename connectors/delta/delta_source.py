"""The source of the versions of a Delta Lake table: each version is an epoch with the same number."""

import logging
import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidewheel.connectors.delta.change_feed import Pair, changes, pairs
from tidewheel.connectors.delta.errors import DeltaError
from tidewheel.connectors.delta.log_version import LogVersion, fragments_of, read_version
from tidewheel.connectors.delta.table_address import TableAddress, arrow_schema, said_by
from tidewheel.operators.keys.arrow_rows import as_table
from tidewheel.operators.sources.contract import Fetched, Partition, Pause, Source
from tidewheel.progress import GraphError

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow.dataset import ParquetFileFragment
    from pyarrow.fs import FileSystem

LOGGER: Final = logging.getLogger(__name__)

_PAUSE_S: Final = 0.5
_CHECKS_EVERY_S: Final = 10.0
"""The seconds between two checks that the table is still the same one, while it has no new version."""
_MOST_ROWS: Final = 65_536
_MOST_PAIRS: Final = 2_000
_IS_GONE: Final = re.compile(r"not found|No such file|NoSuchKey|404")
_AGAIN: Final = "To read the table anew, start the job with another folder of snapshots"


@dataclass(frozen=True, slots=True)
class DeltaPlace:
    """The position of a reader in the versions of a table.

    Attributes:
        table: the id of the table; a table that was created anew has another id.
        version: the version that is being read.
        rows: the number of the version's rows already read.
        is_state: True to read all rows of the table at this version; False to read only the rows that the version adds.
        end: the last version to read; None for no end.
    """

    table: str
    version: int
    rows: int = 0
    is_state: bool = False
    end: int | None = None


_Rows: TypeAlias = Iterator[Any]
"""Tables of Arrow, or lists of pairs."""


class DeltaSource(Source[Any]):
    """The versions of a table of Delta Lake, for `Dataflow.source`; needs the extra ``delta``.

    Each version is an epoch with the same number. The first epoch has all rows of the table, unless ``version`` says
    where to begin. Without a key, later epochs have the appended rows, as Arrow tables; a version that removes or
    changes rows fails the job. With a key, a record is a pair of key and row, for `Stream.as_collection(upserts=True)`;
    a deleted row is None. Versions that only compact files have no records.

    Columns added to the table after the source is made are left out, with a warning.

    Args:
        table: its path, or a URL such as ``s3://bucket/tides``.
        key: the columns that identify a row. The source then reads the change feed, so the table needs the property
            ``delta.enableChangeDataFeed``. The key of a record is the value of the column, or a tuple for several
            columns.
        columns: the names of the columns to read; by default all.
        version: the first version to read. Rows from before are left out.
        bounded: True to end with the last version that exists when the source is first opened.
        storage_options: the storage options of deltalake. A password is a `tidewheel.Secret`.

    Raises:
        GraphError: an argument is wrong, for example a password that is not a `Secret`.
        DeltaError: there is no such table or feed, or the extra is not installed.
    """

    says_epochs = True

    def __init__(
        self,
        table: str | Path,
        *,
        key: str | Sequence[str] = (),
        columns: Sequence[str] | None = None,
        version: int | None = None,
        bounded: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._address = TableAddress.of("DeltaSource", table, storage_options)
        self._key = (key,) if isinstance(key, str) else tuple(key)
        self._version = version
        self._bounded = bounded
        self.endless = not bounded
        found = self._address.open()
        properties = found.metadata().configuration
        if properties.get("delta.columnMapping.mode", "none") != "none":
            raise DeltaError(f"{self!r}: the table has column mapping, which the source does not read")
        if self._key and properties.get("delta.enableChangeDataFeed") != "true":
            raise DeltaError(
                f"{self!r}: key= needs a change feed, and the table has none. Set its property "
                "delta.enableChangeDataFeed = true; versions from then on have changes"
            )
        if version is not None and not 0 <= version <= found.version() + 1:
            raise DeltaError(f"{self!r}: version={version!r}, and the latest version of the table is {found.version()}")
        self._known_version, self._known_columns = found.version(), arrow_schema(found).names
        self.schema = self._chosen(arrow_schema(found), columns)
        self._refuse_bytes(found.metadata().partition_columns)

    def __repr__(self) -> str:
        return repr(self._address)

    def _chosen(self, schema: "pa.Schema", columns: Sequence[str] | None) -> "pa.Schema":
        import pyarrow as pa

        names = schema.names if columns is None else list(columns)
        if missing := [name for name in (*names, *self._key) if name not in schema.names]:
            raise GraphError(f"{self!r}: the table has the columns {schema.names}, and no {missing}")
        if missing := [name for name in self._key if name not in names]:
            raise GraphError(f"{self!r}: columns={names} leaves {missing} of the key out")
        return pa.schema([schema.field(name) for name in names])

    def _refuse_bytes(self, divided: list[str]) -> None:
        """Raise if a partition column has bytes: deltalake would return them as escaped text."""
        import pyarrow as pa

        for name in divided:
            if name in self.schema.names and pa.types.is_binary(self.schema.field(name).type):
                raise DeltaError(
                    f"{self!r}: the table is divided by column {name!r}, which is binary, and deltalake changes such "
                    "values. Leave the column out with columns=, or divide the table by other columns"
                )

    def partitions(self) -> list[Partition]:
        """Return one partition, since versions have one order."""
        return ["versions"]

    def open(self, partition: Partition, position: DeltaPlace | None) -> Iterator[Fetched[Any] | Pause]:
        """Read the versions after a position."""
        with self._address.clear_errors():
            table, files = self._address.open(), self._address.files()
            place = self._first_place(table) if position is None else position
            self._check(table, place)
            checked_s = time.monotonic()
            while place.end is None or place.version <= place.end:
                is_new = False
                if place.version <= table.version():
                    place = yield from self._read(table, files, place)
                else:
                    yield Pause(_PAUSE_S)
                    self._update(table, place)
                    is_new = place.version <= table.version()
                if is_new or time.monotonic() >= checked_s + _CHECKS_EVERY_S:
                    # ``update_incremental`` does not notice that the table was created anew.
                    self._check(self._address.open(), place)
                    checked_s = time.monotonic()

    def _first_place(self, table: "DeltaTable") -> DeltaPlace:
        latest = table.version()
        version = latest if self._version is None else self._version
        end = latest if self._bounded else None
        return DeltaPlace(str(table.metadata().id), version, is_state=self._version is None, end=end)

    def _update(self, table: "DeltaTable", place: DeltaPlace) -> None:
        try:
            table.update_incremental()
        except Exception:
            self._check(self._address.open(), place)  # says more if the log has lost versions
            raise

    def _check(self, table: "DeltaTable", place: DeltaPlace) -> None:
        if str(table.metadata().id) != place.table:
            raise DeltaError(f"{self!r}: the table was made anew: the job has read another one at its place. {_AGAIN}")
        if place.version > table.version() + 1:
            raise DeltaError(
                f"{self!r}: the latest version is {table.version()}, and the job has read {place.version - 1}: the "
                f"table was restored from an older copy. {_AGAIN}"
            )

    # ------------------------------------------------------------------ one version

    def _read(
        self, table: "DeltaTable", files: "FileSystem", place: DeltaPlace
    ) -> Generator[Fetched[Any], None, DeltaPlace]:
        """Yield the records of a version after a position; return the position after the version."""
        rows = place.rows
        for batch in self._rows_of(table, files, place):
            rows += len(batch)
            yield Fetched(batch, replace(place, rows=rows), epoch=place.version)
        place = replace(place, version=place.version + 1, rows=0, is_state=False)
        yield Fetched([], place, epoch=place.version)
        return place

    def _rows_of(self, table: "DeltaTable", files: "FileSystem", place: DeltaPlace) -> _Rows:
        if place.is_state:
            found = self._address.open(place.version).to_pyarrow_dataset().get_fragments()
            return self._pairs(self._scanned(iter(sorted(found, key=lambda one: one.path)), place))
        try:
            version = read_version(files, place.version)
        except FileNotFoundError:
            raise DeltaError(
                f"{self!r}: its log has no version {place.version} any more, but later ones. Let the log reach back "
                f"longer than a job stands still, by delta.logRetentionDuration. {_AGAIN}"
            ) from None
        if version.changes_table:
            self._check_columns(place.version)
        if not version.changes_rows:
            return iter(())
        if self._key:
            return self._changes(table, place)
        self._check_appends(version, place)
        return self._scanned(fragments_of(version.added, files, _parquet(), self.schema), place)

    def _check_appends(self, version: LogVersion, place: DeltaPlace) -> None:
        if version.removes:
            raise DeltaError(
                f"{self!r}: version {place.version} ({version.operation}) removes or changes rows, and the source "
                "reads appended ones. Read changes with key=, for which the table needs delta.enableChangeDataFeed = "
                f"true. To leave it out, begin with version={place.version + 1} and another folder of snapshots"
            )
        if version.hides:
            raise DeltaError(f"{self!r}: version {place.version} has deletion vectors, which the source does not read")

    def _check_columns(self, number: int) -> None:
        """Compare the columns of the source with the columns of a version that changes the table."""
        found = arrow_schema(self._address.open(number))
        for field in self.schema:
            is_there = field.name in found.names
            if not is_there and number > self._known_version:
                raise DeltaError(f"{self!r}: version {number} of the table has lost column {field.name!r}. {_AGAIN}")
            if is_there and found.field(field.name).type != field.type:
                raise DeltaError(
                    f"{self!r}: version {number} of the table has column {field.name!r} as "
                    f"{found.field(field.name).type}, and the source reads {field.type}. {_AGAIN}"
                )
        if number > self._known_version and (new := [name for name in found.names if name not in self._known_columns]):
            LOGGER.warning("%r: columns %s are new in version %d, and records leave them out", self, new, number)

    # ------------------------------------------------------------------ rows

    def _scanned(self, fragments: "Iterator[ParquetFileFragment]", place: DeltaPlace) -> _Rows:
        """Yield the rows of files, except those already read."""
        from pyarrow.dataset import FileSystemDataset

        skipped = place.rows
        for fragment in fragments:
            try:
                if skipped and skipped >= (rows := fragment.count_rows()):
                    skipped -= rows
                    continue
                dataset = FileSystemDataset([fragment], self.schema, fragment.format, fragment.filesystem)
                for batch in dataset.to_batches(batch_size=_MOST_ROWS):
                    if skipped < len(batch):
                        yield batch.slice(skipped)
                    skipped = max(0, skipped - len(batch))
            except FileNotFoundError:
                raise self._gone(place) from None

    def _gone(self, place: DeltaPlace) -> DeltaError:
        return DeltaError(
            f"{self!r}: files of version {place.version} were removed from the table, and then by VACUUM. Let VACUUM "
            f"keep files for longer than a job stands still. {_AGAIN}"
        )

    def _pairs(self, batches: _Rows) -> _Rows:
        """Yield pairs (key, row) if the source has a key; else the rows unchanged."""
        for batch in batches:
            yield from [batch] if not self._key else _pieces(pairs(batch, self._key))

    def _changes(self, table: "DeltaTable", place: DeltaPlace) -> _Rows:
        """Yield the new row of each key that a version changes, except those already read."""
        import pyarrow as pa

        try:
            feed = as_table(pa.table(table.load_cdf(starting_version=place.version, ending_version=place.version)))
        except (pa.ArrowInvalid, OSError) as error:  # Arrow passes on what the store says
            said = said_by(error)
            if _IS_GONE.search(said):
                raise self._gone(place) from None
            raise OSError(said) from error
        try:
            found = changes(feed, self.schema, self._key)
        except DeltaError as error:
            raise DeltaError(f"{self!r}: version {place.version}: {error}") from None
        yield from _pieces(found[place.rows :])


def _pieces(found: list[Pair]) -> Iterator[list[Pair]]:
    for start in range(0, len(found), _MOST_PAIRS):
        yield found[start : start + _MOST_PAIRS]


def _parquet() -> Any:
    from pyarrow.dataset import ParquetFileFormat, ParquetReadOptions

    return ParquetFileFormat(read_options=ParquetReadOptions(coerce_int96_timestamp_unit="us"))
