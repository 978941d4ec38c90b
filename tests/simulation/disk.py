"""The disk of a simulated publisher: a log keeps what was synced, and at a crash as much of the rest as it likes."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple, cast

from tidewheel.pubsub.log.group_commit import Done
from tidewheel.pubsub.log.segment import Segment
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.pubsub.log.stored_segments import StoredSegments
from tidewheel.storage.log_records import Entry, Record

_PLACE = Path("a simulated disk")


class DiskSegment:
    """One segment of a log, whose records are durable."""

    path = _PLACE
    begun_s = 0.0

    def __init__(self, tick_before: int, snapshot: bytes) -> None:
        self.tick_before = tick_before
        self.records: list[Record] = []
        self.ended_s: float | None = None
        self._snapshot = snapshot

    @property
    def last_tick(self) -> int:
        """The tick of the last record, or of the last one before it."""
        return self.records[-1].tick if self.records else self.tick_before

    @property
    def first_tick(self) -> int | None:
        """The tick of the first record."""
        return self.records[0].tick if self.records else None

    @property
    def size(self) -> int:
        """The size in bytes."""
        return sum(len(record.payload) for record in self.records)

    def snapshot(self) -> bytes:
        """Return the state before the first record."""
        return self._snapshot

    def read(self, first_tick: int, found: list[Record], left: int, most: int = sys.maxsize) -> int:
        """Append about ``left`` bytes of records, all of a tick or none; return the bytes still left."""
        for record in self.records:
            if record.tick >= first_tick:
                if found and (left <= 0 or len(found) >= most) and record.tick != found[-1].tick:
                    break
                found.append(record)
                left -= len(record.payload)
        return left


class DiskLog(Log):
    """The log of one publisher. It is durable, and lives longer than its writers.

    Args:
        segment_bytes: a segment is due after so many bytes.
        sync_soon: has something called when the disk has synced.

    Attributes:
        commit: its present writer.
        recorded: every record that was ever durable, also those that are removed.
    """

    def __init__(self, segment_bytes: int, sync_soon: Callable[[Callable[[], None]], None]) -> None:
        StoredSegments.__init__(self, _PLACE)
        self._segment_bytes = segment_bytes
        self.sync_soon = sync_soon
        self.commit: Commit | None = None
        self.recorded: list[Record] = []

    def open(self, snapshot: bytes) -> "DiskLog":
        """Open it; a new one begins with a snapshot."""
        if not self._segments:
            self.begin_segment(snapshot)
        return self

    @property
    def is_segment_due(self) -> bool:
        """Whether the last segment is long enough."""
        return self._segments[-1].size >= self._segment_bytes

    def append(self, entries: Iterable[Entry]) -> None:
        """Add records, which are durable at once."""
        for entry in entries:
            record = Record(entry.tick, entry.kind, b"".join(bytes(part) for part in entry.parts))
            assert record.tick >= self.last_tick, "ticks of a log do not decrease"
            cast(DiskSegment, self._segments[-1]).records.append(record)
            self.recorded.append(record)

    def begin_segment(self, snapshot: bytes) -> None:
        """Begin another segment."""
        before = self.last_tick if self._segments else -1
        if self._segments:
            self._segments[-1].ended_s = 0.0
        self._segments.append(cast(Segment, DiskSegment(before, snapshot)))

    def trim(self, tick: int) -> int:
        """Remove segments that nobody needs."""
        while self.has_before(tick):
            self._segments.pop(0)
        return 0

    def close(self, timeout_s: float = 0.0) -> None:
        """Do nothing: the next writer opens it."""

    def crash(self, random: Random) -> None:
        """Lose some of what is not durable, from the end."""
        if self.commit is not None:
            waiting = [entry for written in self.commit.waiting for entry in written.entries]
            self.append(waiting[: random.randint(0, len(waiting))])
            self.commit = None


class _Written(NamedTuple):
    entries: Sequence[Entry]
    done: Done
    snapshot: bytes | None


class Commit:
    """The writer of a log, in the place of `GroupCommit`: without a thread.

    Args:
        log: what it writes.

    Attributes:
        waiting: what is not durable.
    """

    def __init__(self, log: DiskLog, *, has_thread: bool) -> None:
        assert has_thread, "entries are durable later than they are submitted"
        self._log = log
        self._is_syncing = False
        self.waiting: deque[_Written] = deque()
        log.commit = self

    def submit(self, entries: Sequence[Entry], done: Done, snapshot: Callable[[], bytes] | None = None) -> bool:
        """Have entries made durable behind all others."""
        awaits_segment = any(written.snapshot is not None for written in self.waiting)
        is_due = snapshot is not None and not awaits_segment and self._log.is_segment_due
        self.waiting.append(_Written(entries, done, snapshot() if snapshot is not None and is_due else None))
        self._sync_soon()
        return True

    def resume(self) -> None:
        """Do nothing: the disk is never full."""

    def close(self, timeout_s: float) -> None:
        """Make everything durable."""
        while self.waiting:
            self.sync()

    def _sync_soon(self) -> None:
        if self.waiting and not self._is_syncing:
            self._is_syncing = True
            self._log.sync_soon(self._synced)

    def _synced(self) -> None:
        if self._log.commit is self:
            self._is_syncing = False
            self.sync()
            self._sync_soon()

    def sync(self) -> None:
        """Make durable what waits, for one segment, and tell who wrote it."""
        group: list[_Written] = []
        while self.waiting and (not group or group[-1].snapshot is None):
            group.append(self.waiting.popleft())
        self._log.append([entry for written in group for entry in written.entries])
        if group and (snapshot := group[-1].snapshot) is not None:
            self._log.begin_segment(snapshot)
        for written in group:
            written.done(self._log.last_tick)
