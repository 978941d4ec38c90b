"""One writer of a directory at a time, on this machine.

The kernel gives the lock back when the process dies, however it does. It belongs to the open file, so that it also
keeps two parts of one process apart. A child that was forked without starting another program keeps it as well.

Source: flock(2).
"""

import fcntl
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tidewheel.pubsub.log.errors import LogLocked

if TYPE_CHECKING:
    from typing import Self

_AGAIN_S = 0.02
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
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _wait(descriptor, directory, wait_s)
            with suppress(OSError):  # a full disk
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._descriptor)


def _wait(descriptor: int, directory: Path, wait_s: float) -> None:
    deadline_s = time.monotonic() + wait_s
    while not _is_taken(descriptor):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            holder = os.pread(descriptor, _MOST_BYTES, 0).decode(errors="replace") or "another process"
            raise LogLocked(
                f"the log in {directory} is in use by {holder}, also after waiting for {wait_s:g} s: end that, or wait "
                "longer",
                path=directory,
            )
        time.sleep(min(_AGAIN_S, left_s))


def _is_taken(descriptor: int) -> bool:
    """Take the lock if nobody has it; return whether that was so."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
