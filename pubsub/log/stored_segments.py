"""The segments that a log has: how much there is, reading them, and removing the oldest.

Threads may share them while another writes: what is read is a copy of the list, up to what was durable then.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tidewheel.pubsub.log.errors import LogCorrupted, LogError, corrupted
from tidewheel.pubsub.log.record_format import Record
from tidewheel.pubsub.log.segment import READ_BYTES, Segment, read_snapshot
from tidewheel.pubsub.log.spare_segments import SpareSegments


@dataclass(frozen=True, slots=True)
class SegmentStatus:
    """What there is of one segment.

    Args:
        first_tick: of its first record; None if it has none.
        last_tick: of its last record, or of the last before it; -1 without any.
        size: in bytes, as far as it is durable.
        begun_s: when it was begun, in seconds since 1970.
        ended_s: when the next was; each of its records is older than that. None for the one in writing.
    """

    first_tick: int | None
    last_tick: int
    size: int
    begun_s: float
    ended_s: float | None


@dataclass(frozen=True, slots=True)
class Replay:
    """From what the state at a tick can be made again.

    Args:
        snapshot: the state at some time before.
        tick: of the last record that the snapshot includes; -1 if there is none.
        records: those after it, to be read once.
    """

    snapshot: bytes
    tick: int
    records: Iterator[Record]


class StoredSegments:
    """The segments in a directory, at least one, in order; the last of them may grow.

    Args:
        directory: where they are.
        spares: takes the files of those that are not needed any more.
    """

    def __init__(self, directory: Path, spares: SpareSegments) -> None:
        self._directory = directory
        self._segments: list[Segment] = []
        self._spares = spares
        self._trimming = threading.Lock()

    @property
    def first_tick(self) -> int:
        """The tick of the oldest record that is there; one more than `last_tick` if there is none."""
        ticks = (segment.first_tick for segment in tuple(self._segments))
        return next((tick for tick in ticks if tick is not None), self.last_tick + 1)

    @property
    def removed_end(self) -> int:
        """One after the tick of the last record that was removed; 0 if none was."""
        return self._segments[0].tick_before + 1

    @property
    def last_tick(self) -> int:
        """The tick of the last record that is durable, also if it has been removed since; -1 if there never was one."""
        return self._segments[-1].last_tick

    @property
    def total_bytes(self) -> int:
        """The size of all segments, as far as they are durable."""
        return sum(segment.size for segment in tuple(self._segments))

    def segments(self) -> list[SegmentStatus]:
        """Return what there is of each segment, from the oldest to the one in writing."""
        return [
            SegmentStatus(
                segment.first_tick,
                segment.last_tick,
                segment.size,
                segment.begun_s,
                None if following is None else following.begun_s,
            )
            for segment, following in pairwise((*self._segments, None))
            if segment is not None
        ]

    def read(self, first_tick: int, max_bytes: int) -> list[Record]:
        """Return durable records at or after ``first_tick``, in order; an empty list if there are none.

        All records of a tick are returned, or none of them: reading goes on at the last tick plus one.

        Args:
            first_tick: where to begin; what was removed before is left out, see `first_tick`.
            max_bytes: about how much; those of one tick are returned however many they are.

        Raises:
            LogCorrupted: those of the first tick are damaged, or can no longer be told from others.

        Complexity: O(log records), then the heads of 64 KiB of records, or where nobody has read before since the log
        was opened those of a segment, then what it returns.
        """
        found: list[Record] = []
        left = max_bytes
        for segment in tuple(self._segments):
            if segment.last_tick < first_tick:
                continue
            if found and left <= 0 and segment.tick_before != found[-1].tick:
                break
            try:
                left = segment.read(first_tick, found, left)
            except FileNotFoundError:
                self._check_removed(segment)
                found.clear()  # those before it are removed, too, and there must be no gap
                left = max_bytes
            except LogCorrupted as error:
                last_tick = found[-1].tick if error.tick is None and found else error.tick
                while found and found[-1].tick == last_tick:
                    found.pop()
                if not found:
                    raise
                break
        return found

    def snapshot_at(self, tick: int) -> Replay:
        """Return from what the state after all durable records up to ``tick`` can be made again.

        Raises:
            LogError: the log begins later than that.
            LogCorrupted: the snapshot is damaged; reading the records may raise it, too.

        Complexity: the records of one segment at most.
        """
        segments = [segment for segment in tuple(self._segments) if segment.tick_before <= tick]
        if not segments:
            raise self._begins_later(tick)
        segment = segments[-1]
        try:
            snapshot = read_snapshot(segment)
        except FileNotFoundError:
            self._check_removed(segment)
            raise self._begins_later(tick) from None
        return Replay(snapshot, segment.tick_before, self._records(segment, tick))

    def _records(self, segment: Segment, last_tick: int) -> Iterator[Record]:
        found: list[Record] = []
        first_tick = 0
        while True:
            found.clear()
            try:
                segment.read(first_tick, found, READ_BYTES)
            except FileNotFoundError:
                self._check_removed(segment)
                raise self._begins_later(first_tick) from None
            yield from (record for record in found if record.tick <= last_tick)
            if not found or found[-1].tick > last_tick:
                return
            first_tick = found[-1].tick + 1

    def _begins_later(self, tick: int) -> LogError:
        return LogError(
            f"the log in {self._directory} begins at tick {self.first_tick}: what it held at tick {tick} was removed",
            path=self._directory,
        )

    def _check_removed(self, segment: Segment) -> None:
        """Raise LogCorrupted if a file is gone that was not trimmed."""
        if segment in self._segments:
            raise corrupted(segment.path, 0, "the file is missing")

    def has_before(self, tick: int) -> bool:
        """Tell whether there is a segment that `trim` would remove."""
        return len(self._segments) > 1 and self._segments[0].last_tick < tick

    def trim(self, tick: int) -> int:
        """Remove the segments, but for the one in writing, that have only records before ``tick``.

        It waits for the disk, and holds up nobody who writes. Returns how many bytes they had; some of their files are
        kept for a while, to be written over: that is until a later call of this.

        Raises:
            LogError: a file could not be removed; it counts as there.
        """
        removed = 0
        with self._trimming:
            while self.has_before(tick):
                oldest = self._segments.pop(0)  # before the file goes, so that a reader who misses it knows why
                try:
                    self._spares.retire(oldest)
                except OSError as error:
                    self._segments.insert(0, oldest)
                    raise LogError(f"{oldest.path} cannot be removed: {error}", path=oldest.path) from error
                removed += oldest.size
            self._spares.expire()
        return removed
