"""A log in a directory: records in order of ticks, in files that are removed or overwritten as a whole.

Invariants:

- Readers receive a record only after a successful fdatasync.
- The log has either all entries of one `Log.append` or, if they were lost before they were durable, none of them. -
  After a failed fdatasync the log writes nothing more, since a second fdatasync could succeed although the kernel has
  dropped the pages. Opening the log again finds out which records it has (`recovery.py`). - A segment gets its name
  when its header is durable, and the previous segment is durable and complete.
- Segments have consecutive numbers, and are removed durably, from the oldest on.

Source: fsync(2); seed "Gryphon exactly-once", 2.2 "Pubends".
"""

import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from tidewheel.pubsub.log.errors import LogError, LogFailed, LogFull, LogLocked
from tidewheel.pubsub.log.headers import LogIdentity, SegmentHeader
from tidewheel.pubsub.log.recovery import Mark, MarkFile, find_segments, recover, segment_path
from tidewheel.pubsub.log.reserve import Reserve
from tidewheel.pubsub.log.segment import Segment
from tidewheel.pubsub.log.segment_writer import SegmentWriter, name_segment, prepare_segment
from tidewheel.pubsub.log.spare_segments import SpareSegments
from tidewheel.pubsub.log.stored_segments import StoredSegments
from tidewheel.storage.file_lock import open_lock_file
from tidewheel.storage.files import FILES, FULL, Files, check_private, make_directory
from tidewheel.storage.log_records import Entry

_LOG = logging.getLogger(__name__)

SEGMENT_BYTES = 16 << 20
"""The default size of a segment."""


