"""The checkpoint of a folder of epochs: its writer, and a commit record of constant size.

Epochs are written completely, each after all earlier epochs with rows. So the maximal written times determine for every
time whether it was written. The record also has the newest written message of each partition. An epoch that is sent
again has no newer message. An epoch with a newer message comes from another log, and must not be skipped.
"""

import json
import operator
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec
import pyarrow as pa

from tidewheel.progress import Time, TimeDomain
from tidewheel.pubsub.messages.events import Batch
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.structured_streaming.epoch_files import EpochFiles

T = TypeVar("T")

IDENTITY_FILE: Final = "writer.json"
COMMITS_FILE: Final = "commits.json"
_NEW: Final = ".new"
_PLAIN = (int, float, str, bool, type(None))


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """The identity of a writer: its topic, folder and name.

    Args:
        time: the name of the column of epochs; None if there is none.
        writer: the unique name of the writer, which is part of the names of its files and subscription.
    """

    topic: str
    path: str
    format: str
    time: str | None
    writer: str
    version: Literal[1]

    @classmethod
    def new(cls, topic: str, path: Path, format: str, time: str | None) -> "WriterIdentity":  # noqa: A002 - as in Spark
        """Return an identity with a new name."""
        return cls(topic, str(path), format, time, uuid.uuid4().hex[:12], 1)

    @property
    def subscription(self) -> str:
        """The name of the durable subscription."""
        return f"write_epochs-{self.writer}"

    def file(self, number: int) -> Path:
        return Path(self.path, f"epochs-{self.writer}-{number:010}.parquet")

    def hidden(self, number: int) -> Path:
        """Return the path of a file until it becomes visible; Spark ignores such names."""
        return Path(self.path, f".{self.file(number).name}.unfinished")


