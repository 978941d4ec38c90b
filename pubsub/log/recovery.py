"""Recovery of a log that is opened: what is whole, what was never finished, and what is damaged.

Every segment but the last was durable before the next was begun, and that says how long it is. In the last one some
bytes are known to have been durable:

- those that the mark counts (`mark.py`), and
- those that a whole record counts, which was written behind them (``durable`` in `record_format.py`).

Where the first record lies that is not whole, among those bytes, something is damaged: `LogCorrupted`. Otherwise what
lies there and behind was never acknowledged, and is cut off.

That tells a write that was torn, at whatever byte, from damage in all cases but these:

- After the loss of power the mark may be an older one, by as many seconds as the kernel takes to write it. Then the
  group that was synced last looks like a write that was torn if it is damaged or missing, too: behind it is no record
  that was written after it was durable. So do several groups if all records of those behind the first are damaged or
  missing. `Log.close` makes the mark durable.
- The same holds if the mark is damaged, which is said, or removed.
- A last segment that is missing is not missed if the mark is older, damaged or removed, too; nor is a whole log without
  its mark.

A file that is written over (`spare_segments.py`) is as long as it was: behind what was written lies what it had
before, of which no record is one of this segment. A part of a write that has no whole head cannot be told from that;
both are cut off, and what is said of how much that was is of what can be told.

What lies behind the mark may be in memory and not on the disk, also when it can be read: after a sync that failed the
kernel takes the pages for clean, and a second sync succeeds without having written anything. So it is written once more
before anybody is told of it.

Sources: fsync(2); "PostgreSQL's fsync() surprise", LWN 2018.
"""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tidewheel.pubsub.log.errors import LogCorrupted, corrupted
from tidewheel.pubsub.log.files import Files, write_all
from tidewheel.pubsub.log.mark import Mark
from tidewheel.pubsub.log.record_format import HEAD_BYTES, MAGIC, LogIdentity, RecordHead
from tidewheel.pubsub.log.segment import READ_BYTES, SUFFIX, Segment, SegmentReader, open_segment, read_segment


def find_segments(directory: Path, identity: LogIdentity, mark: Mark | None) -> list[Segment]:
    """Return the segments in a directory, in order, those before the last complete; none in an empty one.

    Raises:
        LogCorrupted: one is damaged, too short, too long or missing.
        LogMismatch: they are of another log.
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
        if segment.size > segment.start:
            with read_segment(segment, segment.size) as reader:
                reader.head(segment.start)  # so that its first tick is known
    if mark is not None and mark.segment > (segments[-1].number if segments else 0):
        raise _missing(directory, mark.segment)
    return segments


def recover(segment: Segment, mark: Mark | None, descriptor: int, files: Files) -> int:
    """Make what is whole of the last segment durable, and cut off what is not; return how many bytes those were.

    What is left of the former use of the file is cut off as well, and not counted.

    Raises:
        LogCorrupted: something is damaged.
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
    """Return the name of a segment."""
    return directory / f"{number:020d}{SUFFIX}"


def _check(segment: Segment, size: int, marked: int) -> tuple[int, int]:
    """Return where the last whole record of a segment ends, and all that was written of it, as far as that shows.

    Args:
        segment: the last one.
        size: how many bytes its file has.
        marked: how many of them were durable.

    Raises:
        LogCorrupted: behind the last whole record was something durable.
    """
    with read_segment(segment, size) as reader:
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
    """Yield all heads of records of a segment from ``offset`` on, and where they are; some lie inside of others."""
    while size - offset >= HEAD_BYTES:
        data, start = reader.bytes_at(offset, HEAD_BYTES)
        found = data.find(MAGIC, start)
        if found < 0:
            offset += max(1, len(data) - start - len(MAGIC) + 1)
            continue
        offset += found - start
        head = reader.peek_head(offset)
        if head is not None:
            yield offset, head
        offset += 1