class Log(StoredSegments[Segment]):
    """The log of one partition, in a directory; created if missing. Thread-safe; writers wait for a sync.

    Args:
        segment_bytes: the bytes of records after which a new segment is due.
        is_in_memory: whether the directory is in memory, so that segments have payload areas.
        wait_s: the seconds to wait for another process that has the log open.

    Raises:
        LogError: other users may write to the directory.
        LogLocked: another process still has the log open.
        LogMismatch: the log has another identity.
        LogCorrupted: the log is damaged.
        LogFull: the disk has no room.
        LogFailed: the disk failed.

    Complexity: opening reads the last segment.

    Attributes:
        cut_bytes: the size of the unfinished write that was cut off when the log was opened.
    """

    def __init__(
        self,
        directory: Path,
        identity: LogIdentity,
        *,
        snapshot: bytes = b"",
        segment_bytes: int = SEGMENT_BYTES,
        is_in_memory: bool = False,
        wait_s: float = 0.0,
        clock: Callable[[], float] = time.time,
        files: Files = FILES,
    ) -> None:
        self._files = files
        self._folder = directory
        self._identity = identity
        self._segment_bytes = segment_bytes
        self.is_in_memory = is_in_memory
        self._large_bytes = 0
        self._clock = clock
        self.cut_bytes = 0
        with ExitStack() as resources:
            try:
                make_directory(files, directory)
                check_private(directory, "the log", partial(LogError, path=directory))
                lock = open_lock_file(directory / "lock", wait_s, lambda holder: _locked(directory, holder, wait_s))
                resources.callback(os.close, lock)
                self._spares = SpareSegments(directory, files, 2 * segment_bytes)
                super().__init__(directory)
                self._mark = MarkFile(directory / "mark", files)
                resources.callback(self._mark.close)
                self._reserve = Reserve(directory / "reserve", files)
                resources.callback(self._reserve.close)
                self._writer = self._last_segment(identity, snapshot)
            except OSError as error:
                kind = LogFull if error.errno in FULL else LogFailed
                raise kind(f"the log in {directory} cannot be opened: {error}", path=directory) from error
            resources.callback(self._close_writer)
            self._resources = resources.pop_all()

    def _last_segment(self, identity: LogIdentity, snapshot: bytes) -> SegmentWriter:
        mark = self._mark.read()
        self._segments += find_segments(self._folder, identity, mark)
        if self._segments:
            return self._recover(self._segments[-1], mark)
        writer = self._new_segment(1, -1, 0, snapshot)
        self._segments.append(writer.segment)
        return writer

    def _recover(self, segment: Segment, mark: Mark | None) -> SegmentWriter:
        descriptor = os.open(segment.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self.cut_bytes = recover(segment, mark, descriptor, self._files)
        except BaseException:
            os.close(descriptor)
            raise
        if self.cut_bytes:
            _LOG.warning("%s: %d bytes of a write that was never finished were cut off", segment.path, self.cut_bytes)
        self._mark.write(Mark(segment.number, segment.size))
        return SegmentWriter(segment, descriptor, self._files)

    # ------------------------------------------------------------------ writing

    @property
    def is_segment_due(self) -> bool:
        """True if the records since the last snapshot take `segment_bytes`, and at least as much as the snapshot."""
        writer = self._writer
        segment = writer.segment
        used = writer.written - segment.start + (0 if segment.area is None else segment.area.used_bytes)
        return used >= max(self._segment_bytes, segment.start - segment.area_bytes)

    def room_for(self, size: int) -> memoryview | None:
        """Return memory for a payload that may become the first part of a later entry."""
        area = self._writer.segment.area
        return None if area is None else area.lend(size)

    def append(self, entries: Iterable[Entry]) -> None:
        """Write records after all others; they are not durable yet.

        Raises:
            ValueError: a tick decreases, or an entry is too large; nothing is written.
            LogFull: the disk is full; nothing is written.
            LogFailed: a write failed, now or before.
        """
        with self._writing:
            self._check_usable()
            try:
                self._append(list(entries))
            except OSError as error:
                raise self._error("writing", error, is_lost=self._writer.is_broken) from error

    def _append(self, entries: list[Entry]) -> None:
        try:
            self._writer.append(entries)
        except OSError as error:
            is_urgent = all(entry.is_urgent for entry in entries)
            if self._writer.is_broken or not self._has_made_room(error, is_urgent=is_urgent):
                raise
            self._append(entries)

    def _has_made_room(self, error: OSError, *, is_urgent: bool = False) -> bool:
        return error.errno in FULL and (self._spares.free() or (is_urgent and self._reserve.free()))

    def sync(self) -> int:
        """Make the appended records durable with one fdatasync; return `last_tick`.

        Raises:
            LogFailed: the sync failed, now or before; records since the last sync may or may not be durable.
        """
        with self._writing:
            self._check_usable()
            segment = self._writer.segment
            try:
                is_news = self._writer.sync()
            except OSError as error:
                raise self._error("fdatasync", error, is_lost=True) from error
            if is_news:
                self._mark.write(Mark(segment.number, segment.size))
            return segment.last_tick

    def begin_segment(self, snapshot: bytes) -> None:
        """Make the appended records durable, and begin another segment.

        Raises:
            LogFull: there is no room; the old segment still accepts records.
            LogFailed: a write failed, now or before.
        """
        with self._writing:
            self.sync()
            old = self._writer.segment
            self._large_bytes = self._writer.large_bytes * 9 // 8 if self.is_in_memory else 0  # with room to spare
            writer = self._new_segment(old.number + 1, old.last_tick, old.size, snapshot)
            self._close_writer()
            old.ended_s = writer.segment.begun_s
            self._segments.append(writer.segment)
            self._writer = writer

    def _new_segment(self, number: int, tick_before: int, bytes_before: int, snapshot: bytes) -> SegmentWriter:
        header = SegmentHeader(self._identity, number, tick_before, bytes_before, self._clock(), snapshot)
        path = segment_path(self._folder, number)
        try:
            writer = self._prepare(path, header)
        except OSError as error:
            raise self._error("writing a new segment", error) from error
        try:
            name_segment(path, self._files)
        except BaseException as error:
            writer.close()
            failed = self._error("naming a new segment", error, is_lost=True)
            if isinstance(error, OSError):
                raise failed from error
            raise
        self._mark.write(Mark(number, writer.segment.size))
        return writer

    def _prepare(self, path: Path, header: SegmentHeader) -> SegmentWriter:
        spare = self._spares.take()
        if spare is not None:
            with suppress(OSError):  # another program may have removed it
                return prepare_segment(path, header, self._files, spare, self._large_bytes)
        try:
            return prepare_segment(path, header, self._files, area_bytes=self._large_bytes)
        except OSError as error:
            if not self._has_made_room(error):
                raise
            return prepare_segment(path, header, self._files)

    def is_short_of_room(self) -> bool:
        """Tell whether the disk has less free space than two segments; this may wait for the disk."""
        try:
            return self._files.free_bytes(Path(self._directory)) < 2 * self._segment_bytes
        except OSError:  # the folder is gone, which the next write reports
            return False

    def trim(self, tick: int) -> int:
        """Remove the segments with only records before ``tick``, except the last segment; return their size in bytes.

        This waits for the disk, but writers continue. Some files are kept, to be overwritten.

        Raises:
            LogError: a file could not be removed; its segment stays.
        """
        removed = 0
        with self._trimming:
            while self.has_before(tick):
                oldest = self._segments.pop(0)  # before the file goes, so that a reader that misses it knows why
                try:
                    self._spares.retire(oldest)
                except OSError as error:
                    self._segments.insert(0, oldest)
                    raise LogError(f"{oldest.path} cannot be removed: {error}", path=oldest.path) from error
                removed += oldest.size
            self._spares.expire()
            self._reserve.fill()
        return removed

    def _error(self, what: str, error: BaseException, *, is_lost: bool = False) -> LogError:
        if isinstance(error, OSError) and error.errno in FULL and not is_lost:
            return LogFull(
                f"the log in {self._directory} is full ({error}): the new records are not in it, and the durable "
                "ones stay. It goes on when there is room",
                path=self._directory,
            )
        self._failure = LogFailed(
            f"the log in {self._directory} has failed ({what}: {error}) and takes nothing more; what was durable can "
            "be read. Repair the disk, then open the log again, which finds the other records",
            path=self._directory,
        )
        return self._failure

    def _close(self) -> None:
        with self._resources.pop_all():
            super()._close()
            self._spares.free()

    def _close_writer(self) -> None:
        self._writer.close()


def _locked(directory: Path, holder: str, wait_s: float) -> LogLocked:
    return LogLocked(
        f"the log in {directory} is in use by {holder}, also after waiting for {wait_s:g} s: end that, or wait longer",
        path=directory,
    )
