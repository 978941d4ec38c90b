"""A sparse index of a segment: where to look for a tick, in sixteen bytes for every so many of the file."""

import threading
from array import array
from bisect import bisect_left


class SparseIndex:
    """The offsets of some records of one segment, in order, the first among them. Threads may share it.

    Invariant: between two records that it knows next to each other are less than ``spacing`` bytes and one record.

    >>> index = SparseIndex(spacing=100)
    >>> for tick, offset in [(10, 50), (11, 149), (12, 151), (12, 250), (12, 260)]:
    ...     index.add(tick, offset)
    >>> index.seek(11), index.seek(12), index.seek(13)
    (50, 50, 260)
    """

    def __init__(self, spacing: int) -> None:
        self.spacing = spacing
        self._ticks = array("q")
        self._offsets = array("q")
        self._lock = threading.Lock()
        self.wanted = 0
        """The first offset at which another record is of use."""

    def add(self, tick: int, offset: int) -> None:
        """Take a record behind those that are known; one before `wanted` is left out. O(1)."""
        with self._lock:
            if offset >= self.wanted:
                self._ticks.append(tick)
                self._offsets.append(offset)
                self.wanted = offset + self.spacing

    def seek(self, tick: int) -> int | None:
        """Return an offset before which there is no record at or after ``tick``; None for the first. O(log records)."""
        with self._lock:
            place = bisect_left(self._ticks, tick)
            return self._offsets[place - 1] if place else None

    def first(self) -> tuple[int, int] | None:
        """Return tick and offset of the first record; None if that is not known."""
        with self._lock:
            return (self._ticks[0], self._offsets[0]) if self._ticks else None
