"""The sink of the epochs of a topic: each in turn is left out, put into the next file, or has nothing to write."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.messages.events import Batch, Epoch
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.record_tables import RecordTables
from tidewheel.spark_bridge.structured_streaming.epoch_folder import EpochFolder, EpochGroup
from tidewheel.transport.batches import shown


@dataclass(frozen=True, slots=True)
class EpochWriterStatistics:
    """The counts of a writer since its start.

    Attributes:
        epochs: how many epochs with rows it has committed.
        rows: how many rows they have.
        files: how many files.
        bytes: the size of these files.
        left_out: how many epochs came again that were committed before.
    """

    epochs: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0
    left_out: int = 0


class EpochSink:
    """Takes the epochs of a topic into a folder, and says which batches are to be acknowledged after that.

    Args:
        folder: where they go.
        domain: the order of their times.
        schema: of their rows, None for that of the first; in a folder that has files it is theirs.
        file_bytes: a group of epochs becomes a file once it is so large, as Arrow has it in memory.
        max_delay_s: a group becomes a file once its first epoch has waited for so many seconds.

    Attributes:
        statistics: the counts so far.

    Raises:
        BridgeError: the folder has files of another schema, or of times of another kind.
    """

    def __init__(
        self, folder: EpochFolder, domain: TimeDomain, schema: pa.Schema | None, file_bytes: int, max_delay_s: float
    ) -> None:
        self._folder = folder
        self._domain = domain
        self._file_bytes = file_bytes
        self._max_delay_s = max_delay_s
        self._group = EpochGroup()
        self.statistics = EpochWriterStatistics()
        self._tables = _tables(folder, schema)
        strange = [time for time in folder.record.times if not domain.contains(time)]
        if strange:
            raise BridgeError(
                f"{folder.identity.path} has epoch {strange[0]!r}, which is no time of topic "
                f"{folder.identity.topic!r} ({domain!r}): write this one to another path, with another checkpoint"
            )

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of the rows that are written, the time column included; None before an epoch has told it."""
        return self._tables.schema

    def receive(self, epoch: Epoch, now_s: float) -> Sequence[Batch]:
        """Take an epoch; return what can be acknowledged now.

        Raises:
            BridgeError: its rows do not go with those before, it comes from another log, or the commit has failed.
        """
        full = [batch for batch in epoch.batches if len(batch)]
        if not full:
            return epoch.batches
        if self._folder.record.has(self._domain, epoch.time, full):
            self._count(left_out=1)
            return epoch.batches
        made = [self._tables.table(epoch.time, batch.data) for batch in full]
        tables = [table for table in made if table is not None]
        if not self._group.times:
            _refuse_null(tables[0].schema)
        self._group.add(epoch.time, tables, epoch.batches, now_s)
        return self.look(now_s)

    def due_in_s(self, now_s: float) -> float | None:
        """Return in how many seconds a file is due; None if no epoch waits."""
        if not self._group.times:
            return None
        is_large = self._group.bytes >= self._file_bytes
        return 0.0 if is_large else max(0.0, self._group.since_s + self._max_delay_s - now_s)

    def look(self, now_s: float) -> Sequence[Batch]:
        """Make a file if one is due; return what can be acknowledged then."""
        return self.flush() if self.due_in_s(now_s) == 0.0 else []

    def flush(self) -> Sequence[Batch]:
        """Make a file of all that waits; return what can be acknowledged then."""
        group = self._group
        if not group.times or self._folder.is_broken:
            return []
        size = self._folder.commit(group, self._domain)
        self._group = EpochGroup()
        self._count(epochs=len(group.times), rows=sum(table.num_rows for table in group.tables), files=1, bytes=size)
        return group.batches

    def _count(self, **more: int) -> None:
        counts = {name: getattr(self.statistics, name) + count for name, count in more.items()}
        self.statistics = replace(self.statistics, **counts)


def _tables(folder: EpochFolder, schema: pa.Schema | None) -> RecordTables:
    """Return the `RecordTables` of the schema of the folder's files, or of the one that was given."""
    identity, written = folder.identity, folder.record.arrow_schema()
    given = None if schema is None else RecordTables(schema, identity.time)
    if given is not None and given.schema is not None:
        _refuse_null(given.schema)
    if written is None:
        return given or RecordTables(None, identity.time)
    if given is not None and given.schema != written:
        raise BridgeError(
            f"schema= has the columns {shown(given.schema)}, but the files in {identity.path} have "
            f"{shown(written)}: leave schema= out, or use another path and checkpoint"
        )
    columns = written if identity.time is None else written.remove(len(written) - 1)
    return RecordTables(columns, identity.time, f"the data in {identity.path}")


def _refuse_null(schema: pa.Schema) -> None:
    """Raise if there is a column of which only nulls are known: Spark does not read those from Parquet files."""

    def has_null(kind: pa.DataType) -> bool:
        return pa.types.is_null(kind) or any(has_null(kind.field(place).type) for place in range(kind.num_fields))

    empty = [field.name for field in schema if has_null(field.type)]
    if empty:
        raise BridgeError(
            f"column {empty[0]!r} has nothing but nulls in the first epoch, so its type is not known: pass schema= to "
            "write_epochs"
        )
