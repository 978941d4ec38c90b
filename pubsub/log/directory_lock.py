"""One writer of a directory at a time, on this machine."""

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tidewheel.pubsub.log import file_lock
from tidewheel.pubsub.log.errors import LogLocked

if TYPE_CHECKING:
    from typing import Self

_MOST_BYTES = 300


class DirectoryLock:
    """The lock on a directory, held from `acquire` to `release`; the file stays, and says who has it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, directory: Path, wait_s: float) -> "Self":
        """Take the lock, which another may hold for so many seconds more.

        Raises:
            LogLocked: it still does; the message names it.
        """
        path = directory / "lock"
        descriptor = file_lock.open_locked(path, os.O_RDWR | os.O_CREAT, wait_s)
        if descriptor is None:
            holder = ""
            with suppress(OSError):  # removed meanwhile
                holder = path.read_bytes()[:_MOST_BYTES].decode(errors="replace")
            raise LogLocked(
                f"the log in {directory} is in use by {holder or 'another process'}, also after waiting for "
                f"{wait_s:g} s: end that, or wait longer",
                path=directory,
            )
        with suppress(OSError):  # a full disk
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._descriptor)
