"""The report on one worker's part of a snapshot."""

import msgspec


class Blob(msgspec.Struct, frozen=True):
    """A written blob.

    Args:
        size: in bytes.
        checksum: the CRC-32C of its bytes.
    """

    name: str
    size: int
    checksum: int


class WrittenPart(msgspec.Struct, frozen=True, array_like=True):
    """The report on a part: its files, or the error.

    Attributes:
        blobs: the files of the part, oldest first.
        positions: the positions of feeders, pickled; only worker 0 reports them.
    """

    number: int
    worker: int
    blobs: tuple[Blob, ...] = ()
    positions: bytes = b""
    failure: str | None = None
    with_state: tuple[str, ...] = ()
    with_records: tuple[str, ...] = ()
