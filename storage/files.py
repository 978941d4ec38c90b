"""The system calls that change files. Tests replace them to simulate disks that are full, fail or stop."""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Part: TypeAlias = Any
"""Bytes in any buffer: ``bytes``, ``bytearray``, a ``memoryview`` or a ``pyarrow.Buffer``."""


FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The error numbers of a full disk, a full quota, or a file of the greatest possible size."""

_MOST_PARTS = 1024


class Files:
    """The operating system's calls. Close descriptors with `os.close`."""

    def create(self, path: Path) -> int:
        """Return a descriptor of a new, empty file, for reading and writing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def allocate(self, descriptor: int, size: int) -> None:
        """Reserve ``size`` bytes on disk for an empty file."""
        os.posix_fallocate(descriptor, 0, size)

    def write(self, descriptor: int, parts: Sequence[Part], offset: int) -> int:
        """Write parts at ``offset``; return the number of bytes written, at least one."""
        return os.pwritev(descriptor, parts, offset)

    def sync(self, descriptor: int) -> None:
        """Make the content and size of a file durable."""
        os.fdatasync(descriptor)

    def cut(self, descriptor: int, size: int) -> None:
        """Set the size of a file to ``size`` bytes."""
        os.ftruncate(descriptor, size)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name in the same directory."""
        old.rename(new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        path.unlink(missing_ok=True)

    def free_bytes(self, path: Path) -> int:
        """Return how many free bytes this user has on the disk of a directory."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


FILES = Files()
"""The default: the files of this machine."""


def write_all(files: Files, descriptor: int, parts: Sequence[Part], offset: int) -> None:
    """Write all parts at ``offset``; none of them is empty.

    Raises:
        OSError: the write failed; a part may be written.
    """
    left = list(parts)
    first = 0
    while first < len(left):
        written = files.write(descriptor, left[first : first + _MOST_PARTS], offset)
        if not written:
            raise OSError(errno.EIO, "nothing was written")
        offset += written
        while first < len(left) and written >= len(left[first]):
            written -= len(left[first])
            first += 1
        if written:
            left[first] = memoryview(left[first])[written:]


def make_directory(files: Files, path: Path, mode: int = 0o700) -> None:
    """Make a directory and its missing parents, durably."""
    if path.is_dir():
        return
    make_directory(files, path.parent, mode)
    path.mkdir(mode=mode, exist_ok=True)
    files.sync_directory(path.parent)


def check_private(path: Path, what: str, error: Callable[[str], Exception]) -> None:
    """Check that no other user can write to a directory, whose files readers unpickle.

    Raises:
        Exception: made by ``error``: another user can write there.
    """
    status = path.stat()
    if status.st_uid not in {0, os.geteuid()} or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.filemode(status.st_mode)
        raise error(
            f"{what} in {path} is not opened: other users may write there (owner {status.st_uid}, mode {mode}), and "
            f"readers unpickle it. Chown it to user {os.geteuid()}, chmod go-w it, or use another folder"
        )
