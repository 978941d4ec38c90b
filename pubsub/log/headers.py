"""The headers in the log of a topic: the identity of the log, and the places of its records."""

from pathlib import Path
from typing import TypeVar

import msgspec

from tidewheel.pubsub.log.errors import LogMismatch, corrupted
from tidewheel.storage import log_records

H = TypeVar("H", bound=msgspec.Struct)


class LogIdentity(msgspec.Struct, frozen=True):
    """The topic and partition to which a log belongs; `Log` checks them."""

    topic: str
    partition: int
    partitions: int
    domain: str

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition} of {self.partitions}, with times of {self.domain}"

    def check(self, found: "LogIdentity", place: Path | str) -> None:
        """Raise LogMismatch unless ``found``, the identity of the log in ``place``, is this identity."""
        if found == self:
            return
        remedy, partitions = "give each a place of its own", None
        if found == msgspec.structs.replace(self, partitions=found.partitions):
            partitions = found.partitions
            remedy = (
                "a log keeps the number of partitions of its topic. With partition='worker', and without ends, the "
                "topic goes on with any number of workers. Otherwise give it another log"
            )
        text = f"{place} holds the log of {found}; asked for was that of {self}: {remedy}"
        raise LogMismatch(text, path=place, partitions=partitions)


class SegmentHeader(msgspec.Struct, frozen=True):
    """The header of a segment.

    Args:
        tick_before: the tick of the last earlier record; -1 if there is none.
        bytes_before: the final size of the previous segment, or 0.
        begun_s: when the segment began, in seconds since 1970.
        spare_bytes: the initial size of its file, which may have bytes of an old segment.
        area_bytes: the size of its payload area, between the header and the records.
    """

    identity: LogIdentity
    number: int
    tick_before: int
    bytes_before: int
    begun_s: float
    snapshot: bytes
    spare_bytes: int = 0
    area_bytes: int = 0


def header_bytes(prefix: bytes, path: Path | str) -> int:
    """Return the length of the header of a file, given its first `log_records.PREFIX_BYTES`.

    Raises:
        LogCorrupted: no header begins with these bytes.
    """
    try:
        return log_records.header_bytes(prefix)
    except log_records.NoHeader as error:
        raise corrupted(path, 0, str(error)) from None


def decode_header(data: bytes, path: Path | str, kind: type[H]) -> H:
    """Return the header of a file, in the bytes ``data``, as a struct of type ``kind``.

    Raises:
        LogCorrupted: the checksum does not match, or the header is of another kind.
        LogMismatch: the header is complete, but has another version.
    """
    try:
        return log_records.decode_header(data, kind)
    except log_records.OtherFormat as error:
        raise LogMismatch(f"{path} cannot be read: {error}", path=path) from None
    except log_records.NoHeader as error:
        raise corrupted(path, 0, str(error)) from error
