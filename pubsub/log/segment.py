"""One file of a log, its state and its readers.

Invariants:

- A reader checks the checksum of a record at each read, and returns only records that match.
- A file is open only while it is read, so a log may have any number of segments. A file that is removed meanwhile can
  still be read to its end.
"""

import os
import sys
import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidewheel.pubsub.log.errors import corrupted
from tidewheel.pubsub.log.headers import LogIdentity, SegmentHeader, decode_header, header_bytes
from tidewheel.pubsub.log.payload_area import PayloadArea
from tidewheel.storage.checksum import crc32c
from tidewheel.storage.log_records import (
    HEAD_BYTES,
    PREFIX_BYTES,
    REFERENCE,
    Record,
    RecordHead,
    decode_head,
    ends_checksum,
    payload_matches,
    salt_of,
)

SUFFIX = ".segment"

_STEP_BYTES = 4096
_INDEX_BYTES = 64 << 10
_USUAL_BYTES = 256
_MOST_ENDS = 64

READ_BYTES = 1 << 20
"""The largest size of one read, unless a record is larger."""


class Segment:
    """The state of one file.

    Attributes:
        start: the offset of the first record.
        area: the mapping of its file, as long as this process may write to it.
        begun_s: when it began, in seconds since 1970; ``ended_s`` is when the next segment began, None for the last
            segment.
        readers: how many readers have the file open; a removed file gets no new readers.
        last_tick: the tick of the last durable record, here or earlier; -1 if there is none.
    """

    def __init__(self, path: Path, header: SegmentHeader, header_bytes: int, salt: int) -> None:
        self.path = path
        self.number = header.number
        self.tick_before = header.tick_before
        self.bytes_before = header.bytes_before
        self.begun_s = header.begun_s
        self.ended_s: float | None = None
        self.spare_bytes = header.spare_bytes
        self.area_bytes = header.area_bytes
        self.start = header_bytes + header.area_bytes
        self.area: PayloadArea | None = None
        self.salt = salt
        self.index = _SparseIndex(_INDEX_BYTES)
        self.size = self.start
        self.last_tick = header.tick_before
        self._lock = threading.Lock()
        self.readers = 0

    @contextmanager
    def reading(self, size: int | None = None) -> Iterator["SegmentReader"]:
        """Yield a reader; during the ``with`` block the file keeps its content.

        Raises:
            FileNotFoundError: the file was removed.
        """
        with self._lock:
            self.readers += 1
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                yield SegmentReader(self, descriptor, self.size if size is None else size)
            finally:
                os.close(descriptor)
        finally:
            with self._lock:
                self.readers -= 1

    @property
    def first_tick(self) -> int | None:
        first = self.index.first()
        return None if first is None or first[1] >= self.size else first[0]

    def snapshot(self) -> bytes:
        """Return the snapshot in the header: the state before the first record.

        Raises:
            LogCorrupted: the header is damaged.
            FileNotFoundError: the file was removed.
        """
        with self.reading() as reader:
            return _read_header(self.path, reader.descriptor)[0].snapshot

    def read(self, first_tick: int, found: list[Record], left: int, most: int = sys.maxsize) -> int:
        """Append about ``left`` bytes of records from ``first_tick`` on to ``found``; return how many bytes are left.

        Append all records of a tick or none of them: at least one tick if ``found`` is empty, otherwise at most about
        ``most`` records.

        Raises:
            LogCorrupted: the next record is damaged; earlier ones are appended.
            FileNotFoundError: the file was removed.
        """
        if self.size == self.start:
            return left
        with self.reading() as reader:
            offset = reader.seek(first_tick)
            while offset < reader.size:
                reader.ahead = max(_STEP_BYTES, min(left, READ_BYTES, (most - len(found)) * _USUAL_BYTES))
                head = reader.head(offset)
                if found and (left <= 0 or len(found) >= most) and head.tick != found[-1].tick:
                    self.index.note_end(found[-1].tick, offset)
                    break
                payload = reader.payload(offset, head)
                found.append(Record(head.tick, head.kind, payload))
                offset += head.size
                left -= HEAD_BYTES + len(payload)
        return left


