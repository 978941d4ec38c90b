"""The report on a part of a snapshot that a worker has written."""

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
    """A part that a worker has written, or why it could not.

    Attributes:
        number: that of the snapshot.
        worker: that of the worker.
        blobs: the files that the part consists of, oldest first.
        positions: how far feeders had sent, pickled; worker 0 knows.
        failure: why it could not be written, None if it was.
        with_state: the names of the operators that keep state.
        with_records: the names of the operators for which records wait.
    """

    number: int
    worker: int
    blobs: tuple[Blob, ...] = ()
    positions: bytes = b""
    failure: str | None = None
    with_state: tuple[str, ...] = ()
    with_records: tuple[str, ...] = ()
