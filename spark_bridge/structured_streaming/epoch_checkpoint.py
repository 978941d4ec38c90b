"""The folder that says which writer writes where, and what it has committed."""

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.structured_streaming.epoch_commit_record import CommitRecord
from tidewheel.spark_bridge.structured_streaming.epoch_files import EpochFiles

IDENTITY_FILE: Final = "writer.json"
COMMITS_FILE: Final = "commits.json"
_NEW: Final = ".new"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """What a writer writes from where to where.

    Args:
        topic: its name.
        path: the folder of the files.
        format: of the files.
        time: the column with the epoch of each row, None for none.
        writer: tells it from all others; part of the names of its files and of its subscription.
    """

    topic: str
    path: str
    format: str
    time: str | None
    writer: str

    @classmethod
    def new(cls, topic: str, path: Path, format: str, time: str | None) -> "WriterIdentity":  # noqa: A002 - as in Spark
        """Return one that nobody has."""
        return cls(topic, str(path), format, time, uuid.uuid4().hex[:12])

    @property
    def subscription(self) -> str:
        """The name of the durable subscription."""
        return f"write_epochs-{self.writer}"

    def fields(self) -> dict[str, Any]:
        """Return all that it is, by name."""
        return {name: getattr(self, name) for name in ("topic", "path", "format", "time", "writer")}


class EpochCheckpoint:
    """The checkpoint in a folder, which is locked when it is changed.

    A crash leaves each of its files as it was, or as it was to be.
    """

    def __init__(self, folder: Path, files: EpochFiles) -> None:
        self._folder = folder
        self._files = files

    @property
    def is_in_use(self) -> bool:
        """Whether it is somebody's."""
        return (self._folder / IDENTITY_FILE).exists()

    def identity(self, asked: WriterIdentity) -> WriterIdentity:
        """Return whose checkpoint this is; if it is nobody's yet, make it that of ``asked``.

        Raises:
            BridgeError: it is that of another writer than is asked for, or no checkpoint.
        """
        path = self._folder / IDENTITY_FILE
        if not self.is_in_use:
            self._refuse_foreign()
            self._save(path, json.dumps({"version": _VERSION, **asked.fields()}, indent=1))
            return asked
        found = self._read(path)
        for name, wanted in asked.fields().items():
            if name != "writer" and found.get(name) != wanted:
                raise BridgeError(
                    f"the checkpoint {self._folder} was made for {name} {found.get(name)!r}, not {wanted!r}. A "
                    "checkpoint is for one topic, path, format and time column: use another one, and another path"
                )
        if found.get("version") != _VERSION or not isinstance(found.get("writer"), str):
            raise self._damaged(path, f"version {found.get('version')!r}")
        return WriterIdentity(asked.topic, asked.path, asked.format, asked.time, found["writer"])

    def record(self) -> CommitRecord:
        """Return what is committed once the file that it names is there."""
        path = self._folder / COMMITS_FILE
        if not path.exists():
            return CommitRecord()
        try:
            return CommitRecord.from_json(path.read_text(encoding="utf-8"))
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(path, f"{type(error).__name__}: {error}") from error

    def save(self, record: CommitRecord) -> None:
        """Note what will be committed once the file that it names is there; it is durable when this returns."""
        self._save(self._folder / COMMITS_FILE, record.to_json())

    def _save(self, path: Path, text: str) -> None:
        new = path.with_name(path.name + _NEW)
        self._files.write_text(new, text)
        self._files.sync(new)
        self._files.rename(new, path)
        self._files.sync_folder(self._folder)

    def _refuse_foreign(self) -> None:
        foreign = sorted({entry.name for entry in self._folder.iterdir()} - {IDENTITY_FILE + _NEW})
        if foreign:
            raise BridgeError(
                f"{self._folder} is no checkpoint of write_epochs, and has {foreign[0]!r} in it. Use an empty or a new "
                "folder, not the checkpoint of a Spark query"
            )

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise self._damaged(path, str(error)) from error
        if not isinstance(found, dict):
            raise self._damaged(path, "no object")
        return found

    @staticmethod
    def _damaged(path: Path, what: str) -> BridgeError:
        return BridgeError(
            f"{path} is damaged, or of another version of tidewheel ({what}): restore it, or begin anew with another "
            "checkpoint and another path"
        )
