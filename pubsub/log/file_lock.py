"""One holder of a file at a time, among all processes of this machine.

The kernel gives the lock back when the process dies, however it does. It belongs to the open file, so that it also
keeps two parts of one process apart. A child that was forked without starting another program keeps it as well.

Source: flock(2).
"""

import fcntl
import os
import time
from pathlib import Path

_AGAIN_S = 0.02


def open_locked(path: Path, flags: int, within_s: float) -> int | None:
    """Open a file or a folder and take its lock, which another may hold for so many seconds more.

    Returns its descriptor, with which the lock is given back; None if another has the lock still.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    is_taken = False
    try:
        is_taken = _take(descriptor, within_s)
    finally:
        if not is_taken:
            os.close(descriptor)
    return descriptor if is_taken else None


def _take(descriptor: int, within_s: float) -> bool:
    deadline_s = time.monotonic() + within_s
    while not _is_taken(descriptor):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return False
        time.sleep(min(_AGAIN_S, left_s))
    return True


def _is_taken(descriptor: int) -> bool:
    """Take the lock if nobody has it; return whether that was so."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
