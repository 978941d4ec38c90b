"""One file of a log: what is known of it, and reading it.

Invariants: nobody reads beyond `Segment.size`, which is what is durable; nothing is returned that does not match its
checksum, which is looked at each time; a file is only open while somebody reads it, so a log may have any number of
segments, and one that is removed meanwhile is read to its end.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidewheel.pubsub.log.errors import LogMismatch, corrupted
from tidewheel.pubsub.log.record_format import (
    HEAD_BYTES,
    PREFIX_BYTES,
    HeaderDamaged,
    LogIdentity,
    Record,
    RecordHead,
    SegmentHeader,
    UnknownFormat,
    decode_head,
    decode_header,
    header_bytes,
    payload_matches,
    salt_of,
)
from tidewheel.pubsub.log.sparse_index import SparseIndex

SUFFIX = ".segment"

_STEP_BYTES = 4096
_INDEX_BYTES = 64 << 10
READ_BYTES = 1 << 20
"""At most so many bytes are read at a time, but for a record that has more."""


class Segment:
    """What is known of one file.

    Args:
        path: the file.
        header: what it begins with; the snapshot is not kept.
        start: the offset of the first record.
        salt: of its records.

    Attributes:
        size: how many bytes of it are durable.
        last_tick: of the last record that is, here or in a segment before; -1 without any.
    """

    def __init__(self, path: Path, header: SegmentHeader, start: int, salt: int) -> None:
        self.path = path
        self.number = header.number
        self.tick_before = header.tick_before
        self.bytes_before = header.bytes_before
        self.begun_s = header.begun_s
        self.spare_bytes = header.spare_bytes
        self.start = start
        self.salt = salt
        self.index = SparseIndex(_INDEX_BYTES)
        self.size = start
        self.last_tick = header.tick_before
        self._lock = threading.Lock()
        self._readers = 0

    @property
    def is_read(self) -> bool:
        """Whether somebody reads the file. Where it has lost its name, nobody begins to any more."""
        return self._readers > 0

    @contextmanager
    def reading(self) -> Iterator[int]:
        """Return a descriptor of the file, which keeps what it has for so long.

        Raises:
            FileNotFoundError: the file has been removed.
        """
        with self._lock:
            self._readers += 1
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                yield descriptor
            finally:
                os.close(descriptor)
        finally:
            with self._lock:
                self._readers -= 1

    @property
    def first_tick(self) -> int | None:
        """The tick of its first record; None if it has none."""
        first = self.index.first()
        return None if first is None or first[1] >= self.size else first[0]

    def read(self, first_tick: int, found: list[Record], left: int) -> int:
        """Append records from ``first_tick`` on to ``found``, about ``left`` bytes of them; return how many are left.

        All records of one tick are read, or none; and at least one tick if nothing was found before.

        Raises:
            LogCorrupted: the next record is damaged; those before it have been appended.
            FileNotFoundError: the file has been removed.
        """
        if self.size == self.start:
            return left
        with read_segment(self, self.size) as reader:
            offset = reader.seek(first_tick)
            while offset < reader.size:
                reader.ahead = max(_STEP_BYTES, min(left, READ_BYTES))
                head = reader.head(offset)
                if found and left <= 0 and head.tick != found[-1].tick:
                    break
                found.append(Record(head.tick, head.kind, reader.payload(offset, head)))
                offset += head.size
                left -= head.size
        return left


def open_segment(path: Path, identity: LogIdentity) -> Segment:
    """Return what a file says of itself; none of its records counts as durable yet.

    Raises:
        LogCorrupted: the header is damaged.
        LogMismatch: it is of another format, or of another log.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        header, data = _read_header(path, descriptor)
    finally:
        os.close(descriptor)
    if header.identity != identity:
        raise LogMismatch(
            f"{path.parent} holds the log of {header.identity}; asked for was that of {identity}: give each a "
            "directory of its own",
            path=path.parent,
        )
    return Segment(path, header, len(data), salt_of(data))


def read_snapshot(segment: Segment) -> bytes:
    """Return what the header of a segment says of all that was before it.

    Raises:
        LogCorrupted: the header is damaged.
        FileNotFoundError: the file has been removed.
    """
    with segment.reading() as descriptor:
        return _read_header(segment.path, descriptor)[0].snapshot


