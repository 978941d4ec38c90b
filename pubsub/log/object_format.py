"""The objects of a log in an object store: their names and bytes; no I/O.

An object has the records of one group commit, and its name is the next number. A *merged* object has all objects of one
segment: from the object with its snapshot to the last object before the next snapshot. Both kinds begin with a header,
as a file does (`storage/log_records.py`). The sizes in the header show whether an object was truncated.

The salt of a record is the number of its object. Its offset counts from the first record of the object. So records stay
valid when objects are merged, and are not valid in any other place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from tidewheel.pubsub.log.errors import corrupted
from tidewheel.pubsub.log.headers import LogIdentity, decode_header, header_bytes
from tidewheel.storage.log_records import HEAD_BYTES, PREFIX_BYTES, Record, decode_head, payload_matches
from tidewheel.storage.numbered_log import NumberedLog


class ObjectHeader(msgspec.Struct, frozen=True):
    """The header of an object.

    Args:
        first: the number of the first object that the log needs; earlier objects are removed.
        tick_before: the tick of the last earlier record; -1 if there is none.
        last_tick: the tick of its last record, or ``tick_before``.
        begun_s: when the object was made, in seconds since 1970.
        is_claim: whether it is the first object of its writer.
        snapshot: the state after all earlier records, if a segment begins here.
        claims: the numbers of all claims so far, if there is a snapshot.
    """

    identity: LogIdentity
    number: int
    writer: str
    first: int
    tick_before: int
    first_tick: int | None
    last_tick: int
    records_bytes: int
    begun_s: float
    is_claim: bool = False
    snapshot: bytes | None = None
    claims: tuple[int, ...] = ()


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """An object of a segment, merged or not.

    Args:
        last_tick: the tick of the last record in this object or, if it has none, in earlier objects.
    """

    number: int
    size: int
    first_tick: int | None
    last_tick: int


class MergedHeader(msgspec.Struct, frozen=True):
    """The header of a merged object.

    Args:
        tick_before: the tick of the last record before the segment.
        begun_s: when the segment began, in seconds since 1970.
    """

    identity: LogIdentity
    tick_before: int
    begun_s: float
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object found within some bytes: its header, and the offsets of its first record and its end."""

    header: ObjectHeader
    records: int
    end: int

    def piece(self, start: int) -> Piece:
        return Piece(self.header.number, self.end - start, self.header.first_tick, self.header.last_tick)


OBJECTS = NumberedLog()
"""The names of single objects of a log, and how they are put. Merged objects have names of two numbers."""


def object_name(number: int) -> str:
    """Return the name of an object; names sort by number."""
    return OBJECTS.name(number)


def merged_name(pieces: Sequence[Piece]) -> str:
    return f"{object_name(pieces[0].number)}-{object_name(pieces[-1].number)}"


def numbers_of(name: str) -> tuple[int, int] | None:
    """Return the first and last number in the name of an object or merged object; None for other names.

    >>> numbers_of(object_name(7)), numbers_of(object_name(7) + "-" + object_name(9)), numbers_of("notes.txt")
    ((7, 7), (7, 9), None)
    """
    first, _, last = name.partition("-")
    if not first.isdigit() or not (last or first).isdigit():
        return None
    return int(first), int(last or first)


def decode_object(data: bytes, start: int, place: str) -> StoredObject:
    """Return the object at ``start`` of ``data``; its records may be missing.

    Raises:
        LogCorrupted: the header is damaged or cut off.
    """
    records = start + header_bytes(data[start : start + PREFIX_BYTES], place)
    header = decode_header(data[start:records], place, ObjectHeader)
    return StoredObject(header, records, records + header.records_bytes)


def records_of(data: bytes, start: int, piece: Piece, place: str) -> Iterator[Record]:
    """Yield the records of the object at ``start`` of ``data``, which must be ``piece``.

    Raises:
        LogCorrupted: the object is another one, or damaged.
    """
    found = decode_object(data, start, place)
    if found.piece(start) != piece or found.end > len(data):
        raise corrupted(place, start, f"object {piece.number} is not as it was written")
    offset = found.records
    while offset < found.end:
        head = decode_head(data, offset, offset - found.records, piece.number)
        if head is None or offset + head.size > found.end:
            raise corrupted(place, offset, "the head of a record does not match its checksum")
        payload = data[offset + HEAD_BYTES : offset + head.size]
        if not payload_matches(head, payload):
            raise corrupted(place, offset, "the payload of a record does not match its checksum", head.tick)
        yield Record(head.tick, head.kind, payload)
        offset += head.size
