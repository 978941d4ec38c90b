"""A recording of one worker: a file of a stream's batches, in the record format of logs.

The file has a header and records, like a segment of a topic's log (`storage/log_records.py`): batches with times, and
frontiers. It contains no pickles, so reading it runs no code. Arrow batches are Arrow IPC streams, all others plain
values (`plain_records.py`).
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from tidewheel.batches.batches import Batch, PackedArrow, is_arrow, is_numpy, stream_of, unpack
from tidewheel.operators.sinks.plain_records import decode, encode
from tidewheel.progress import Time
from tidewheel.runtime.engines.captured import Captured
from tidewheel.runtime.errors import SnapshotError
from tidewheel.storage.files import FILES, Part
from tidewheel.storage.log_records import (
    HEAD_BYTES,
    PREFIX_BYTES,
    Entry,
    NoHeader,
    OtherFormat,
    decode_head,
    decode_header,
    encode_header,
    encode_record,
    header_bytes,
    payload_matches,
    salt_of,
)

_FRONTIER, _PLAIN, _TABLE, _RECORD_BATCH, _ARRAY = range(5)
"""The kinds of records."""

_LENGTH_OF_TIME = struct.Struct("<I")
_TICK: Final = 0
"""The tick of all records; their place in the file is their order."""

RECORDING_VERSION: Final = 2


class RecordingHeader(msgspec.Struct, frozen=True):
    """The run and the worker that wrote a recording."""

    recording: int
    run: str
    worker: int
    workers: int


@dataclass(frozen=True, slots=True)
class LoggedFrontier:
    """The least times that could still arrive at that point; empty if none could."""

    times: tuple[Time, ...]


def recording_path(folder: Path, worker: int) -> Path:
    """Return the path of a worker's recording."""
    return folder / f"worker-{worker:05d}.log"


class RecordingWriter:
    """Writes a recording.

    Args:
        length: how many bytes of an existing file to keep; 0 for a new file.
        overwrite: whether a new file may replace an existing one.

    Raises:
        FileExistsError: the file exists, and must not be replaced.
        SnapshotError: the file has fewer bytes than ``length``, or another run has written it.
    """

    def __init__(self, path: Path, header: RecordingHeader, length: int, *, overwrite: bool) -> None:
        head = encode_header(header)
        self._salt = salt_of(head)
        self._file: IO[bytes]
        if length:
            self._file = _opened_again(path, head, length)
            self.length = length
            return
        try:
            self._file = path.open("wb" if overwrite else "xb")
        except FileExistsError:
            message = f"{path} is there already, of another run: capture_to(..., overwrite=True) replaces it"
            raise FileExistsError(message) from None
        self._file.write(head)
        self.length = len(head)
        self.flush()  # so that it is known to be of this run, whenever that begins again

    def batch(self, time: Time, batch: Batch) -> None:
        """Write a batch; raise TypeError if a record or column has other than plain values."""
        kind, payload = _encoded(batch)
        coded = encode([time])
        self._write(kind, _LENGTH_OF_TIME.pack(len(coded)) + coded, payload)

    def frontier(self, times: tuple[Time, ...]) -> None:
        """Write that the frontier has moved, and flush the file to the operating system."""
        self._write(_FRONTIER, encode(list(times)))
        self.flush()
        if not times:
            FILES.sync(self._file.fileno())

    def flush(self) -> int:
        """Flush the file to the operating system; return its length in bytes."""
        self._file.flush()
        return self.length

    def close(self) -> None:
        self._file.close()

    def _write(self, kind: int, *payload: Part) -> None:
        parts: list[Part] = []
        size = encode_record(Entry(_TICK, kind, payload), self.length, self._salt, 0, parts)
        for part in parts:
            self._file.write(part)
        self.length += size


def _opened_again(path: Path, head: bytes, length: int) -> IO[bytes]:
    if (there := path.stat().st_size) < length:
        raise SnapshotError(f"{path} has {there} bytes, and had {length} at the snapshot: it was cut since")
    with path.open("rb") as file:
        if file.read(len(head)) != head:
            raise SnapshotError(f"{path} is not the recording that it was at the snapshot: another run has replaced it")
    again = path.open("r+b")
    again.truncate(length)
    again.seek(length)
    return again


