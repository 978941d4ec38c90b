"""The reserve: disk space for urgent entries of a log.

When a log has filled its disk, space becomes free when subscriptions acknowledge and segments are removed. But
acknowledgements must be durable first. So the log keeps a file of allocated blocks, and frees some of them when an
urgent entry (`Entry.is_urgent`) finds no space. Only urgent entries shorten the file, one step at a time.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidewheel.storage.files import Files

RESERVE_BYTES: Final = 1 << 20
"""The size of the file, enough for the positions of some thousand subscriptions."""

_STEP_BYTES = 4096


class Reserve:
    """The reserve of one log; thread-safe.

    Args:
        path: its file; it is created if missing, or later if the disk is full.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path, files: Files) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._descriptor).st_size
        self._is_whole = False
        self.fill()

    def fill(self) -> None:
        with self._lock:
            if self._is_whole:
                return
            try:
                self._files.allocate(self._descriptor, RESERVE_BYTES)
            except OSError:
                with suppress(OSError):  # some file systems keep a part
                    self._files.cut(self._descriptor, self._size)
            else:
                self._size, self._is_whole = RESERVE_BYTES, True

    def free(self) -> bool:
        with self._lock:
            if not self._size:
                return False
            self._size = max(0, self._size - _STEP_BYTES)
            self._is_whole = False
            self._files.cut(self._descriptor, self._size)
            return True

    def close(self) -> None:
        """Close the file; its disk space stays reserved."""
        os.close(self._descriptor)
