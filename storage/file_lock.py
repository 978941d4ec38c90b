"""One holder of a file or directory at a time, among all processes of this machine.

The kernel releases the lock when the process dies in any way. The lock belongs to the open file, so it also separates
two parts of one process. A forked child that starts no other program keeps it, too.

Source: flock(2).
"""

import fcntl
import os
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from tidewheel.pubsub.log.errors import LogLocked

_AGAIN_S = 0.02
_MOST_BYTES = 300


def open_locked(path: Path, flags: int, within_s: float) -> int | None:
    """Open a file or a folder and take its lock; wait at most so many seconds for another holder.

    Returns the descriptor; closing it releases the lock. Returns None if the other holder still has the lock.
    """
    with ExitStack() as opened:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        opened.callback(os.close, descriptor)
        deadline_s = time.monotonic() + within_s
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                opened.pop_all()
                return descriptor
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return None
            time.sleep(min(_AGAIN_S, left_s))


def lock_log(directory: Path, wait_s: float) -> int:
    """Take the lock of the log in a directory, whose file stays and names the holder; return its descriptor.

    Raises:
        LogLocked: another process still holds the lock after ``wait_s`` seconds; the message names it.
    """
    path = directory / "lock"
    descriptor = open_locked(path, os.O_RDWR | os.O_CREAT, wait_s)
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
    return descriptor