def is_of_run(path: Path, run: str) -> bool:
    try:
        return read_header(path).run == run
    except (OSError, ValueError):
        return False


def read_header(path: Path) -> RecordingHeader:
    """Return the header of a recording; raise ValueError for another file or version."""
    with path.open("rb") as file:
        return _read_header(file, path)[0]


def _read_header(file: IO[bytes], path: Path) -> tuple[RecordingHeader, bytes]:
    prefix = file.read(PREFIX_BYTES)
    try:
        data = prefix + file.read(header_bytes(prefix) - PREFIX_BYTES)
        header = decode_header(data, RecordingHeader)
    except OtherFormat as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    except NoHeader as error:
        raise ValueError(
            f"{path} is damaged, or no recording of capture_to, or one of an earlier tidewheel: this one reads version "
            f"{RECORDING_VERSION}. Record it again"
        ) from error
    if header.recording != RECORDING_VERSION:
        raise ValueError(
            f"{path} is a recording of version {header.recording}, and this tidewheel reads version {RECORDING_VERSION}"
        )
    return header, data


def read_frontier(path: Path) -> LoggedFrontier | None:
    """Return the last frontier of a recording, None if it has none, without reading batches."""
    found = None
    for event in read_recording(path, with_batches=False):
        if isinstance(event, LoggedFrontier):
            found = event
    return found


def read_recording(path: Path, *, with_batches: bool = True) -> Iterator[Captured | LoggedFrontier]:
    """Yield the content of a recording, in order; leave out an incomplete last record.

    Raises:
        ValueError: the file is damaged; the message has its path and the offset.
    """
    with path.open("rb") as file:
        for kind, data in _records(file, path, with_batches=with_batches):
            if kind == _FRONTIER:
                yield LoggedFrontier(tuple(decode(data)))
            else:
                length = _LENGTH_OF_TIME.size + _LENGTH_OF_TIME.unpack_from(data)[0]
                [time] = decode(data[_LENGTH_OF_TIME.size : length])
                yield Captured(time, _decoded(kind, memoryview(data)[length:]))


def _records(file: IO[bytes], path: Path, *, with_batches: bool) -> Iterator[tuple[int, bytes]]:
    _, header = _read_header(file, path)
    salt, end = salt_of(header), os.fstat(file.fileno()).st_size
    while (place := file.tell()) + HEAD_BYTES <= end:
        head = decode_head(file.read(HEAD_BYTES), 0, place, salt)
        if head is None:
            raise _damaged(path, place)
        if place + head.size > end:
            return
        if not with_batches and head.kind != _FRONTIER:
            file.seek(head.length, os.SEEK_CUR)
            continue
        payload = file.read(head.length)
        if not payload_matches(head, payload):
            raise _damaged(path, place)
        yield head.kind, payload


def _damaged(path: Path, place: int) -> ValueError:
    return ValueError(f"{path} is damaged: what is at byte {place} is not what was written")


def _encoded(batch: Batch) -> tuple[int, Any]:
    if is_arrow(batch):
        packed = stream_of(batch)
        return _RECORD_BATCH if packed.is_record_batch else _TABLE, packed.stream
    if is_numpy(batch):
        import numpy as np

        if batch.dtype.hasobject:
            raise TypeError(f"an array of {batch.dtype} holds Python objects, which are not written: make it a list")
        return _ARRAY, encode([np.lib.format.dtype_to_descr(batch.dtype), batch.shape, batch.tobytes()])
    return _PLAIN, encode(batch)


def _decoded(kind: int, payload: memoryview) -> Batch:
    if kind == _PLAIN:
        return decode(bytes(payload))
    if kind == _ARRAY:
        import numpy as np

        description, shape, data = decode(bytes(payload))
        return np.ndarray(shape, np.lib.format.descr_to_dtype(description), data).copy()
    return unpack(PackedArrow(payload, kind == _RECORD_BATCH))
