"""The recovery of a log when it is opened, which distinguishes complete records, unfinished writes and damage.

Each segment was durable before the next segment began, and the next segment's header has its size. In the last segment,
some bytes are known to be durable:

- the bytes that the mark counts (`MarkFile`), and
- the bytes that a later complete record counts (``durable`` in `storage/log_records.py`).

If the first incomplete record is among these bytes, the log is damaged: `LogCorrupted`. Otherwise the rest was never
acknowledged, and is cut off.

So an unfinished write, cut at any byte, is not taken for damage. Damage can be taken for an unfinished write in these
cases:

- After a loss of power the mark may be some seconds old. If the last synced group is also damaged or missing, no later
  record counts it, so it looks like an unfinished write. The same holds for several groups if only damaged or missing
  records follow them.
- The same is true if the mark is removed or damaged; a damaged mark is logged as a warning.
- A missing last segment is not noticed if the mark is also old, damaged or removed, or if the whole log is missing,
  too.

An overwritten file (`spare_segments.py`) keeps its length, and has invalid old records after the new ones. Old records
without a complete head look like an unfinished write. So both are cut off, and only bytes that certainly belong to the
log are counted.

Readable bytes after the mark may be in memory only: after a failed sync the kernel considers the pages clean, and a
second sync succeeds without writing. So recovery writes these bytes again.

Sources: fsync(2); "PostgreSQL's fsync() surprise", LWN 2018.
"""

import logging
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tidewheel.pubsub.log.errors import LogCorrupted, corrupted
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.log.segment import READ_BYTES, SUFFIX, Segment, SegmentReader, open_segment
from tidewheel.storage.checksum import crc32c
from tidewheel.storage.files import Files, write_all
from tidewheel.storage.log_records import HEAD_BYTES, MAGIC, RecordHead

_LOG = logging.getLogger(__name__)
_MARK = struct.Struct("<QQ")
_CHECKSUM = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Mark:
    """The durable part of a log: the number of a segment, and the size of its durable part.

    Earlier segments are durable.
    """

    segment: int
    size: int


class MarkFile:
    """The file with a log's mark, in the log's directory.

    The log writes the mark after each sync, but does not sync it. After a loss of power the mark may be old, but it
    never counts bytes that are not durable.
    """

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._warned = False

    def read(self) -> Mark | None:
        """Return the mark; None if the file is empty or, with a warning, damaged."""
        data = os.pread(self._descriptor, _MARK.size + _CHECKSUM.size + 1, 0)
        if not data:
            return None
        content = data[: _MARK.size]
        if data[_MARK.size :] != _CHECKSUM.pack(crc32c(content)):
            _LOG.warning(
                "%s is damaged: the log is recovered without, but damage to what was logged last would be taken for a "
                "write that was never finished",
                self._path,
            )
            return None
        return Mark(*_MARK.unpack(content))

    def write(self, mark: Mark) -> None:
        """Replace the mark; warn once if that fails."""
        content = _MARK.pack(mark.segment, mark.size)
        try:
            write_all(self._files, self._descriptor, [content + _CHECKSUM.pack(crc32c(content))], 0)
        except OSError as error:
            if not self._warned:
                _LOG.warning("%s cannot be written (%s): the log goes on without", self._path, error)
            self._warned = True

    def close(self) -> None:
        """Make the mark durable, and close the file."""
        try:
            self._files.sync(self._descriptor)
        except OSError as error:
            _LOG.warning("%s cannot be made durable (%s)", self._path, error)
        finally:
            os.close(self._descriptor)


def find_segments(directory: Path, identity: LogIdentity, mark: Mark | None) -> list[Segment]:
    """Return the segments of a directory, in order; all but the last are complete.

    Raises:
        LogCorrupted: a segment is damaged, too short, too long or missing.
        LogMismatch: the segments belong to another log.
    """
    paths = sorted(directory.glob(f"*{SUFFIX}"))
    segments = [open_segment(path, identity) for path in paths]
    for segment in segments:
        if segment.path != segment_path(directory, segment.number):
            raise corrupted(segment.path, 0, f"it is number {segment.number} and has the name of another")
    for segment, following in pairwise(segments):
        if following.number != segment.number + 1:
            raise _missing(directory, segment.number + 1)
        size = segment.path.stat().st_size
        if size < following.bytes_before or size > max(following.bytes_before, segment.spare_bytes):
            what = f"it has {size} bytes and had {following.bytes_before} when the next segment was begun"
            raise corrupted(segment.path, min(size, following.bytes_before), what)
        segment.size, segment.last_tick = following.bytes_before, following.tick_before
        segment.ended_s = following.begun_s
        if segment.size > segment.start:
            with segment.reading() as reader:
                reader.head(segment.start)  # so that its first tick is known
    if mark is not None and mark.segment > (segments[-1].number if segments else 0):
        raise _missing(directory, mark.segment)
    return segments


def recover(segment: Segment, mark: Mark | None, descriptor: int, files: Files) -> int:
    """Make the complete records of the last segment durable; cut off the rest and return the rest's size in bytes.

    The size does not count old bytes of another segment.

    Raises:
        LogCorrupted: a durable record is damaged.
        OSError: the disk is full, or fails.
    """
    marked = mark.size if mark is not None and mark.segment == segment.number else segment.start
    size = os.fstat(descriptor).st_size
    whole, end = _check(segment, size, marked)
    if whole < size:
        files.cut(descriptor, whole)
    for offset in range(marked, whole, READ_BYTES):
        write_all(files, descriptor, [os.pread(descriptor, min(READ_BYTES, whole - offset), offset)], offset)
    files.sync(descriptor)
    segment.size = whole
    return end - whole


def _missing(directory: Path, number: int) -> LogCorrupted:
    return corrupted(segment_path(directory, number), 0, "the file is missing")


def segment_path(directory: Path, number: int) -> Path:
    return directory / f"{number:020d}{SUFFIX}"


def _check(segment: Segment, size: int, marked: int) -> tuple[int, int]:
    with segment.reading(size) as reader:
        reader.ahead = READ_BYTES
        offset = segment.start
        while (head := reader.peek(offset)) is not None and reader.peek_payload(offset, head) is not None:
            segment.index.add(head.tick, offset)
            segment.last_tick = head.tick
            offset += head.size
        tick = None if head is None else head.tick
        if offset < marked:
            raise corrupted(segment.path, offset, f"there is no whole record, and {marked} bytes were durable", tick)
        end = size if size > segment.spare_bytes else offset
        for behind, later in _heads(reader, offset, size):
            if later.durable > offset:
                what = f"there is no whole record, but behind it, at byte {behind}, one that was written later"
                raise corrupted(segment.path, offset, what, tick)
            end = max(end, min(behind + later.size, size))
    return offset, end


def _heads(reader: SegmentReader, offset: int, size: int) -> Iterator[tuple[int, RecordHead]]:
    while size - offset >= HEAD_BYTES:
        data, start = reader.bytes_at(offset, HEAD_BYTES)
        found = data.find(MAGIC, start)
        if found < 0:
            offset += max(1, len(data) - start - len(MAGIC) + 1)
            continue
        offset += found - start
        head = reader.peek(offset)
        if head is not None:
            yield offset, head
        offset += 1