def _read_header(path: Path, descriptor: int) -> tuple[SegmentHeader, bytes]:
    try:
        with open(descriptor, "rb", closefd=False) as file:
            prefix = file.read(PREFIX_BYTES)
            data = prefix + file.read(header_bytes(prefix) - PREFIX_BYTES)
        return decode_header(data), data
    except HeaderDamaged as error:
        raise corrupted(path, 0, str(error)) from None
    except UnknownFormat as error:
        raise LogMismatch(f"{path} cannot be read: {error}", path=path) from None


@contextmanager
def read_segment(segment: Segment, size: int) -> Iterator["SegmentReader"]:
    """Return what reads a segment, as far as the end of the block.

    Args:
        segment: what to read.
        size: nothing at or behind this offset is looked at.

    Raises:
        FileNotFoundError: the file has been removed.
    """
    with segment.reading() as descriptor:
        yield SegmentReader(segment, descriptor, size)


class SegmentReader:
    """Reads records of one segment by their offsets; several may do so at a time.

    Args:
        segment: what to read.
        descriptor: of its file.
        size: nothing at or behind this offset is looked at.

    Attributes:
        ahead: how many bytes to read at a time.
    """

    def __init__(self, segment: Segment, descriptor: int, size: int) -> None:
        self._segment = segment
        self.size = size
        self.ahead = _STEP_BYTES
        self._descriptor = descriptor
        self._data = b""
        self._data_offset = 0

    def bytes_at(self, offset: int, least: int) -> tuple[bytes, int]:
        """Return some bytes of the file, and where in them ``offset`` is; ``least`` from there on if it has them.

        Raises:
            LogCorrupted: the disk does not give them.
        """
        start = offset - self._data_offset
        if start < 0 or start + least > len(self._data):
            try:
                self._data = os.pread(self._descriptor, min(max(least, self.ahead), self.size - offset), offset)
            except OSError as error:
                raise corrupted(self._segment.path, offset, f"it cannot be read ({error})") from error
            self._data_offset, start = offset, 0
        return self._data, start

    def peek(self, offset: int) -> RecordHead | None:
        """Return the head of the record at ``offset``, if there is one, and all of the record lies before `size`."""
        head = self.peek_head(offset)
        return None if head is None or offset + head.size > self.size else head

    def peek_head(self, offset: int) -> RecordHead | None:
        """Return the head at ``offset``, if there is one."""
        if self.size - offset < HEAD_BYTES:
            return None
        data, start = self.bytes_at(offset, HEAD_BYTES)
        return decode_head(data, start, offset, self._segment.salt)

    def peek_payload(self, offset: int, head: RecordHead) -> bytes | None:
        """Return the payload of the record at ``offset``; None if it is not what was written."""
        data, start = self.bytes_at(offset, head.size)
        payload = data[start + HEAD_BYTES : start + head.size]
        return payload if payload_matches(head, payload) else None

    def head(self, offset: int) -> RecordHead:
        """Return the head of the record at ``offset``, and let the index know it.

        Raises:
            LogCorrupted: there is none.
        """
        head = self.peek(offset)
        if head is None:
            raise corrupted(self._segment.path, offset, "the head of a record does not match its checksum")
        if offset >= self._segment.index.wanted:
            self._segment.index.add(head.tick, offset)
        return head

    def payload(self, offset: int, head: RecordHead) -> bytes:
        """Return the payload of the record at ``offset``.

        Raises:
            LogCorrupted: it is not what was written.
        """
        payload = self.peek_payload(offset, head)
        if payload is None:
            what = "the payload of a record does not match its checksum"
            raise corrupted(self._segment.path, offset, what, head.tick)
        return payload

    def seek(self, first_tick: int) -> int:
        """Return the offset of the first record at or after ``first_tick``; `size` if there is none.

        Raises:
            LogCorrupted: on the way there is a record whose head is damaged.
        """
        offset = self._segment.index.seek(first_tick)
        offset = self._segment.start if offset is None else offset
        while offset < self.size:
            head = self.head(offset)
            if head.tick >= first_tick:
                return offset
            offset += head.size
        return self.size
