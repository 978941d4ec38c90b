"""The bytes of a log: segments, each a header and records one after the other. No I/O.

All numbers are little-endian, checksums are CRC-32C, for which processors have an instruction.

=========  =====  ===================================================================================================
of a file  bytes  what
=========  =====  ===================================================================================================
magic          8  ``tidewlog``
version        2  of the format
length         4  of the body
checksum       4  of the three above and the body
body              a `SegmentHeader`, as msgpack
records           to the end of the file, or of what has been written over
=========  =====  ===================================================================================================

=========  =====  ===================================================================================================
of a       bytes  what
record
=========  =====  ===================================================================================================
magic          4  by which records are found again behind one that is damaged
checksum       4  of the five below, begun with the salt of the segment plus the record's offset in the file
length         4  of the payload
checksum       4  of the payload
tick           8  never less than that of the record before
durable        8  how many bytes of the file were known to be durable when this record was made, all before it
kind           1  of no concern to the log
payload           bytes
=========  =====  ===================================================================================================

The salt is the checksum of the file's header. So a record is one only at its own place in its own segment: the bytes of
a log inside a payload, what is left in a file that is written over, or a block that a disk has put elsewhere, are none.
The head has a checksum of its own, so that records can be stepped over without reading their payload, and the tick of
one whose payload is damaged is known.
"""

import struct
from typing import Any, TypeAlias

import msgspec
from crc32c import crc32c

FORMAT_VERSION = 2

Part: TypeAlias = Any
"""Bytes, wherever they lie: ``bytes``, ``bytearray``, a ``memoryview`` or a ``pyarrow.Buffer``."""

MAGIC = b"\xd7rec"
"""What every record begins with."""

_FILE_MAGIC = b"tidewlog"
_FILE = struct.Struct("<8sHI")
_CHECKSUM = struct.Struct("<I")
_START = struct.Struct("<4sI")
_HEAD = struct.Struct("<IIqQB")

PREFIX_BYTES = _FILE.size + _CHECKSUM.size
"""So many bytes of a file say how long its header is."""

HEAD_BYTES = _START.size + _HEAD.size
"""So many bytes has a record beside its payload."""

MOST_PAYLOAD_BYTES = (1 << 32) - 1
_MOST_TICK = (1 << 63) - 1


class LogIdentity(msgspec.Struct, frozen=True):
    """Whose log it is; one of another identity is not opened.

    Args:
        topic: its name.
        partition: the number of the partition.
        partitions: how many the topic has.
        domain: the order of its times, in words.
    """

    topic: str
    partition: int
    partitions: int
    domain: str

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition} of {self.partitions}, with times of {self.domain}"


class SegmentHeader(msgspec.Struct, frozen=True):
    """What a segment says of itself.

    Args:
        identity: whose log it is of.
        number: one more than that of the segment before.
        tick_before: of the last record before this segment; -1 if there never was one.
        bytes_before: the size of the segment before, which grows no more; 0 if there was none.
        begun_s: when it was begun, in seconds since 1970.
        snapshot: what its writer needs to know of all that was before.
        spare_bytes: the size of its file when it was begun: so much of that may be left of another segment.
    """

    identity: LogIdentity
    number: int
    tick_before: int
    bytes_before: int
    begun_s: float
    snapshot: bytes
    spare_bytes: int = 0


class Entry(msgspec.Struct, frozen=True):
    """What becomes a record: its payload is the parts, one after the other.

    Args:
        tick: at least 0, and that of the entry before.
        kind: 0 to 255.
        parts: together less than 4 GiB; they must not change any more.
        checksum: the CRC-32C of the first part that is not empty, if somebody knows it, who is believed.
    """

    tick: int
    kind: int
    parts: tuple[Part, ...] = ()
    checksum: int | None = None


class Record(msgspec.Struct, frozen=True):
    """A record as it was read."""

    tick: int
    kind: int
    payload: bytes


