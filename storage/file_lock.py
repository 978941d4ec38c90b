"""Locks of files or directories among all processes of this machine.

The kernel releases a lock when its process dies. A lock belongs to the open file: so two parts of one process cannot
both have it, and a forked child shares it.

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
    """Open a file or a folder and lock it; wait up to ``within_s`` seconds for another holder.

    Return the descriptor, whose closing releases the lock; None if another process still has the lock.
    """
    with ExitStack() as opened:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        opened.callback(os.close, descriptor)
        if until(partial(_is_taken, descriptor), within_s=within_s, every_s=_AGAIN_S):
            opened.pop_all()
            return descriptor
    return None


def _is_taken(descriptor: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def open_lock_file(path: Path, within_s: float, error: Callable[[str], Exception]) -> int:
    """Lock a file that names its holder; return its descriptor. Closing the descriptor releases the lock.

    The file is never removed. ``error`` makes the exception from a text that names the other holder.

    Raises:
        Exception: another process still has the lock.
    """
    descriptor = open_locked(path, os.O_RDWR | os.O_CREAT, within_s)
    if descriptor is None:
        holder = ""
        with suppress(OSError):  # another process has removed it
            holder = path.read_bytes()[:_MOST_HOLDER_BYTES].decode(errors="replace")
        raise error(holder or "another process")
    with suppress(OSError):  # a full disk
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
    return descriptor
