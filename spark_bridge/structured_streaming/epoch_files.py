"""The calls by which epochs get into a folder: the one place where tests put disks that fill up, fail or lose power."""

import os
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.storage import file_lock, files

_LOCK_WITHIN_S = 1.0


class EpochFiles(files.Files):
    """The operating system's own. Nothing is durable before `sync_file`, and no name before `sync_directory`."""

    def write_table(self, path: Path, table: pa.Table) -> None:
        """Write a Parquet file, in place of one that has the name."""
        with path.open("wb") as file:
            parquet.write_table(table, file)

    def write_text(self, path: Path, text: str) -> None:
        """Write a file, in place of one that has the name."""
        path.write_text(text, encoding="utf-8")

    def sync_file(self, path: Path) -> None:
        """Return once what a file holds would survive the loss of power."""
        with path.open("rb") as file:
            os.fsync(file.fileno())


FILES = EpochFiles()
"""The default for folders of epochs."""


def lock_folder(path: Path, wait_s: float = _LOCK_WITHIN_S) -> int:
    """Take the lock on a folder, and return a descriptor of it; closing that releases the lock.

    A process that was just killed may hold the lock for ``wait_s`` seconds more. The lock has no file: it would be read
    as data.

    Raises:
        BridgeError: another writer still has it.
    """
    descriptor = file_lock.open_locked(path, os.O_RDONLY | os.O_DIRECTORY, wait_s)
    if descriptor is None:
        raise BridgeError(
            f"another write_epochs writes to {path} at this moment: close it, or use another path and checkpoint"
        )
    return descriptor
