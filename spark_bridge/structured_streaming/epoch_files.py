"""The file operations of a folder of epochs; tests replace them to simulate full disks, failures and power loss."""

import os
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.storage import file_lock, files

_LOCK_WITHIN_S = 1.0


class EpochFiles(files.Files):
    """The calls of the operating system. `sync_file` makes content durable, `sync_directory` makes names durable."""

    def write_table(self, path: Path, table: pa.Table) -> None:
        with path.open("wb") as file:
            parquet.write_table(table, file)

    def write_text(self, path: Path, text: str) -> None:
        """Write or replace a file."""
        path.write_text(text, encoding="utf-8")

    def sync_file(self, path: Path) -> None:
        """Make a file's content durable."""
        with path.open("rb") as file:
            os.fsync(file.fileno())


FILES = EpochFiles()
"""The default for folders of epochs."""


def lock_folder(path: Path, wait_s: float = _LOCK_WITHIN_S) -> int:
    """Lock a folder; return a file descriptor, whose closing releases the lock.

    Wait for the lock for up to ``wait_s`` seconds, since a writer may just have been killed. There is no lock file:
    readers would take it for data.

    Raises:
        BridgeError: another writer has the lock.
    """
    descriptor = file_lock.open_locked(path, os.O_RDONLY | os.O_DIRECTORY, wait_s)
    if descriptor is None:
        raise BridgeError(
            f"another write_epochs writes to {path} at this moment: close it, or use another path and checkpoint"
        )
    return descriptor
