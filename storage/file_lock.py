"""One holder of a file or directory at a time, among all processes of this machine.

The kernel releases the lock when the process dies in any way. The lock belongs to the open file, so it also separates
two parts of one process. A forked child that starts no other program keeps it, too.

Source: flock(2).
"""

import fcntl
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from tidewheel.host.until import until

_AGAIN_S = 0.02
_MOST_HOLDER_BYTES = 300


def open_locked(path: Path, flags: int, within_s: float) -> int | None:
    """Open a file or a folder and take its lock; wait at most so many seconds for another holder.

    Returns the descriptor; closing it releases the lock. Returns None if the other holder still has the lock.
    """
    with ExitStack() as opened:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        opened.callback(os.close, descriptor)
        if until(partial(_is_taken, descriptor), within_s=within_s, every_s=_AGAIN_S):
            opened.pop_all()
            return descriptor
    return None


def _is_taken(descriptor: int) -> bool:
    """Take the lock if no other holder has it; return whether this one has it now."""
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def open_lock_file(path: Path, within_s: float, error: Callable[[str], Exception]) -> int:
    """Take the lock of a file, which stays and names the holder; return its descriptor. Closing that releases the lock.

    Args:
        path: of the file, which is made if it is not there.
        within_s: how long to wait for another holder, in seconds.
        error: makes the exception, of a text that names the other holder.

    Raises:
        Exception: another process still holds the lock; ``error`` makes it.
    """
    descriptor = open_locked(path, os.O_RDWR | os.O_CREAT, within_s)
    if descriptor is None:
        holder = ""
        with suppress(OSError):  # removed meanwhile
            holder = path.read_bytes()[:_MOST_HOLDER_BYTES].decode(errors="replace")
        raise error(holder or "another process")
    with suppress(OSError):  # a full disk
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
    return descriptor
