"""The lock of a log, whose file names the process that holds it."""

import os
import socket
from contextlib import suppress
from pathlib import Path

from tidewheel.pubsub.log.errors import LogLocked
from tidewheel.storage.file_lock import open_locked

_MOST_BYTES = 300


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
