"""A folder of Parquet files, each of whole epochs, that appear once and never change.

A commit is, in this order, each step durable before the next: the rows under a hidden name; the commit record in the
checkpoint; the file's real name. So after a crash there is one question: is the hidden file still there that the record
names? If it is, the record was made and the name was not, so it gets that name now. If it is not, it had its name,
whatever readers may have done to the file since. Any other hidden file is not in the record, and its epochs come again.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tidewheel.progress import Time, TimeDomain
from tidewheel.pubsub.log.files import make_directory
from tidewheel.pubsub.messages.events import Batch
from tidewheel.pubsub.messages.wire import DataMessage
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.structured_streaming import epoch_files
from tidewheel.spark_bridge.structured_streaming.epoch_checkpoint import (
    CommitRecord,
    EpochCheckpoint,
    WriterIdentity,
    plain_times,
)

_HIDDEN: Final = (".", "_")
"""The first characters of names that Spark does not read."""
_SPARKS_LOG: Final = "_spark_metadata"
_MOST_CHUNKS: Final = 64
_MODE: Final = 0o777
"""The mode of a new folder, less the umask."""


@dataclass(slots=True)
class EpochGroup:
    """Whole epochs that wait to become one file. No I/O, no clock.

    A reader of the folder takes every file that appears as new rows, so small files cannot be put together after it has
    seen them: small epochs wait for each other before.

    Attributes:
        tables: their rows, in the order of the epochs.
        times: of the epochs.
        batches: the batches to acknowledge, without their content.
        bytes: the size of the tables.
        since_s: the time at which the first of them came.
    """

    tables: list[pa.Table] = field(default_factory=list)
    times: list[Time] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    bytes: int = 0
    since_s: float = 0.0

    def add(self, time: Time, tables: list[pa.Table], batches: tuple[Batch, ...], now_s: float) -> None:
        """Add an epoch that has rows, with all that it has."""
        if not self.times:
            self.since_s = now_s
        self.times.append(time)
        self.tables += tables
        self.batches += map(_without_content, batches)
        self.bytes += sum(table.nbytes for table in tables)


class EpochFolder:
    """A folder that this process alone writes to, from the beginning to `close`.

    Args:
        asked: the identity of the writer; a writer that was there before keeps its name.
        checkpoint: the folder of its checkpoint.
        files: the calls that change files.

    Attributes:
        identity: the writer.
        record: what is committed.
        is_broken: whether a commit has failed; the next writer that opens the folder finds out how far it got.

    Raises:
        BridgeError: another writer is at it, the checkpoint is not for this, or there are files of others.
    """

    def __init__(
        self, asked: WriterIdentity, checkpoint: Path, files: epoch_files.EpochFiles = epoch_files.FILES
    ) -> None:
        self._path = Path(asked.path)
        self._files = files
        self.is_broken = False
        with ExitStack() as locks, _readable(f"{self._path}, with checkpoint {checkpoint}"):
            found = EpochCheckpoint(checkpoint, files)
            if found.is_in_use and not self._path.is_dir():
                raise BridgeError(
                    f"{self._path} is gone, and the checkpoint {checkpoint} knows of files in it: restore it, or start "
                    "again with another checkpoint"
                )
            make_directory(files, self._path, _MODE)
            self._descriptor = epoch_files.lock_folder(self._path)
            locks.callback(os.close, self._descriptor)
            if not found.is_in_use:
                self._refuse_foreign(re.compile(r"(?!)"), f"and the checkpoint {checkpoint} knows nothing of it")
            make_directory(files, checkpoint, _MODE)
            locks.callback(os.close, epoch_files.lock_folder(checkpoint))
            self._checkpoint = found
            self.identity = found.identity(asked)
            self.record = found.record()
            self._recover()
            self._locks = locks.pop_all()

    def commit(self, group: EpochGroup, domain: TimeDomain) -> int:
        """Let a group appear as one file; return how many bytes that has. It is durable when this returns.

        Raises:
            BridgeError: it was not possible, and this folder is broken. The topic sends again what is not acknowledged.
        """
        assert not self.is_broken
        self.is_broken = True
        with _readable(str(self._path), "the topic sends again all that was not committed"):
            table = _table(group, self.identity.topic)  # raises if the record could not keep the times
            record = self.record.after(domain, group.times, group.batches, table.schema.remove_metadata())
            size = self._write(record, table)
            self._checkpoint.save(record)
            self._appear(record)
        self.record = record
        self.is_broken = False
        return size

    def close(self) -> None:
        """Let others write to the folder. Called again, it does nothing."""
        self._locks.close()

    # ------------------------------------------------------------------ steps of a commit

    def _write(self, record: CommitRecord, table: pa.Table) -> int:
        """Make the file under its hidden name and return its size; if that fails nothing of it is left."""
        hidden = self._hidden(record.file)
        if not epoch_files.is_open_as(self._path, self._descriptor):
            raise BridgeError(f"{self._path} was moved, removed or replaced while it was written to")
        try:
            self._files.write_table(hidden, table)
            self._files.sync_file(hidden)
            self._files.sync_directory(self._path)
            return hidden.stat().st_size
        except Exception:
            with suppress(OSError):
                self._files.remove(hidden)
            raise

    def _appear(self, record: CommitRecord) -> None:
        file = self._file(record.file)
        if file.exists():
            raise BridgeError(f"{file} is there already, and is not of this writer: remove it, and start again")
        self._files.rename(self._hidden(record.file), file)
        self._files.sync_directory(self._path)

    def _file(self, number: int) -> Path:
        return self._path / f"epochs-{self.identity.writer}-{number:010}.parquet"

    def _hidden(self, number: int) -> Path:
        return self._path / f".{self._file(number).name}.unfinished"

    # ------------------------------------------------------------------ recovery

    def _recover(self) -> None:
        """Finish the commit that the record names, and remove what is in no record."""
        ours = re.compile(rf"epochs-{re.escape(self.identity.writer)}-(?P<number>\d{{10}})\.parquet")
        self._refuse_foreign(ours, "and Spark would read it as if it were epochs")
        if self._hidden(self.record.file).exists():
            self._appear(self.record)
        for left in list(self._path.glob(f".epochs-{self.identity.writer}-*.unfinished")):
            self._files.remove(left)

    def _refuse_foreign(self, ours: re.Pattern[str], why: str) -> None:
        """Raise BridgeError if Spark would see something here that is not one of our committed files."""
        for entry in self._path.iterdir():
            known = ours.fullmatch(entry.name)
            if known is not None and int(known["number"]) > self.record.file:
                raise BridgeError(f"{entry} is newer than what the checkpoint knows of: is that an old copy?")
            if entry.name == _SPARKS_LOG:
                raise BridgeError(
                    f"{self._path} is the output of a Spark query, which lists its files in {_SPARKS_LOG}"
                )
            if known is None and not entry.name.startswith(_HIDDEN):
                raise BridgeError(
                    f"{self._path} has {entry.name!r} in it, which write_epochs did not put there, {why}: use an empty "
                    "or a new folder"
                )


def _without_content(batch: Batch) -> Batch:
    """Return a batch that acknowledges another one, and does not hold its content meanwhile."""
    nothing = DataMessage(batch.time, b"", "pickle", 0)
    return Batch(batch.time, batch.partition, nothing, batch.counter, number=batch.number)


@contextmanager
def _readable(where: str, what: str = "nothing was written") -> Iterator[None]:
    """Raise errors of the operating system and of Arrow as BridgeError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise BridgeError(f"{where}: {error}; {what}") from error


def _table(group: EpochGroup, topic: str) -> pa.Table:
    """Return the rows of a group, with a note of what they are, for people."""
    table = pa.concat_tables(group.tables)
    if len(group.tables) > _MOST_CHUNKS:
        table = table.combine_chunks()
    times = plain_times(group.times)
    note: dict[str, Any] = {"topic": topic, "epochs": len(times), "first": times[0], "last": times[-1]}
    return table.replace_schema_metadata({"tidewheel": json.dumps(note)})
