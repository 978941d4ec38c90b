"""The calls by which a log changes files: the one place where tests put disks that fill up, fail or stop."""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.log.record_format import Part

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The errors of a disk, a quota or a file that is full."""

_MOST_PARTS = 1024


class Files:
    """The operating system's own. Descriptors are closed with `os.close`."""

    def create(self, path: Path) -> int:
        """Return a descriptor of a new, empty file, to read and write."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def write(self, descriptor: int, parts: Sequence[Part], offset: int) -> int:
        """Write parts one after the other from ``offset`` on; return how many bytes, at least one, were written."""
        return os.pwritev(descriptor, parts, offset)

    def sync(self, descriptor: int) -> None:
        """Return once what the file holds, and its size, would survive the loss of power."""
        os.fdatasync(descriptor)

    def cut(self, descriptor: int, size: int) -> None:
        """Make a file ``size`` bytes long."""
        os.ftruncate(descriptor, size)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name in the same directory."""
        old.rename(new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Return once the names in a directory would survive the loss of power."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


FILES = Files()
"""What logs use unless they are told otherwise."""


def write_all(files: Files, descriptor: int, parts: Sequence[Part], offset: int) -> None:
    """Write all the parts from ``offset`` on; none of them may be empty.

    Raises:
        OSError: it was not possible; some of it may be written.
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


def make_directory(files: Files, path: Path) -> None:
    """Make a directory and those above it that are missing, so that they would survive the loss of power."""
    if path.is_dir():
        return
    make_directory(files, path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    files.sync_directory(path.parent)


def check_private(path: Path) -> None:
    """See to it that nobody else can put anything into a directory: what a log holds is unpickled.

    Raises:
        LogError: somebody else can.
    """
    status = path.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.filemode(status.st_mode)
        raise LogError(
            f"the log in {path} is not opened: other users may write there (owner {status.st_uid}, mode {mode}). "
            f"Chown it to user {os.geteuid()}, chmod go-w it, or use another directory",
            path=path,
        )
