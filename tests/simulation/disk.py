"""The disk of a simulated world: it keeps what was synced, and at a crash as much of the rest as it likes.

On it are the files of snapshots, the logs of publishers, and the records of the cores of publishers that run alone.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

from tidewheel.pubsub.exactly_once.standing import Cursor, Standing
from tidewheel.pubsub.log.group_commit import Done
from tidewheel.pubsub.log.segment import Segment
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.pubsub.log.stored_segments import StoredSegments
from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots.errors import SnapshotError
from tidewheel.storage.log_records import Entry, Record

_PLACE = Path("a simulated disk")
_FULL_EVERY = 20
MESSAGE, RESERVATION = "message", "reservation"
_AT_ONCE = 30


class DiskFolder:
    """A folder of files, which is full now and then."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._files: dict[str, bytes] = {}

    def write(self, name: str, pieces: Iterable[bytes]) -> Blob:
        """Write a file; raise SnapshotError if the folder is full."""
        if self._random.randrange(_FULL_EVERY) == 0:
            raise SnapshotError("the folder is full")
        data = self._files[name] = b"".join(pieces)
        return Blob(name, len(data), 0)

    def read(self, blob: Blob) -> bytes:
        """Return what a file has."""
        return self._files[blob.name]


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


class DiskRecords:
    """The log of one pubend as records, of which a crash tears the last.

    Attributes:
        published: all messages that are or were durable, by tick, forgotten or not.
        removed_end, lost_end: where the records begin, and one after the last message that was before that.
    """

    def __init__(self) -> None:
        self._durable: list[tuple[str, int, Any]] = []
        self._written: list[tuple[str, int, Any]] = []
        self._standings: dict[str, Standing | None] = {}
        self.published: dict[int, Any] = {}
        self.standings: dict[str, Standing] = {}
        self.removed_end = self.lost_end = 0

    def write(self, kind: str, tick: int, message: Any = None) -> None:
        """Write a record, which is not durable."""
        self._written.append((kind, tick, message))

    def write_cursor(self, cursor: Cursor) -> None:
        """Write what a subscription has acknowledged, and who has it, which is not durable."""
        self._standings[cursor.name] = cursor.standing

    def sync(self, records: int) -> list[tuple[str, int, Any]]:
        """Make the first records that were written durable; return them."""
        synced, self._written = self._written[:records], self._written[records:]
        self._durable += synced
        self.published |= {tick: message for kind, tick, message in synced if kind == MESSAGE}
        self.standings = {name: standing for name, standing in self._standings.items() if standing is not None}
        return synced

    @property
    def unsynced(self) -> int:
        """How many records are written and not durable."""
        return len(self._written)

    def crash(self, random: Random) -> None:
        """Lose some of what was not durable, from the end; what is left is found when the log is opened."""
        self.sync(random.randint(0, len(self._written)))
        self._written.clear()
        self._standings = dict(self.standings)

    def trim(self, tick: int) -> None:
        """Forget the messages before a tick."""
        removed = [at for kind, at, _ in self._durable if kind == MESSAGE and at < tick]
        self.removed_end = max(self.removed_end, tick)
        self.lost_end = max([self.lost_end, *(at + 1 for at in removed)])
        self._durable = [record for record in self._durable if record[1] >= tick or record[0] == RESERVATION]

    def read(self, first: int, end: int, max_bytes: int) -> tuple[list[tuple[int, Any]], int]:
        """Return messages of a range, and how far that is all: some at a time, as a log that takes its time does."""
        found = []
        for kind, tick, message in self._durable:
            if kind == MESSAGE and first <= tick < end:
                found.append((tick, message))
                max_bytes -= len(message)
                if max_bytes <= 0 or len(found) >= _AT_ONCE:
                    return found, tick + 1
        return found, end

    @property
    def next_tick(self) -> int:
        """The first tick that was neither logged nor reserved."""
        logged = [tick + 1 for kind, tick, _ in self._durable if kind == MESSAGE] + [
            max(self.published, default=-1) + 1
        ]
        return max(logged + [tick for kind, tick, _ in self._durable if kind == RESERVATION])

    @property
    def messages(self) -> int:
        """How many messages there are."""
        return sum(kind == MESSAGE for kind, _, _ in self._durable)
