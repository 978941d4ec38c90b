"""The bytes of a log: a header, and records one after the other, each with checksums; no I/O.

Logs of topics and recordings of streams have this format; the body of the header tells which it is.

All numbers are little-endian; checksums are CRC-32C.

=========  =====  ===================================================================================================
of a file  bytes  what
=========  =====  ===================================================================================================
magic          8  ``tidewlog``
version        2  of the format
length         4  of the body
checksum       4  of the three above and the body
body              a header, as msgpack
area              in a segment, as many bytes as its header says: payloads to which records refer
records           to the end of the file, or of its overwritten part
=========  =====  ===================================================================================================

=========  =====  ===================================================================================================
of a       bytes  what
record
=========  =====  ===================================================================================================
magic          4  marks a record, so that a reader finds the next record after damage
checksum       4  of the five fields below, begun with the salt of the file plus the record's offset in the file
length         4  of the part of the payload that is in this record
checksum       4  of the whole payload; see `ends_checksum` for a payload to which a record refers
tick           8  at least the tick of the previous record
durable        8  the size of the file's durable part, before this record, when the log made the record; the highest
                  bit is set if the record has a reference
kind           1  not used by the log
reference     12  to the beginning of the payload, elsewhere in the file: its offset (8 bytes) and length (4 bytes);
                  optional, and included in the length above
payload           bytes
=========  =====  ===================================================================================================

The salt is the checksum of the file's header. So a record is valid only at its own place in its own segment: a reader
takes no record from bytes of another log inside a payload, old bytes of an overwritten file, or a misplaced disk block.
"""

import struct
from typing import TypeVar

import msgspec

from tidewheel.storage.checksum import crc32c
from tidewheel.storage.files import Part

FORMAT_VERSION = 3


MAGIC = b"\xd7rec"
"""The first bytes of every record."""

_FILE_MAGIC = b"tidewlog"
_FILE = struct.Struct("<8sHI")
_CHECKSUM = struct.Struct("<I")
_START = struct.Struct("<4sI")
_HEAD = struct.Struct("<IIqQB")
REFERENCE = struct.Struct("<QI")
"""The place of the beginning of a payload: its offset in the file, and its length."""

_REFERS = 1 << 63

PREFIX_BYTES = _FILE.size + _CHECKSUM.size
"""The number of bytes at the start of a file that contain the length of its header."""

HEAD_BYTES = _START.size + _HEAD.size
"""The size of a record without its payload, in bytes."""

MOST_PAYLOAD_BYTES = (1 << 32) - 1
_MOST_TICK = (1 << 63) - 1
_END_BYTES = 4096

H = TypeVar("H", bound=msgspec.Struct)


class NoHeader(ValueError):  # noqa: N818  it names what is so
    """The bytes are not the expected header. The message says why; the caller adds the file."""


class OtherFormat(NoHeader):
    """The header is complete, but of another version of the format."""


class Entry(msgspec.Struct, frozen=True):
    """An entry to be written as a record. Its payload is the concatenation of the parts.

    Args:
        tick: at least 0, and at least the previous entry's.
        parts: together less than 4 GiB; do not change them afterwards.
        checksum: the CRC-32C of the first non-empty part, if the caller knows it; it is not checked.
        refers: whether the first part is a `REFERENCE`: the place and checksum of the beginning of the payload.
        is_urgent: whether the entry may use the log's `Reserve` when the disk is full.
    """

    tick: int
    kind: int
    parts: tuple[Part, ...] = ()
    checksum: int | None = None
    refers: bool = False
    is_urgent: bool = False


class Record(msgspec.Struct, frozen=True):
    tick: int
    kind: int
    payload: bytes


class RecordHead(msgspec.Struct, frozen=True):
    """The fields of a record before its payload; see the table in the module."""

    length: int
    checksum: int
    tick: int
    durable: int
    kind: int
    refers: bool = False

    @property
    def size(self) -> int:
        return HEAD_BYTES + self.length


def encode_header(header: msgspec.Struct) -> bytes:
    body = msgspec.msgpack.encode(header)
    start = _FILE.pack(_FILE_MAGIC, FORMAT_VERSION, len(body))
    return start + _CHECKSUM.pack(crc32c(body, crc32c(start))) + body


