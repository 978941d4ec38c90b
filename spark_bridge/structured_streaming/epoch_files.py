"""The calls by which epochs get into a folder: the one place where tests put disks that fill up, fail or lose power."""

import os
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from tidewheel.pubsub.log import file_lock
from tidewheel.spark_bridge.errors import BridgeError

_LOCK_WITHIN_S = 1.0


class EpochFiles:
    """The operating system's own. Nothing is durable before `sync`, and no name before `sync_folder`."""

    def write_table(self, path: Path, table: pa.Table) -> None:
        """Write a Parquet file under a new name."""
        with path.open("xb") as file:
            parquet.write_table(table, file)

    def write_text(self, path: Path, text: str) -> None:
        """Write a file, in place of one that has the name."""
        path.write_text(text, encoding="utf-8")

    def sync(self, path: Path) -> None:
        """Return once what a file holds would survive the loss of power."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_folder(self, path: Path) -> None:
        """Return once the names in a folder would survive the loss of power."""
        self.sync(path)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name in the same folder, in place of the file that has it."""
        old.rename(new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)


FILES = EpochFiles()
"""The default for folders of epochs."""


def make_folder(files: EpochFiles, path: Path) -> None:
    """Make a folder and those above it that are missing, so that they would survive the loss of power."""
    if path.is_dir():
        return
    make_folder(files, path.parent)
    path.mkdir(exist_ok=True)
    files.sync_folder(path.parent)


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


def is_open_as(path: Path, descriptor: int) -> bool:
    """Tell whether a folder is still the one that was opened with this descriptor."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
