"""Files of segments that are not needed any more, kept to be written over.

To write where something was is cheaper than to write at the end of a file: the disk has allocated the blocks, so an
fdatasync has no sizes and places to note, and the pages are in memory. Where memory is the disk it saves getting pages.

Invariants:

- A file is written over only once it would have another name after the loss of power, and nobody reads it. Who reads
  one that is no longer needed reads it to its end.
- What is left of its former use is no part of the new segment: the checksums of records begin with the salt of their
  segment (`record_format.py`), and what a file had before says its header.

Source: PostgreSQL's documentation, 28.5 "WAL Configuration": old segments are recycled by renaming them.
"""

from collections import deque
from contextlib import suppress
from pathlib import Path

from tidewheel.pubsub.log.files import Files
from tidewheel.pubsub.log.segment import Segment

_SUFFIX = ".spare"
_MOST = 4


class SpareSegments:
    """The spare files of one log. One thread adds to them, another takes.

    Args:
        directory: of the log; spare files that are there are removed.
        files: what changes files.
        largest_bytes: files of more than that are removed.

    Raises:
        OSError: a file cannot be removed.
    """

    def __init__(self, directory: Path, files: Files, largest_bytes: int) -> None:
        self._directory = directory
        self._files = files
        self._largest_bytes = largest_bytes
        self._spare: deque[Path] = deque()
        for path in directory.glob(f"*{_SUFFIX}"):
            files.remove(path)

    def retire(self, segment: Segment) -> None:
        """Take away the name of a segment for good, which nobody may ask for any more, and keep its file or remove it.

        Raises:
            OSError: nobody knows whether it has its name still; this may be called again.
        """
        spare = segment.path.with_suffix(_SUFFIX)
        is_spare = self._is_wanted(segment) and self._has_renamed(segment.path, spare)
        if not is_spare:
            self._files.remove(segment.path)
        self._files.sync_directory(self._directory)
        if is_spare and segment.is_read:
            self._files.remove(spare)
        elif is_spare:
            self._spare.append(spare)

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
        return self._spare.popleft() if self._spare else None

    def free(self) -> bool:
        """Remove the files, so that there is more room on the disk; return whether there were any."""
        paths = list(iter(self.take, None))
        for path in paths:
            with suppress(OSError):
                self._files.remove(path)
        return bool(paths)
