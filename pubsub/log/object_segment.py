"""One segment of a log in an object store, whose objects are read and merged.

Invariants:

- A reader checks every object and record at each read, and returns only undamaged records.
- Only complete segments are merged, and merging keeps the bytes of all objects. So every writer, even a replaced one,
  makes the same merged object. Readers look in the merged object for missing objects.
"""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Protocol, TypeVar

from tidewheel.pubsub.log.headers import LogIdentity, decode_header
from tidewheel.pubsub.log.object_format import (
    MergedHeader,
    Piece,
    decode_object,
    merged_name,
    object_name,
    records_of,
)
from tidewheel.storage.folder import Objects
from tidewheel.storage.log_records import HEAD_BYTES, Record, encode_header

_AT_ONCE = 16
_MOST_PIECES = 64

A = TypeVar("A")
R = TypeVar("R")


class LogStore(Objects, Protocol):
    """The objects of a log; every call may raise `StoreFailed`."""

    def read_part(self, name: str, start: int, size: int) -> bytes | None:
        """Return ``size`` bytes of an object from ``start`` on, or fewer at its end; None if it does not exist."""


def at_once(call: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
    """Call a function with each of several arguments, in parallel; return the results in order."""
    if len(arguments) < 2:
        return [call(argument) for argument in arguments]
    with ThreadPoolExecutor(min(_AT_ONCE, len(arguments))) as threads:
        return list(threads.map(call, arguments))


class ObjectSegment:
    """The state of one segment; one thread changes it while others read.

    Attributes:
        base: the size of the merged object's header; None if the segment is not merged.
    """

    def __init__(
        self,
        store: LogStore,
        url: str,
        identity: LogIdentity,
        tick_before: int,
        begun_s: float,
        pieces: Sequence[Piece],
        base: int | None = None,
    ) -> None:
        self._store = store
        self._url = url
        self._identity = identity
        self.tick_before = tick_before
        self.begun_s = begun_s
        self.ended_s: float | None = None
        self.is_mergeable = True
        self.base: int | None = None
        self.number, self.first_bytes = pieces[0].number, pieces[0].size
        self.size = 0
        self.first_tick: int | None = None
        self._pieces: list[Piece] = []
        self._merged_name = ""
        for piece in pieces:
            self.add(piece)
        if base is not None:
            self._forget_pieces(base)

    def add(self, piece: Piece) -> None:
        """Add a durable object."""
        self._pieces.append(piece)
        self.size += piece.size
        self.last_tick = piece.last_tick
        self.first_tick = piece.first_tick if self.first_tick is None else self.first_tick

    def _forget_pieces(self, base: int) -> None:
        self._merged_name, self.base = merged_name(self._pieces), base
        self._pieces = []

    @property
    def pieces(self) -> Sequence[Piece]:
        pieces = tuple(self._pieces)
        if self.base is None or pieces:
            return pieces
        place = f"{self._url}/{self._merged_name}"
        header = self._store.read_part(self._merged_name, 0, self.base)
        if header is None:
            raise FileNotFoundError(place)
        return decode_header(header, place, MergedHeader).pieces

    @property
    def count(self) -> int:
        return len(self._pieces)

    @property
    def path(self) -> str:
        return f"{self._url}/{object_name(self.number)}"

    @property
    def names(self) -> list[str]:
        return [self._merged_name] if self._merged_name else [object_name(piece.number) for piece in self._pieces]

    def snapshot(self) -> bytes:
        """Return the state before the segment's first record.

        Raises:
            LogCorrupted: the object is damaged.
            FileNotFoundError: the object was removed.
        """
        pieces = self.pieces
        data = self._load(pieces, 0, 1)[0]
        for _ in records_of(data, 0, pieces[0], self.path):
            pass
        return decode_object(data, 0, self.path).header.snapshot or b""

    def read(self, first_tick: int, found: list[Record], left: int, most: int = sys.maxsize) -> int:
        """Append about ``left`` bytes of records; see `segment.Segment.read`."""
        pieces = self.pieces
        place = next((at for at, one in enumerate(pieces) if one.last_tick >= first_tick), len(pieces))
        while place < len(pieces):
            end = self._end_of_read(pieces, place, left)
            for piece, data in zip(pieces[place:end], self._load(pieces, place, end), strict=True):
                for record in records_of(data, 0, piece, f"{self._url}/{object_name(piece.number)}"):
                    if record.tick < first_tick:
                        continue
                    if found and left <= 0 and record.tick != found[-1].tick:
                        return left
                    found.append(record)
                    left -= HEAD_BYTES + len(record.payload)
            place = end
            ticks = (piece.first_tick for piece in pieces[place:] if piece.first_tick is not None)
            if found and left <= 0 and next(ticks, None) != found[-1].tick:
                break
        return left

    @staticmethod
    def _end_of_read(pieces: Sequence[Piece], place: int, left: int) -> int:
        end, size = place + 1, pieces[place].size
        while end < min(len(pieces), place + _MOST_PIECES) and size < left:
            size += pieces[end].size
            end += 1
        return end

    def _load(self, pieces: Sequence[Piece], place: int, end: int) -> list[bytes]:
        wanted = pieces[place:end]
        if self.base is None:
            found = at_once(lambda piece: self._store.read(object_name(piece.number), piece.size), wanted)
            whole = [data for data in found if data is not None]
            if len(whole) == len(wanted):
                return whole
            if self.ended_s is None:
                raise FileNotFoundError(self.path)
        # A former writer may have merged the objects.
        base = len(self._merged_header(pieces)) if self.base is None else self.base
        start = base + sum(piece.size for piece in pieces[:place])
        name = merged_name(pieces)
        data = self._store.read_part(name, start, sum(piece.size for piece in wanted))
        if data is None:
            raise FileNotFoundError(f"{self._url}/{name}")
        offsets = [0, *accumulate(piece.size for piece in wanted)]
        return [data[offset : offset + piece.size] for offset, piece in zip(offsets, wanted, strict=False)]

    def _merged_header(self, pieces: Sequence[Piece]) -> bytes:
        return encode_header(MergedHeader(self._identity, self.tick_before, self.begun_s, tuple(pieces)))

    def merge(self) -> list[str]:
        """Put the merged object of this segment, which is complete; return the names of objects no longer needed.

        Raises:
            LogCorrupted: an object is damaged; it is not removed.
            FileNotFoundError: an object is missing.
            StoreFailed: the store failed.
        """
        pieces, names = self.pieces, self.names
        objects = self._load(pieces, 0, len(pieces))
        for piece, data in zip(pieces, objects, strict=True):
            for _ in records_of(data, 0, piece, f"{self._url}/{object_name(piece.number)}"):
                pass
        header = self._merged_header(pieces)
        self._store.put_new(merged_name(pieces), b"".join([header, *objects]))
        self._forget_pieces(len(header))
        return names
