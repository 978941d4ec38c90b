"""The room that a log keeps on its disk, for entries without which the disk would stay full.

A disk that a log has filled has room again once subscriptions have acknowledged messages, and segments are removed. But
an acknowledgement has to be durable first. So the log keeps a file of allocated blocks, and gives them back to the disk
when an entry that is `Entry.is_urgent` finds no room.

Invariants:

- Only urgent entries have the file made shorter, by one step at a time: another writer of the disk may take the room.
- The file has its full size again before messages have the room of removed segments: the log calls `Reserve.fill` when
  it has removed them.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidewheel.storage.files import Files

RESERVE_BYTES: Final = 1 << 20
"""The size of the file, which is room for the positions of some thousand subscriptions."""

_STEP_BYTES = 4096


class Reserve:
    """The reserve of one log. Threads may share it.

    Args:
        path: its file, made if it is missing. A disk without room for it gets it later.
        files: the calls that change files.

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
        """Take room for what is missing, if the disk has it."""
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
        """Give some room back to the disk; return whether there was any."""
        with self._lock:
            if not self._size:
                return False
            self._size = max(0, self._size - _STEP_BYTES)
            self._is_whole = False
            self._files.cut(self._descriptor, self._size)
            return True

    def close(self) -> None:
        """Close the file, which keeps the room for the next opening of the log."""
        os.close(self._descriptor)
