"""The segments of a log: their sizes, reading them, and removing the oldest.

Readers work while another thread writes: each reads a copy of the list, up to the durable end.
"""

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from tidewheel.pubsub.log.errors import LogCorrupted, LogError, LogFailed, corrupted
from tidewheel.pubsub.log.segment import READ_BYTES, Segment
from tidewheel.storage.log_records import Record

if TYPE_CHECKING:  # it imports libraries for object stores
    from tidewheel.pubsub.log.object_segment import ObjectSegment


S = TypeVar("S", bound="Segment | ObjectSegment")


@dataclass(frozen=True, slots=True)
class Replay:
    """A snapshot and the records after it, from which the state at a tick can be restored.

    Args:
        tick: the tick of the last record in the snapshot; -1 if there is none.
    """

    snapshot: bytes
    tick: int
    records: Iterator[Record]


_FIRST_READ_BYTES = 16 << 10
"""The size of the first read of a segment, since a state at its beginning needs few records."""

CLOSE_S = 30.0
"""The default seconds for which closing a log waits for another thread."""


class StoredSegments(ABC, Generic[S]):
    """A log in a directory or an object store: one or more segments, in order.

    Attributes:
        is_in_memory: whether the log is in memory, so that a sync does not wait.
    """

    is_in_memory = False

    def __init__(self, directory: Path | str) -> None:
        self._directory = directory
        self._segments: list[S] = []
        self._trimming = threading.Lock()
        self._writing = threading.RLock()
        self._failure: LogFailed | None = None

    @abstractmethod
    def sync(self) -> int:
        """Make the appended records durable; return `last_tick`."""

    def room_for(self, size: int) -> memoryview | None:
        """Return memory of the log for a payload of ``size`` bytes; None if the caller should use its own memory."""
        return None

    def _check_usable(self) -> None:
        if self._failure:
            raise type(self._failure)(str(self._failure), path=self._directory)

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Make the appended records durable, unless the log has failed, and close the log.

        Args:
            timeout_s: the seconds to wait for another thread that writes.

        Raises:
            LogFailed: records since the last `sync` may or may not be durable; the log is closed.
            LogError: another thread still writes; the log stays open.
        """
        if not self._writing.acquire(timeout=timeout_s):
            raise LogError(
                f"the log in {self._directory} is still being written after {timeout_s:g} s: the disk or store is "
                "slow, or hangs",
                path=self._directory,
            )
        try:
            self._close()
        finally:
            self._writing.release()

    def _close(self) -> None:
        if self._failure is None:
            self.sync()
            text = f"the log in {self._directory} is closed: open it again"
            self._failure = LogFailed(text, path=self._directory)

    @property
    def first_tick(self) -> int:
        """The tick of the oldest record; `last_tick` plus one if there is none."""
        ticks = (segment.first_tick for segment in self.segments())
        return next((tick for tick in ticks if tick is not None), self.last_tick + 1)

    @property
    def removed_end(self) -> int:
        """The tick after the last removed record; 0 if none was removed."""
        return self._segments[0].tick_before + 1

    @property
    def last_tick(self) -> int:
        """The tick of the last durable record, even if it was removed; -1 if there is none."""
        return self._segments[-1].last_tick

    @property
    def newest_after(self) -> int:
        """The tick of the last record before the newest segment; -1 if there is none."""
        return self._segments[-1].tick_before

    @property
    def total_bytes(self) -> int:
        return sum(segment.size for segment in self.segments())

    def segments(self) -> tuple[S, ...]:
        return tuple(self._segments)

    def read(self, first_tick: int, max_bytes: int, most: int = sys.maxsize) -> list[Record]:
        """Return durable records at or after ``first_tick``, in order.

        Return all records of a tick or none of them, so that the caller can continue after the last tick.

        Args:
            first_tick: the first wanted tick; removed records are skipped.
            max_bytes: the approximate size of the result; all records of the first tick are returned even if they
                exceed it.
            most: the approximate number of records; object stores ignore it.

        Raises:
            LogCorrupted: the records of the first tick, or records before them, are damaged.

        Complexity: O(log records), plus 64 KiB of heads and the returned records; the first read of a segment reads all
        its heads.
        """
        found: list[Record] = []
        left = max_bytes
        for segment in self.segments():
            if segment.last_tick < first_tick:
                continue
            if found and (left <= 0 or len(found) >= most) and segment.tick_before != found[-1].tick:
                break
            try:
                left = segment.read(first_tick, found, left, most)
            except FileNotFoundError:
                self._check_removed(segment)
                found.clear()  # the segments before it are removed, too, and there must be no gap
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
        """Return the snapshot and records from which to restore the state after all durable records up to ``tick``.

        Raises:
            LogError: the log begins after ``tick``.
            LogCorrupted: the snapshot is damaged; reading the records may raise it, too.

        Complexity: at most the records of one segment.
        """
        segments = [segment for segment in self.segments() if segment.tick_before <= tick]
        if not segments:
            raise self._begins_later(tick)
        segment = segments[-1]
        try:
            snapshot = segment.snapshot()
        except FileNotFoundError:
            self._check_removed(segment)
            raise self._begins_later(tick) from None
        return Replay(snapshot, segment.tick_before, self._records(segment, tick))

    def _records(self, segment: S, last_tick: int) -> Iterator[Record]:
        found: list[Record] = []
        first_tick = 0
        size = _FIRST_READ_BYTES
        while True:
            found.clear()
            try:
                segment.read(first_tick, found, size)
            except FileNotFoundError:
                self._check_removed(segment)
                raise self._begins_later(first_tick) from None
            yield from (record for record in found if record.tick <= last_tick)
            if not found or found[-1].tick > last_tick:
                return
            first_tick = found[-1].tick + 1
            size = min(2 * size, READ_BYTES)

    def _begins_later(self, tick: int) -> LogError:
        return LogError(
            f"the log in {self._directory} begins at tick {self.first_tick}: what it held at tick {tick} was removed",
            path=self._directory,
        )

    def _check_removed(self, segment: S) -> None:
        if segment in self._segments:
            raise corrupted(segment.path, 0, "the file is missing")

    def has_before(self, tick: int) -> bool:
        """Tell whether `trim` would remove a segment."""
        return len(self._segments) > 1 and self._segments[0].last_tick < tick
