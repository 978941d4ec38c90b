"""The sink to a folder of Parquet files; each has complete epochs, appears in one step and never changes.

A commit writes three things, each durable before the next: the rows under a hidden name, the commit record in the
checkpoint, and the file's final name. After a crash, the hidden file of the last commit record gets its final name, if
it still is hidden. Epochs in other hidden files were not committed, and are sent again.

One commit is one file, since Spark might list two files at two moments. So parts contain their rows until the commit,
and no row of an epoch is on disk before.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from tidewheel.batches.batches import Batch, shown
from tidewheel.connectors.object_blocks.record_tables import RecordTables
from tidewheel.operators.sinks.sink import Sink
from tidewheel.progress import Time, TimeDomain
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.spark_types import SPARK
from tidewheel.spark_bridge.structured_streaming.epoch_checkpoint import (
    CommitRecord,
    EpochCheckpoint,
    EpochRows,
    WriterIdentity,
    plain_times,
)

_MOST_CHUNKS: Final = 64


class EpochSink(Sink):
    """A folder of files, each with one or several epochs.

    Args:
        domain: the times of the epochs.
        schema: the schema of the rows; None to use the schema of the existing files or of the first epoch.

    Raises:
        BridgeError: the folder has files of another schema, or of other kinds of times.
    """

    def __init__(
        self, identity: WriterIdentity, checkpoint: EpochCheckpoint, domain: TimeDomain, schema: pa.Schema | None
    ) -> None:
        self._identity, self._checkpoint, self._domain = identity, checkpoint, domain
        record = checkpoint.record()
        strange = [time for time in record.times if not domain.contains(time)]
        if strange:
            raise BridgeError(
                f"{identity.path} has epoch {strange[0]!r}, which is no time of topic "
                f"{identity.topic!r} ({domain!r}): write this one to another path, with another checkpoint"
            )
        self.tables = _tables(identity, record.arrow_schema(), schema)

    def prepare(self, epoch: Time, records: Batch) -> EpochRows:
        """Return the rows for a file; raise BridgeError if they do not fit earlier rows."""
        is_first = self.tables.schema is None
        table = self.tables.table(epoch, records)
        assert table is not None, "an epoch without records is not prepared"
        if is_first:
            _refuse_null(table.schema)
        return EpochRows(epoch, table)

    def commit(self, epoch: Time, parts: list[EpochRows]) -> None:
        """Add one file with all parts, except parts of committed epochs.

        Raises:
            BridgeError: the commit has failed; the next commit, or `record`, completes or drops it.
        """
        with readable(self._identity.path, "the topic sends again all that was not committed"):
            record = self.record()
            new = [part for part in parts if not record.has(self._domain, part.time, [part])]
            if new:
                table = _joined(new, {"topic": self._identity.topic}, epoch)  # raises if JSON does not keep the times
                hidden, files = self._identity.hidden(record.file + 1), self._checkpoint.files
                files.write_table(hidden, table)
                files.sync_file(hidden)
                files.sync_directory(hidden.parent)
                record = record.after(self._domain, new, table.schema.remove_metadata(), hidden.stat().st_size)
                self._checkpoint.save(record)
                self._appear(record)

    def last_committed(self) -> Time | None:
        """Return the last epoch of the last file."""
        return next(reversed(self.record().times), None)

    def record(self) -> CommitRecord:
        """Finish a commit that a crash has interrupted, and return the committed record."""
        with readable(self._identity.path, "start again to finish the last commit"):
            record = self._checkpoint.record()
            if self._identity.hidden(record.file).exists():
                self._appear(record)
            return record

    def _appear(self, record: CommitRecord) -> None:
        file = self._identity.file(record.file)
        if file.exists():
            raise BridgeError(f"{file} is there already, and is not of this writer: remove it, and start again")
        self._checkpoint.files.rename(self._identity.hidden(record.file), file)
        self._checkpoint.files.sync_directory(file.parent)


@contextmanager
def readable(where: str, what: str = "nothing was written") -> Iterator[None]:
    """Convert errors of the operating system and of Arrow in the ``with`` block to BridgeError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise BridgeError(f"{where}: {error}; {what}") from error


def _joined(parts: Sequence[EpochRows], note: dict[str, Any], last: Time) -> pa.Table:
    table = pa.concat_tables(part.table for part in parts)
    if len(parts) > _MOST_CHUNKS:
        table = table.combine_chunks()
    times = plain_times([*dict.fromkeys(part.time for part in parts), last])
    note |= {"epochs": len(times) - 1, "first": times[0], "last": times[-1]}
    return table.replace_schema_metadata({"tidewheel": json.dumps(note)})


def _tables(identity: WriterIdentity, written: pa.Schema | None, schema: pa.Schema | None) -> RecordTables:
    given = None if schema is None else RecordTables(SPARK, schema, identity.time)
    if given is not None and given.schema is not None:
        _refuse_null(given.schema)
    if written is None:
        return given or RecordTables(SPARK, None, identity.time)
    if given is not None and given.schema != written:
        raise BridgeError(
            f"schema= has the columns {shown(given.schema)}, but the files in {identity.path} have "
            f"{shown(written)}: leave schema= out, or use another path and checkpoint"
        )
    columns = written if identity.time is None else written.remove(len(written) - 1)
    return RecordTables(SPARK, columns, identity.time, f"the data in {identity.path}")


def _refuse_null(schema: pa.Schema) -> None:
    """Raise if a column has the type null: Spark cannot read such a column from Parquet files."""

    def has_null(kind: pa.DataType) -> bool:
        return pa.types.is_null(kind) or any(has_null(kind.field(place).type) for place in range(kind.num_fields))

    empty = [field.name for field in schema if has_null(field.type)]
    if empty:
        raise BridgeError(
            f"column {empty[0]!r} has nothing but nulls in the first epoch, so its type is not known: pass schema= to "
            "write_epochs"
        )