@dataclass(frozen=True, slots=True)
class EpochRows:
    """The rows of an epoch, to be written to a file.

    Attributes:
        partition: the partition of the topic; ``number`` is the number of the message. Both are 0 without a topic.
    """

    time: Time
    table: pa.Table
    partition: int = 0
    number: int = 0

    def of_message(self, batch: Batch) -> "EpochRows":
        """Return the rows together with the partition and number of their message."""
        return replace(self, partition=batch.partition, number=batch.number)


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The state of a folder once the file with number ``file`` is in it.

    Args:
        file: the number of the newest file, from 1; 0 if there is none.
        newest: for each partition, the number of the newest committed message; 0 if there is none.
        schema: the schema of all files, as an Arrow IPC message in hexadecimal; None before the first.
    """

    file: int
    times: tuple[Time, ...]
    newest: tuple[int, ...]
    schema: str | None
    bytes: int = 0

    def has(self, domain: TimeDomain, time: Time, batches: Iterable[Batch | EpochRows]) -> bool:
        """Tell whether an epoch is committed; O(maximal times + batches). Integers have one maximal time.

        Raises:
            BridgeError: the time is committed, but the epoch has newer batches.
        """
        if not any(domain.less_equal(time, committed) for committed in self.times):
            return False
        newest = dict(enumerate(self.newest))
        if any(batch.number > newest.get(batch.partition, 0) for batch in batches):
            raise BridgeError(
                f"epoch {time!r} was written before, from other batches: the topic does not come from the same log any "
                "more. Write what another run publishes to another path, with another checkpoint"
            )
        return True

    def after(self, domain: TimeDomain, parts: Iterable[EpochRows], schema: pa.Schema, size: int) -> "CommitRecord":
        """Return the record for the next file, which has ``size`` bytes and these parts, ordered by epoch."""
        maximal, newest = list(self.times), list(self.newest)
        for part in parts:
            maximal = [kept for kept in maximal if not domain.less_equal(kept, part.time)]
            maximal.append(part.time)
            newest += [0] * (part.partition + 1 - len(newest))
            newest[part.partition] = max(newest[part.partition], part.number)
        return CommitRecord(self.file + 1, tuple(maximal), tuple(newest), schema.serialize().to_pybytes().hex(), size)

    def arrow_schema(self) -> pa.Schema | None:
        """Return the schema of all files; None before the first."""
        return None if self.schema is None else pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(self.schema)))


NOTHING: Final = CommitRecord(0, (), (), None)
"""The record before the first file."""


def plain_times(times: Sequence[Time]) -> list[Any]:
    """Return times as JSON values: numbers, strings, and lists for tuples; raise BridgeError for other types.

    >>> plain_times([(1, ("a", 2)), 3])
    [[1, ['a', 2]], 3]
    """
    return [_plain(time) for time in times]


def _plain(time: Time) -> Any:
    if type(time) in _PLAIN:
        return time
    if type(time) is tuple:
        return [_plain(part) for part in time]
    if hasattr(time, "__index__"):
        return operator.index(time)
    raise BridgeError(
        f"the time {time!r} is a {type(time).__qualname__}, and a checkpoint keeps integers, texts and tuples of them: "
        "publish such times"
    )


def _time(plain: Any) -> Time:
    return tuple(map(_time, plain)) if isinstance(plain, list) else plain


class EpochCheckpoint:
    """The checkpoint in a folder; the folder is locked while the checkpoint changes.

    After a crash, each of its files is either old or new, never mixed. ``files`` has the calls that change files.
    """

    def __init__(self, folder: Path, files: EpochFiles) -> None:
        self._folder = folder
        self.files = files

    @property
    def is_in_use(self) -> bool:
        """True if the checkpoint belongs to a writer."""
        return (self._folder / IDENTITY_FILE).exists()

    def identity(self, asked: WriterIdentity) -> WriterIdentity:
        """Return the writer of this checkpoint; if it has none, ``asked`` becomes its writer.

        Raises:
            BridgeError: the checkpoint has another writer, or the folder is not a checkpoint.
        """
        if not self.is_in_use:
            self._refuse_foreign()
            self._save(IDENTITY_FILE, json.dumps(asdict(asked), indent=1))
            return asked
        found = self._read(IDENTITY_FILE, WriterIdentity)
        for name in ("topic", "path", "format", "time"):
            before, wanted = getattr(found, name), getattr(asked, name)
            if before != wanted:
                raise BridgeError(
                    f"the checkpoint {self._folder} was made for {name} {before!r}, not {wanted!r}. A "
                    "checkpoint is for one topic, path, format and time column: use another one, and another path"
                )
        return found

    def record(self) -> CommitRecord:
        """Return the last saved record; it is committed once its file exists."""
        if not (self._folder / COMMITS_FILE).exists():
            return NOTHING
        record = self._read(COMMITS_FILE, CommitRecord)
        return replace(record, times=tuple(map(_time, record.times)))

    def save(self, record: CommitRecord) -> None:
        """Save a record durably; it is committed once its file exists.

        Raises:
            BridgeError: a time has no JSON form.
        """
        self._save(COMMITS_FILE, json.dumps({**asdict(record), "times": plain_times(record.times)}, indent=1))

    def _save(self, name: str, text: str) -> None:
        new = self._folder / (name + _NEW)
        self.files.write_text(new, text)
        self.files.sync_file(new)
        self.files.rename(new, self._folder / name)
        self.files.sync_directory(self._folder)

    def _refuse_foreign(self) -> None:
        foreign = sorted({entry.name for entry in self._folder.iterdir()} - {IDENTITY_FILE + _NEW})
        if foreign:
            raise BridgeError(
                f"{self._folder} is no checkpoint of write_epochs, and has {foreign[0]!r} in it. Use an empty or a new "
                "folder, not the checkpoint of a Spark query"
            )

    def _read(self, name: str, kind: type[T]) -> T:
        path = self._folder / name
        try:
            return msgspec.convert(json.loads(path.read_text(encoding="utf-8")), kind)
        except (ValueError, msgspec.MsgspecError) as error:
            raise BridgeError(
                f"{path} is damaged, or of another version of tidewheel ({error}): restore it, or start again "
                "with another checkpoint and another path"
            ) from error
