"""A sparse index of a segment: the offsets of some ticks, in sixteen bytes for each interval of the file."""

import threading
from array import array
from bisect import bisect_left


class SparseIndex:
    """The offsets of some records of one segment, in order, including the first. Threads may share it.

    Invariant: between two neighbouring entries lie less than ``spacing`` bytes plus one record.

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
        """The least offset at which the index needs another record."""

    def add(self, tick: int, offset: int) -> None:
        """Add a record behind the known ones; ignore a record before `wanted`. O(1)."""
        with self._lock:
            if offset >= self.wanted:
                self._ticks.append(tick)
                self._offsets.append(offset)
                self.wanted = offset + self.spacing

    def seek(self, tick: int) -> int | None:
        """Return an offset with no record at or after ``tick`` before it; None for the first. O(log records)."""
        with self._lock:
            place = bisect_left(self._ticks, tick)
            return self._offsets[place - 1] if place else None

    def first(self) -> tuple[int, int] | None:
        """Return the tick and offset of the first record; None if they are unknown."""
        with self._lock:
            return (self._ticks[0], self._offsets[0]) if self._ticks else None