def header_bytes(prefix: bytes) -> int:
    """Return the length of a file's header, given its first `PREFIX_BYTES`.

    Raises:
        NoHeader: a header cannot begin with these bytes.
    """
    if len(prefix) < PREFIX_BYTES or not prefix.startswith(_FILE_MAGIC):
        raise NoHeader("it does not begin as a segment of a log does")
    length: int = _FILE.unpack_from(prefix)[2]
    return PREFIX_BYTES + length


def decode_header(data: bytes, kind: type[H]) -> H:
    """Return the header in ``data`` as a struct of type ``kind``.

    Raises:
        NoHeader: the checksum does not match, or the header is not of that kind.
        OtherFormat: the header is complete, but of another version.
    """
    body = memoryview(data)[PREFIX_BYTES:]
    if crc32c(body, crc32c(data[: _FILE.size])) != salt_of(data):
        raise NoHeader("its header does not match its checksum")
    version = _FILE.unpack_from(data)[1]
    if version != FORMAT_VERSION:
        raise OtherFormat(f"it is of format {version}, and this is a reader of format {FORMAT_VERSION}")
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise NoHeader(f"its header is of another kind ({error})") from error


def salt_of(header: bytes) -> int:
    salt: int = _CHECKSUM.unpack_from(header, _FILE.size)[0]
    return salt


def encode_record(entry: Entry, offset: int, salt: int, durable: int, into: list[Part]) -> int:
    """Append the parts of a record to ``into``, without copying them; return the number of bytes.

    Raises:
        ValueError: the payload, the kind or the tick is too large.
    """
    place = len(into)
    into.append(b"")
    length = checksum = 0
    known = entry.checksum
    for part in entry.parts:
        flat = part.cast("B") if isinstance(part, memoryview) and part.nbytes else part
        size = len(flat)
        if size:
            checksum = crc32c(flat, checksum) if known is None else known
            known = None
            length += size
            into.append(flat)
    if length > MOST_PAYLOAD_BYTES or not 0 <= entry.tick <= _MOST_TICK or not 0 <= entry.kind <= 255:
        raise ValueError(
            f"a log cannot store a record of tick {entry.tick}, kind {entry.kind} and {length} bytes. Ticks are from 0 "
            f"to {_MOST_TICK}, kinds from 0 to 255, and payloads have at most {MOST_PAYLOAD_BYTES} bytes"
        )
    head = _HEAD.pack(length, checksum, entry.tick, durable | _REFERS * entry.refers, entry.kind)
    into[place] = _START.pack(MAGIC, crc32c(head, (salt + offset) & 0xFFFFFFFF)) + head
    return HEAD_BYTES + length


def decode_head(data: bytes, start: int, offset: int, salt: int) -> RecordHead | None:
    """Return the head of the record at position ``start`` of ``data``; None if there is no record.

    Args:
        data: a part of the file.
        start: a position in ``data``.
        offset: the offset of position ``start`` in the file.
        salt: the segment's salt.
    """
    if len(data) < start + HEAD_BYTES or not data.startswith(MAGIC, start):
        return None
    fields = start + _START.size
    if crc32c(data[fields : start + HEAD_BYTES], (salt + offset) & 0xFFFFFFFF) != _START.unpack_from(data, start)[1]:
        return None
    length, checksum, tick, durable, kind = _HEAD.unpack_from(data, fields)
    return RecordHead(length, checksum, tick, durable & ~_REFERS, kind, durable >= _REFERS)


def ends_checksum(payload: Part) -> int:
    """Return a checksum of the length and both ends of a large payload in memory.

    A payload is written before the record that refers to it, so a killed process leaves no record with half a payload.
    A full checksum would take a tenth of the time from a worker to a subscriber.
    """
    flat = memoryview(payload).cast("B")
    return crc32c(flat[-_END_BYTES:], crc32c(flat[:_END_BYTES], len(flat) & 0xFFFFFFFF))


def payload_matches(head: RecordHead, payload: bytes) -> bool:
    """Tell whether a payload matches the record's head. ``payload`` lacks bytes that the record only refers to."""
    return len(payload) == head.length and crc32c(payload) == head.checksum
