"""The report on one worker's part of a snapshot."""

import msgspec


class Blob(msgspec.Struct, frozen=True):
    """A written blob.

    Args:
        name: its name in the folder, such as ``parts/000003-0000000017-worker-0``.
        size: in bytes.
        checksum: the CRC-32C of its bytes.
    """

    name: str
    size: int
    checksum: int


class WrittenPart(msgspec.Struct, frozen=True, array_like=True):
    """A written part, or the error.

    Attributes:
        blobs: the files of the part, oldest first.
        positions: the feeders' positions, pickled; from worker 0.
        failure: why it could not be written.
        with_state: the names of operators with state.
        with_records: the names of operators with waiting records.
    """

    number: int
    worker: int
    blobs: tuple[Blob, ...] = ()
    positions: bytes = b""
    failure: str | None = None
    with_state: tuple[str, ...] = ()
    with_records: tuple[str, ...] = ()
