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
    """The lock on a directory, held from `acquire` to `release`; its file stays and names the holder."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, directory: Path, wait_s: float) -> "Self":
        """Take the lock; wait at most so many seconds for another holder.

        Raises:
            LogLocked: another process still holds the lock; the message names it.
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
        """Release the lock."""
        os.close(self._descriptor)
