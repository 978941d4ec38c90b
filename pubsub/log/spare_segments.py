"""Files of segments that are not needed any more, kept to be written over.

To write where something was is cheaper than to write at the end of a file: the disk has allocated the blocks, so an
fdatasync has no sizes and places to note, and the pages are in memory. Where memory is the disk it saves getting pages.

Invariants:

- A file is written over only once it would have another name after the loss of power, and nobody reads it. Who reads
  one that is no longer needed reads it to its end.
- What is left of its former use is no part of the new segment: the checksums of records begin with the salt of their
  segment (`record_format.py`), and what a file had before says its header.
- A log that nobody writes keeps no file for long, and one that finds the disk full none.

Source: PostgreSQL's documentation, 28.5 "WAL Configuration": old segments are recycled by renaming them.
"""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tidewheel.pubsub.log.files import Files
from tidewheel.pubsub.log.segment import Segment

_SPARE = ".spare"
_LEFT = (_SPARE, ".new")
_MOST = 4
_KEPT_S = 10.0


class SpareSegments:
    """The spare files of one log. Threads may share them.

    Args:
        directory: of the log; files are removed that a process has left there which was killed.
        files: what changes files.
        largest_bytes: files of more than that are removed.
        clock: seconds of a clock that never goes back.

    Raises:
        OSError: a file cannot be removed.
    """

    def __init__(self, directory: Path, files: Files, largest_bytes: int, clock: Callable[[], float]) -> None:
        self._directory = directory
        self._files = files
        self._largest_bytes = largest_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._spare: deque[tuple[float, Path]] = deque()
        for path in directory.iterdir():
            if path.suffix in _LEFT:
                files.remove(path)

    def retire(self, segment: Segment) -> None:
        """Take away the name of a segment for good, which nobody may ask for any more, and keep its file or remove it.

        Raises:
            OSError: nobody knows whether it has its name still; this may be called again.
        """
        spare = segment.path.with_suffix(_SPARE)
        is_spare = self._is_wanted(segment) and self._has_renamed(segment.path, spare)
        if not is_spare:
            self._files.remove(segment.path)
        self._files.sync_directory(self._directory)
        if is_spare and not segment.is_read:
            with self._lock:
                self._spare.append((self._clock(), spare))
        else:
            self._files.remove(spare)

    def _is_wanted(self, segment: Segment) -> bool:
        return len(self._spare) < _MOST and segment.size <= self._largest_bytes and segment.path.exists()

    def _has_renamed(self, path: Path, spare: Path) -> bool:
        try:
            self._files.rename(path, spare)
        except OSError:  # a directory that is full may have no room for another name
            return False
        return True

    def take(self) -> Path | None:
        """Return a file to write over, if there is one; it is the caller's now."""
        with self._lock:
            return self._spare.popleft()[1] if self._spare else None

    def expire(self) -> None:
        """Remove files for which there was no use for long. To be called now and then."""
        before_s = self._clock() - _KEPT_S
        with self._lock:
            over = [self._spare.popleft()[1] for kept_s, _ in tuple(self._spare) if kept_s < before_s]
        self._remove(over)

    def free(self) -> bool:
        """Remove all files, so that there is more room on the disk; return whether there were any."""
        with self._lock:
            paths = [path for _, path in self._spare]
            self._spare.clear()
        self._remove(paths)
        return bool(paths)

    def _remove(self, paths: list[Path]) -> None:
        for path in paths:
            with suppress(OSError):
                self._files.remove(path)
