"""The writer of the last file of a log."""

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from tidewheel.pubsub.log.headers import SegmentHeader
from tidewheel.pubsub.log.payload_area import LEAST_BYTES, PayloadArea
from tidewheel.pubsub.log.segment import Segment
from tidewheel.pubsub.log.spare_segments import Spare
from tidewheel.storage.files import Files, Part, write_all
from tidewheel.storage.log_records import REFERENCE, Entry, encode_header, encode_record, ends_checksum, salt_of

_TOGETHER_BYTES = 1 << 16
_NUMBERS_BYTES = 32


class SegmentWriter:
    """Appends to a segment that ends with a complete record; for one thread at a time.

    Attributes:
        written: the number of bytes written, durable or not.
        is_broken: whether the file has more bytes than ``written``.
        large_bytes: the number of bytes of payloads that may lie in a payload area.
    """

    def __init__(self, segment: Segment, descriptor: int, files: Files) -> None:
        self.segment = segment
        self._descriptor = descriptor
        self._files = files
        self.written = segment.size
        self.tick = segment.last_tick
        self.large_bytes = 0
        self.is_broken = False

    def append(self, entries: Iterable[Entry]) -> None:
        """Write all records; if this raises, no record is written.

        Raises:
            ValueError: a tick decreases, or an entry is too large.
            OSError: the disk is full or fails; see `is_broken`.
        """
        segment, offset, tick = self.segment, self.written, self.tick
        wanted = segment.index.wanted
        parts: list[Part] = []
        indexed: list[tuple[int, int]] = []
        for entry in entries:
            if entry.tick < tick:
                raise ValueError(f"{segment.path} has tick {tick}, so tick {entry.tick} comes too late")
            tick = entry.tick
            if offset >= wanted:
                indexed.append((tick, offset))
                wanted = offset + segment.index.spacing
            offset += encode_record(self._referring(entry), offset, segment.salt, segment.size, parts)
        if offset - self.written <= _TOGETHER_BYTES:
            parts = [b"".join(parts)] if parts else []
        try:
            write_all(self._files, self._descriptor, parts, self.written)
            for tick_and_offset in indexed:
                segment.index.add(*tick_and_offset)
            self.written, self.tick = offset, tick
        except BaseException:
            self._cut()
            raise

    def _referring(self, entry: Entry) -> Entry:
        first = entry.parts[0] if entry.parts else b""
        if len(first) < LEAST_BYTES:
            return entry
        self.large_bytes += len(first)
        offset = None if self.segment.area is None else self.segment.area.offset_of(first)
        if offset is None:
            return entry
        reference = REFERENCE.pack(offset, len(first))
        return Entry(entry.tick, entry.kind, (reference, *entry.parts[1:]), ends_checksum(first), refers=True)

    def _cut(self) -> None:
        self.is_broken = True
        self._files.cut(self._descriptor, self.written)
        self.is_broken = False

    def sync(self) -> bool:
        """Make the appended records durable; return whether there were unsynced records.

        Raises:
            OSError: the sync failed, or another program has removed the file.
        """
        segment = self.segment
        if self.written == segment.size:
            return False
        self._files.sync(self._descriptor)
        if not os.fstat(self._descriptor).st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the file was removed while the log was written", str(segment.path))
        segment.size, segment.last_tick = self.written, self.tick
        return True

    def close(self) -> None:
        """Close the file; its payload area lends nothing more."""
        if self.segment.area is not None:
            self.segment.area.close()
        os.close(self._descriptor)


def prepare_segment(
    path: Path, header: SegmentHeader, files: Files, spare: Spare | None = None, area_bytes: int = 0
) -> SegmentWriter:
    """Make a durable segment under a temporary name; `name_segment` renames it.

    Raises:
        OSError: the disk is full or fails; no file is left.
    """
    temporary = _temporary(path)
    descriptor = files.create(temporary) if spare is None else _reopen(spare.path, temporary, files)
    try:
        area = None if spare is None else spare.area
        if area_bytes:
            area = area or _new_area(descriptor, area_bytes + len(header.snapshot), files)
            size = 0 if area is None else min(area.size, os.fstat(descriptor).st_size)
            room = size - len(encode_header(header)) - _NUMBERS_BYTES
            area_bytes = min(area_bytes, room) if room >= LEAST_BYTES else 0
        header = replace(header, spare_bytes=os.fstat(descriptor).st_size, area_bytes=area_bytes)
        data = encode_header(header)
        write_all(files, descriptor, [data], 0)
        files.sync(descriptor)
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):
            files.remove(temporary)
        raise
    segment = Segment(path, header, len(data), salt_of(data))
    if area is not None and area_bytes:
        area.open(len(data), segment.start)
    segment.area = area
    return SegmentWriter(segment, descriptor, files)


def _new_area(descriptor: int, size: int, files: Files) -> PayloadArea | None:
    with suppress(OSError):
        if not os.fstat(descriptor).st_size:
            files.allocate(descriptor, size + _TOGETHER_BYTES)
        return PayloadArea(descriptor, os.fstat(descriptor).st_size)
    return None


def _reopen(spare: Path, path: Path, files: Files) -> int:
    try:
        files.rename(spare, path)
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        for left in (spare, path):
            with suppress(OSError):
                files.remove(left)
        raise


def name_segment(path: Path, files: Files) -> None:
    """Durably give a segment its final name; after an OSError it may or may not have that name."""
    files.rename(_temporary(path), path)
    files.sync_directory(path.parent)


def _temporary(path: Path) -> Path:
    return path.with_suffix(".new")