def open_segment(path: Path, identity: LogIdentity) -> Segment:
    """Return the segment in a file. None of its records counts as durable yet.

    Raises:
        LogCorrupted: the header is damaged.
        LogMismatch: the file has another format, or belongs to another log.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        header, data = _read_header(path, descriptor)
    finally:
        os.close(descriptor)
    identity.check(header.identity, path.parent)
    return Segment(path, header, len(data), salt_of(data))


def _read_header(path: Path, descriptor: int) -> tuple[SegmentHeader, bytes]:
    with open(descriptor, "rb", closefd=False) as file:
        prefix = file.read(PREFIX_BYTES)
        data = prefix + file.read(header_bytes(prefix, path) - PREFIX_BYTES)
    return decode_header(data, path, SegmentHeader), data


class SegmentReader:
    """Reads a segment's records by offset; a segment may have several readers."""

    def __init__(self, segment: Segment, descriptor: int, size: int) -> None:
        self._segment = segment
        self.size = size
        self.ahead = _STEP_BYTES
        self.descriptor = descriptor
        self._data = b""
        self._data_offset = 0

    def bytes_at(self, offset: int, least: int) -> tuple[bytes, int]:
        """Return bytes of the file, and the place of ``offset`` in them.

        At least ``least`` bytes follow that place, or fewer at the end of the file.

        Raises:
            LogCorrupted: the disk does not return the bytes.
        """
        start = offset - self._data_offset
        if start < 0 or start + least > len(self._data):
            self._data = self._read(min(max(least, self.ahead), self.size - offset), offset)
            self._data_offset, start = offset, 0
        return self._data, start

    def _read(self, size: int, offset: int) -> bytes:
        try:
            return os.pread(self.descriptor, size, offset)
        except OSError as error:
            raise corrupted(self._segment.path, offset, f"it cannot be read ({error})") from error

    def peek(self, offset: int) -> RecordHead | None:
        if self.size - offset < HEAD_BYTES:
            return None
        data, start = self.bytes_at(offset, HEAD_BYTES)
        return decode_head(data, start, offset, self._segment.salt)

    def peek_payload(self, offset: int, head: RecordHead) -> bytes | None:
        """Return the payload of the record at ``offset``; None if it is damaged or incomplete."""
        data, start = self.bytes_at(offset, head.size)
        payload = data[start + HEAD_BYTES : start + head.size]
        if head.refers and len(payload) == head.length:
            begin, size = REFERENCE.unpack_from(payload)
            if begin + size > self._segment.start:
                return None
            first, rest = self._read(size, begin), payload[REFERENCE.size :]
            return first + rest if crc32c(rest, ends_checksum(first)) == head.checksum else None
        return payload if payload_matches(head, payload) else None

    def head(self, offset: int) -> RecordHead:
        """Return the head of the record at ``offset``, and add it to the index.

        Raises:
            LogCorrupted: there is no record.
        """
        head = self.peek(offset)
        if head is None or offset + head.size > self.size:
            raise corrupted(self._segment.path, offset, "the head of a record does not match its checksum")
        if offset >= self._segment.index.wanted:
            self._segment.index.add(head.tick, offset)
        return head

    def payload(self, offset: int, head: RecordHead) -> bytes:
        """Return the payload of the record at ``offset``.

        Raises:
            LogCorrupted: the payload is damaged.
        """
        payload = self.peek_payload(offset, head)
        if payload is None:
            what = "the payload of a record does not match its checksum"
            raise corrupted(self._segment.path, offset, what, head.tick)
        return payload

    def seek(self, first_tick: int) -> int:
        """Return the offset of the first record at or after ``first_tick``; the segment's `size` if there is none.

        Raises:
            LogCorrupted: a record on the way has a damaged head.
        """
        offset = self._segment.index.seek(first_tick)
        offset = self._segment.start if offset is None else offset
        while offset < self.size:
            head = self.head(offset)
            if head.tick >= first_tick:
                return offset
            offset += head.size
        return self.size


class _SparseIndex:
    """The offsets of some records of one segment, in order, including the first record; thread-safe.

    The index also remembers the ends of the latest reads.

    Invariant: the distance of neighbouring entries is less than ``spacing`` bytes plus one record.

    >>> index = _SparseIndex(spacing=100)
    >>> for tick, offset in [(10, 50), (11, 149), (12, 151), (12, 250), (12, 260)]:
    ...     index.add(tick, offset)
    >>> index.seek(11), index.seek(12), index.seek(13)
    (50, 50, 260)
    """

    def __init__(self, spacing: int) -> None:
        self.spacing = spacing
        self._ticks = array("q")
        self._offsets = array("q")
        self._ends: dict[int, int] = {}
        self._lock = threading.Lock()
        self.wanted = 0
        """The least offset at which the index needs another record."""

    def add(self, tick: int, offset: int) -> None:
        with self._lock:
            if offset >= self.wanted:
                self._ticks.append(tick)
                self._offsets.append(offset)
                self.wanted = offset + self.spacing

    def note_end(self, tick: int, offset: int) -> None:
        with self._lock:
            self._ends[tick] = offset
            if len(self._ends) > _MOST_ENDS:
                del self._ends[next(iter(self._ends))]

    def seek(self, tick: int) -> int | None:
        with self._lock:
            if tick - 1 in self._ends:
                return self._ends[tick - 1]
            place = bisect_left(self._ticks, tick)
            return self._offsets[place - 1] if place else None

    def first(self) -> tuple[int, int] | None:
        with self._lock:
            return (self._ticks[0], self._offsets[0]) if self._ticks else None
