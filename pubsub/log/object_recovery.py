"""The recovery of a log from an object store: finding its objects.

The newest object has the number of the first needed object. All objects between them must exist, alone or merged;
otherwise the log is damaged. An object is either complete or missing, never half-written. A dead writer may have left
earlier objects, and objects that also exist merged.

A missing newest object is not noticed: the store is trusted to keep objects that it has accepted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tidewheel.pubsub.log.errors import LogCorrupted, corrupted
from tidewheel.pubsub.log.headers import LogIdentity, decode_header, header_bytes
from tidewheel.pubsub.log.object_format import (
    MergedHeader,
    ObjectHeader,
    Piece,
    decode_object,
    merged_name,
    numbers_of,
    object_name,
)
from tidewheel.pubsub.log.object_segment import LogStore, ObjectSegment, at_once
from tidewheel.storage.log_records import PREFIX_BYTES

_HEADER_BYTES = 64 << 10


class ObjectsChanged(LogCorrupted):
    """Another writer has merged or removed objects since they were listed: list them again."""


@dataclass(slots=True)
class FoundObjects:
    """The objects of a log when it is opened.

    Args:
        claims: the numbers of all claims, which are never removed.
    """

    make: Callable[..., ObjectSegment]
    newest: ObjectHeader
    segments: list[ObjectSegment] = field(default_factory=list)
    claims: list[int] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)

    def begin(self, header: ObjectHeader | MergedHeader, pieces: Sequence[Piece], base: int | None = None) -> None:
        if self.segments:
            self.segments[-1].ended_s = header.begun_s
        self.segments.append(self.make(header.tick_before, header.begun_s, pieces, base))

    def add(self, header: ObjectHeader, piece: Piece) -> None:
        if header.snapshot is not None:
            self.claims = list(header.claims)
            self.begin(header, [piece])
        else:
            self.claims += [header.number] if header.is_claim else []
            self.segments[-1].add(piece)

    def follow(self, data: bytes) -> None:
        """Add an object that another writer has put after all objects found."""
        found = decode_object(data, 0, self.segments[-1].path)
        self.newest = found.header
        self.add(found.header, found.piece(0))
        while self.segments[0].number < found.header.first:
            self.left_over += self.segments.pop(0).names


def has_objects(store: LogStore, url: str, identity: LogIdentity) -> bool:
    """Tell whether there is a log, by looking at one object; raise as `find_objects` does."""
    sizes = _listed(store)
    if sizes:
        _Headers(store, url, identity, sizes).header(_last(sizes))
    return bool(sizes)


def find_objects(store: LogStore, url: str, identity: LogIdentity) -> FoundObjects | None:
    """Return the objects of a log; None if there is no log.

    Raises:
        ObjectsChanged: another writer is active; try again.
        LogCorrupted: an object is missing, or its header is damaged.
        LogMismatch: the log belongs to another partition, or has another format.
        StoreFailed: the store does not answer.
    """
    sizes = _listed(store)
    if not sizes:
        return None
    reader = _Headers(store, url, identity, sizes)
    newest = reader.header(_last(sizes))
    if not isinstance(newest, ObjectHeader):
        raise corrupted(f"{url}/{_last(sizes)}", 0, "it is no single object")
    try:
        names = _chain(sizes, url, newest.first, newest.number)
    except LogCorrupted as error:
        if _listed(store) != sizes:  # a listing takes several requests, and objects may change between them
            raise ObjectsChanged(f"the objects in {url} have changed while they were listed", path=url) from error
        raise
    found = FoundObjects(partial(ObjectSegment, store, url, identity), newest)
    for name, header in zip(names, at_once(reader.header, names), strict=True):
        before = found.segments[-1].last_tick if found.segments else header.tick_before
        is_first = isinstance(header, ObjectHeader) and header.snapshot is None
        if header.tick_before != before or (is_first and not found.segments):
            raise corrupted(f"{url}/{name}", 0, "it does not follow on the object before")
        if isinstance(header, MergedHeader):
            found.begin(header, header.pieces, sizes[name] - sum(piece.size for piece in header.pieces))
        else:
            found.add(header, reader.piece(name))
    kept = {*names, *map(object_name, found.claims)}
    found.left_over = [name for name in sizes if name not in kept]
    return found


def _listed(store: LogStore) -> dict[str, int]:
    return {name: size for name, size in store.sizes("").items() if numbers_of(name) is not None}


def _last(sizes: Mapping[str, int]) -> str:
    return object_name(max((numbers_of(name) or (0, 0))[1] for name in sizes))


def _chain(sizes: Mapping[str, int], url: str, first: int, last: int) -> list[str]:
    merged = {}
    for name in sizes:
        begin, end = numbers_of(name) or (0, 0)
        if "-" in name and end <= last:
            merged[begin] = name
    names = []
    number = first
    while number <= last:
        name = merged.get(number, object_name(number))
        if name not in sizes:
            raise corrupted(f"{url}/{name}", 0, "the object is missing")
        names.append(name)
        number = (numbers_of(name) or (0, 0))[1] + 1
    return names


class _Headers:
    """Reads the header of each object once."""

    def __init__(self, store: LogStore, url: str, identity: LogIdentity, sizes: Mapping[str, int]) -> None:
        self._store = store
        self._url = url
        self._identity = identity
        self._sizes = sizes
        self._data: dict[str, bytes] = {}

    def header(self, name: str) -> ObjectHeader | MergedHeader:
        place = f"{self._url}/{name}"
        data = self._data[name] = self._beginning(name, place)
        header: ObjectHeader | MergedHeader
        if "-" in name:
            end = header_bytes(data[:PREFIX_BYTES], place)
            header = decode_header(data[:end], place, MergedHeader)
            size = end + sum(piece.size for piece in header.pieces)
            is_it = merged_name(header.pieces) == name
        else:
            found = decode_object(data, 0, place)
            header, size, is_it = found.header, found.end, object_name(found.header.number) == name
        self._identity.check(header.identity, self._url)
        if not is_it or size != self._sizes[name]:
            raise corrupted(place, 0, f"it has {self._sizes[name]} bytes, and {size} were written, or another name")
        return header

    def _beginning(self, name: str, place: str) -> bytes:
        size = self._sizes[name]
        if size < PREFIX_BYTES:
            raise corrupted(place, 0, f"it has {size} bytes")
        data = self._store.read_part(name, 0, _HEADER_BYTES)
        if data is not None and len(data) < min(size, header_bytes(data[:PREFIX_BYTES], place)):
            data = self._store.read(name, size)
        if data is None:
            raise ObjectsChanged(f"{place} is missing, and was there a moment ago: open the log again", path=place)
        return data

    def piece(self, name: str) -> Piece:
        return decode_object(self._data[name], 0, name).piece(0)
