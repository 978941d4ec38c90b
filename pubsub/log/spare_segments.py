"""Spare files: unneeded segments that are kept to be overwritten.

Overwriting a file is cheaper than appending to one: its blocks are allocated, and an fdatasync need not store the
file's size and the places of its blocks.

Invariants:

- A file is overwritten only when the removal of its name is durable, no reader has it open, and its payload area has no
  message in flight.
- Old bytes do not count: checksums of records begin with the salt of their segment (`storage/log_records.py`), and the
  header has the old size.
- A log keeps no spare files while it is idle, or its disk is full.

Source: PostgreSQL's documentation, 28.5 "WAL Configuration": old segments are recycled by renaming them.
"""

import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tidewheel.pubsub.log.payload_area import PayloadArea
from tidewheel.pubsub.log.segment import Segment
from tidewheel.storage.files import Files

_SPARE = ".spare"
_LEFT = (_SPARE, ".new")
_MOST = 4
_KEPT_S = 10.0


class Spare(NamedTuple):
    """A spare file, its mapping if it has one, and the monotonic time since which it is spare."""

    since_s: float
    path: Path
    area: PayloadArea | None


class SpareSegments:
    """The spare files of one log; thread-safe.

    Args:
        directory: the log's directory; old spare files in it are removed.

    Raises:
        OSError: a file cannot be removed.
    """

    def __init__(self, directory: Path, files: Files, largest_bytes: int) -> None:
        self._directory = directory
        self._files = files
        self._largest_bytes = largest_bytes
        self._lock = threading.Lock()
        self._spare: deque[Spare] = deque()
        for path in directory.iterdir():
            if path.suffix in _LEFT:
                files.remove(path)

    def retire(self, segment: Segment) -> None:
        """Remove the name of a segment durably, and keep or remove its file; no reader can open it any more.

        Raises:
            OSError: the segment may still have its name; the caller may try again.
        """
        spare = segment.path.with_suffix(_SPARE)
        is_spare = self._is_wanted(segment) and self._has_renamed(segment.path, spare)
        if not is_spare:
            self._files.remove(segment.path)
        self._files.sync_directory(self._directory)
        if is_spare and not segment.readers:
            with self._lock:
                self._spare.append(Spare(time.monotonic(), spare, segment.area))
        else:
            self._files.remove(spare)

    def _is_wanted(self, segment: Segment) -> bool:
        may_be_lent = segment.area_bytes and segment.area is None  # a log closed in this process may have lent it
        is_small = len(self._spare) < _MOST and segment.size <= self._largest_bytes
        return is_small and not may_be_lent and segment.path.exists()

    def _has_renamed(self, path: Path, spare: Path) -> bool:
        try:
            self._files.rename(path, spare)
        except OSError:  # a directory that is full may have no room for another name
            return False
        return True

    def take(self) -> Spare | None:
        """Return a file to overwrite, which then belongs to the caller; None if there is none."""
        with self._lock:
            for place, spare in enumerate(self._spare):
                if spare.area is None or not spare.area.is_lent:
                    del self._spare[place]
                    return spare
        return None

    def expire(self) -> None:
        """Remove files that have been spare for a long time; call this regularly."""
        self.free(_KEPT_S)

    def free(self, kept_s: float = 0.0) -> bool:
        """Remove files that have been spare for at least ``kept_s`` seconds; return whether there were any."""
        until_s = time.monotonic() - kept_s
        with self._lock:
            over = [self._spare.popleft().path for spare in tuple(self._spare) if spare.since_s <= until_s]
        for path in over:
            with suppress(OSError):
                self._files.remove(path)
        return bool(over)