class RecordHead(msgspec.Struct, frozen=True):
    """What precedes a payload; see the table above."""

    length: int
    checksum: int
    tick: int
    durable: int
    kind: int

    @property
    def size(self) -> int:
        """How many bytes the whole record has."""
        return HEAD_BYTES + self.length


class HeaderDamaged(ValueError):  # noqa: N818  it names what is so
    """The bytes are not the header of a segment."""


class UnknownFormat(ValueError):  # noqa: N818  it names what is so
    """The header is whole, and of another version."""


def encode_header(header: SegmentHeader) -> bytes:
    """Return the bytes with which a segment begins."""
    body = msgspec.msgpack.encode(header)
    start = _FILE.pack(_FILE_MAGIC, FORMAT_VERSION, len(body))
    return start + _CHECKSUM.pack(crc32c(body, crc32c(start))) + body


def header_bytes(prefix: bytes) -> int:
    """Return how long a header is, given its first `PREFIX_BYTES`.

    Raises:
        HeaderDamaged: they are not those of a header.
    """
    if len(prefix) < PREFIX_BYTES or not prefix.startswith(_FILE_MAGIC):
        raise HeaderDamaged("it does not begin as a segment of a log does")
    length: int = _FILE.unpack_from(prefix)[2]
    return PREFIX_BYTES + length


def decode_header(data: bytes) -> SegmentHeader:
    """Return the header that ``data`` is all of.

    Raises:
        HeaderDamaged: its checksum does not match.
        UnknownFormat: it does, but this is another version.
    """
    body = memoryview(data)[PREFIX_BYTES:]
    if crc32c(body, crc32c(data[: _FILE.size])) != salt_of(data):
        raise HeaderDamaged("its header does not match its checksum")
    version = _FILE.unpack_from(data)[1]
    if version != FORMAT_VERSION:
        raise UnknownFormat(f"it is of format {version}, and this is a reader of format {FORMAT_VERSION}")
    return msgspec.msgpack.decode(body, type=SegmentHeader)


def salt_of(header: bytes) -> int:
    """Return with what the checksums of a segment's records begin, given its encoded header."""
    salt: int = _CHECKSUM.unpack_from(header, _FILE.size)[0]
    return salt


def encode_record(entry: Entry, offset: int, salt: int, durable: int, into: list[Part]) -> int:
    """Append the bytes of a record to ``into``, without copying its parts; return how many they are.

    Args:
        entry: what to write.
        offset: where in the file.
        salt: of the segment.
        durable: how many bytes of the file are durable.
        into: parts, none of them empty.

    Raises:
        ValueError: the payload, the kind or the tick is too large.
    """
    place = len(into)
    into.append(b"")
    length = checksum = 0
    known = entry.checksum
    for part in entry.parts:
        flat = _flat(part)
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
    head = _HEAD.pack(length, checksum, entry.tick, durable, entry.kind)
    into[place] = _START.pack(MAGIC, crc32c(head, (salt + offset) & 0xFFFFFFFF)) + head
    return HEAD_BYTES + length


def _flat(part: Part) -> Part:
    """Return a part such that its length is its number of bytes."""
    return part.cast("B") if isinstance(part, memoryview) and part.nbytes else part


def decode_head(data: bytes, start: int, offset: int, salt: int) -> RecordHead | None:
    """Return the head that lies at ``start`` of ``data``; None if none does.

    Args:
        data: some bytes of the file.
        start: where in them.
        offset: where in the file that is.
        salt: of the segment.
    """
    if len(data) < start + HEAD_BYTES or not data.startswith(MAGIC, start):
        return None
    fields = start + _START.size
    if crc32c(data[fields : start + HEAD_BYTES], (salt + offset) & 0xFFFFFFFF) != _START.unpack_from(data, start)[1]:
        return None
    return RecordHead(*_HEAD.unpack_from(data, fields))


def payload_matches(head: RecordHead, payload: bytes) -> bool:
    """Tell whether these are the bytes that the head speaks of."""
    return len(payload) == head.length and crc32c(payload) == head.checksum
