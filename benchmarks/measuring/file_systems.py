"""The folders for a benchmark's files, on a disk if there is one or in memory, and what the system keeps of them."""

import os
import shutil
import tempfile
from pathlib import Path

import psutil

_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it


def disk_folder() -> Path:
    """Return the folder for temporary files, or another that is on a disk if that one is in memory."""
    usual = Path(tempfile.gettempdir())
    folders = [usual, Path("/var/tmp"), Path.cwd()]  # noqa: S108 - a folder of its own is made in it
    return next((folder for folder in folders if type_of(folder) not in _IN_MEMORY), usual)


def memory_folder(free_bytes: int) -> Path | None:
    """Return a folder in memory, where an fdatasync has nothing to do; None if there is none with so much room."""
    is_there = _SHARED_MEMORY.is_dir() and type_of(_SHARED_MEMORY) in _IN_MEMORY
    if is_there and shutil.disk_usage(_SHARED_MEMORY).free >= free_bytes and os.access(_SHARED_MEMORY, os.W_OK):
        return _SHARED_MEMORY
    return None


def type_of(folder: Path) -> str:
    """Return what kind of file system a folder is on, such as ``ext4``."""
    mounts = {Path(mount.mountpoint): mount.fstype for mount in psutil.disk_partitions(all=True)}
    found = folder.resolve()
    return next((mounts[path] for path in (found, *found.parents) if path in mounts), "unknown")


def forget_pages(folder: Path) -> None:
    """Have the system keep nothing in memory of files that are durable, so that reading them takes the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
