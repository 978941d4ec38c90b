"""The epochs of a topic on their way into a sink: an epoch is skipped, joins the next commit, or has no rows.

A subscription drives the sink, in place of a job: each epoch is prepared, committed, then acknowledged. When an epoch
is sent again after a crash, the sink has it completely or not at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.messages.events import Batch, Epoch
from tidewheel.pubsub.messages.wire import DataMessage
from tidewheel.spark_bridge.structured_streaming.epoch_checkpoint import EpochRows
from tidewheel.spark_bridge.structured_streaming.epoch_folder import EpochFolder
from tidewheel.spark_bridge.structured_streaming.epoch_sink import EpochSink


@dataclass(frozen=True, slots=True)
class EpochWriterStatistics:
    """The counts of a writer since its start; ``left_out`` counts committed epochs that were sent again."""

    epochs: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0
    left_out: int = 0


class EpochGroups:
    """Commits the epochs of a topic to a folder, and returns the batches to acknowledge.

    Spark takes every file for new rows, so small epochs must be joined before they become visible.

    Args:
        domain: the times of the epochs.
        schema: the schema of the rows; None to use the schema of the existing files or of the first epoch.
        file_bytes: the size (in memory) at which a group of epochs becomes a file.
        max_delay_s: the age of a group's first epoch, in seconds, at which the group becomes a file.

    Raises:
        BridgeError: the folder has files of another schema, or of another kind of times.
    """

    def __init__(
        self, folder: EpochFolder, domain: TimeDomain, schema: pa.Schema | None, file_bytes: int, max_delay_s: float
    ) -> None:
        self._folder = folder
        self._file_bytes = file_bytes
        self._max_delay_s = max_delay_s
        self._begin_group()
        self.statistics = EpochWriterStatistics()
        self._domain = domain
        self._sink = EpochSink(folder.identity, folder.checkpoint, domain, schema)
        self._record = self._sink.record()

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of the written rows, with the time column; None until it is known."""
        return self._sink.tables.schema

    def receive(self, epoch: Epoch, now_s: float) -> Sequence[Batch]:
        """Receive an epoch; return the batches to acknowledge.

        Raises:
            BridgeError: the epoch's rows do not fit earlier rows, the epoch comes from another log, or the commit has
                failed.
        """
        full = [batch for batch in epoch.batches if len(batch)]
        if not full:
            return epoch.batches
        if self._record.has(self._domain, epoch.time, full):
            self._count(left_out=1)
            return epoch.batches
        parts = [self._sink.prepare(epoch.time, batch.data).of_message(batch) for batch in full]
        if not self._parts:
            self._since_s = now_s
        self._parts += parts
        self._batches += map(_without_content, epoch.batches)
        self._bytes += sum(part.table.nbytes for part in parts)
        return self.look(now_s)

    def due_in_s(self, now_s: float) -> float | None:
        """Return the seconds until a file is due; None if no epoch waits."""
        if not self._parts:
            return None
        is_large = self._bytes >= self._file_bytes
        return 0.0 if is_large else max(0.0, self._since_s + self._max_delay_s - now_s)

    def look(self, now_s: float) -> Sequence[Batch]:
        """Make a file if one is due; return the batches to acknowledge."""
        return self.flush() if self.due_in_s(now_s) == 0.0 else []

    def flush(self) -> Sequence[Batch]:
        """Make a file of all waiting epochs; return the batches to acknowledge.

        Raises:
            BridgeError: the commit has failed; the topic will send these batches again.
        """
        parts, batches = self._parts, self._batches
        self._begin_group()
        if parts:
            self._folder.check()
            self._sink.commit(parts[-1].time, parts)
            self._record = self._sink.record()
            epochs, rows = len({part.time for part in parts}), sum(part.table.num_rows for part in parts)
            self._count(epochs=epochs, rows=rows, files=1, bytes=self._record.bytes)
        return batches

    def _begin_group(self) -> None:
        self._parts: list[EpochRows] = []
        self._batches: list[Batch] = []  # to acknowledge, without their content
        self._bytes = 0
        self._since_s = 0.0

    def _count(self, **more: int) -> None:
        counts = {name: getattr(self.statistics, name) + count for name, count in more.items()}
        self.statistics = replace(self.statistics, **counts)


def _without_content(batch: Batch) -> Batch:
    nothing = DataMessage(batch.time, b"", "pickle", 0)
    return Batch(batch.time, batch.partition, nothing, batch.counter, number=batch.number)
