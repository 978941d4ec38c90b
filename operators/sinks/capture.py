"""The capture operators: what passes a stream is kept on its worker, or written to a log of each worker.

A log also has when times were complete. It is a sequence of frames: a header, then batches and frontiers in the order
in which they came. Each frame says what it is, how long it is and, by a checksum, whether it is whole, so that a file
that was cut short is noticed. Nothing in it is a pickle: reading it runs no code that it brings along.
"""

import io
import os
import struct
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from secrets import randbits
from typing import IO, Any

import msgspec

from tidewheel.batches.batches import Batch, PackedArrow, is_arrow, is_numpy, stream_of, unpack
from tidewheel.operators.base.division import Division
from tidewheel.operators.sinks.plain_records import decode, encode
from tidewheel.progress import Antichain, Time
from tidewheel.runtime import Build, Captured, Schedule
from tidewheel.runtime.errors import SnapshotError
from tidewheel.runtime.state.operator_state import CAPTURED
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of
from tidewheel.runtime.worker.ports import InputPort, running_input

_FRAME = struct.Struct("<cQI")
"""The kind of a frame, the length of its content, and the checksum of that."""

_HEADER, _FRONTIER, _PLAIN, _ARROW, _RECORD_BATCH, _NUMPY = b"H", b"F", b"p", b"a", b"r", b"n"
_LENGTH_OF_TIME = struct.Struct("<I")
_VERSION = 1
_NUMBER_BITS = 62


class LogHeader(msgspec.Struct, frozen=True):
    """Which run wrote the log, as which of how many workers."""

    version: int
    run: str
    worker: int
    workers: int


@dataclass(frozen=True, slots=True)
class LoggedFrontier:
    """The least times that could still come then; empty if nothing could."""

    times: tuple[Time, ...]


class LogWriter:
    """Writes a log.

    Args:
        path: the file; its folder is there.
        header: who writes.
        length: how many bytes of a file that was begun before are to be kept; 0 for a new one.
        overwrite: whether a new one may take the place of an old one.

    Raises:
        FileExistsError: there is an old one.
        SnapshotError: it has fewer bytes than are to be kept.

    Attributes:
        length: how many bytes there are.
    """

    def __init__(self, path: Path, header: LogHeader, length: int, *, overwrite: bool) -> None:
        self.length = length
        self._file: IO[bytes]
        if length:
            if (there := path.stat().st_size) < length:
                raise SnapshotError(f"{path} has {there} bytes, and had {length} at the snapshot: it was cut since")
            self._file = path.open("r+b")
            self._file.truncate(length)
            self._file.seek(length)
            return
        try:
            self._file = path.open("wb" if overwrite else "xb")
        except FileExistsError:
            message = f"{path} is there already, of another run: capture_to(..., overwrite=True) replaces it"
            raise FileExistsError(message) from None
        self._write(_HEADER, msgspec.msgpack.encode(header))
        self._file.flush()  # so that it is known to be of this run, whenever that begins again

    def batch(self, time: Time, batch: Batch) -> None:
        """Write a batch. Raises TypeError if it has records that are no plain values, or no columns of such."""
        kind, payload = _encoded(batch)
        coded = encode([time])
        self._write(kind, _LENGTH_OF_TIME.pack(len(coded)) + coded, payload)

    def frontier(self, times: tuple[Time, ...]) -> None:
        """Write that the frontier has moved, and hand all that was written to the operating system."""
        self._write(_FRONTIER, encode(list(times)))
        self.flush()
        if not times:
            os.fsync(self._file.fileno())

    def flush(self) -> int:
        """Hand all that was written to the operating system; return how many bytes there are."""
        self._file.flush()
        return self.length

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, kind: bytes, *parts: Any) -> None:
        size, checksum = 0, zlib.crc32(kind)
        for part in parts:
            size += len(part)
            checksum = zlib.crc32(part, checksum)
        self._file.write(_FRAME.pack(kind, size, checksum))
        for part in parts:
            self._file.write(part)
        self.length += _FRAME.size + size


def _is_of_run(path: Path, run: str) -> bool:
    """Tell whether there is a log of this run."""
    try:
        return read_header(path).run == run
    except (OSError, ValueError, msgspec.MsgspecError):
        return False


def read_header(path: Path) -> LogHeader:
    """Return the header of a log. Raises ValueError if the file is none."""
    with path.open("rb") as file:
        frame = _next_frame(file, path)
    if frame is None or frame[0] != _HEADER:
        raise ValueError(f"{path} is no log of capture_to")
    header = msgspec.msgpack.decode(frame[1], type=LogHeader)
    if header.version != _VERSION:
        raise ValueError(f"{path} is a log of version {header.version}, and this tidewheel reads version {_VERSION}")
    return header


def read_frontier(path: Path) -> LoggedFrontier | None:
    """Return the last frontier in a log, None if there is none. Reads no batches."""
    found = None
    for event in read_log(path, with_batches=False):
        if isinstance(event, LoggedFrontier):
            found = event
    return found


def read_log(path: Path, *, with_batches: bool = True) -> Iterator[Captured | LoggedFrontier]:
    """Yield what is in a log, in order; a frame that was cut off in the end is left out.

    Raises:
        ValueError: the file is damaged; it names the file and the place.
    """
    with path.open("rb") as file:
        while (frame := _next_frame(file, path, with_batches=with_batches)) is not None:
            kind, data = frame
            if kind == _FRONTIER:
                yield LoggedFrontier(tuple(decode(data)))
            elif kind != _HEADER and with_batches:
                length = _LENGTH_OF_TIME.size + _LENGTH_OF_TIME.unpack_from(data)[0]
                [time] = decode(data[_LENGTH_OF_TIME.size : length])
                yield Captured(time, _decoded(kind, memoryview(data)[length:]))


def _next_frame(file: IO[bytes], path: Path, *, with_batches: bool = True) -> tuple[bytes, bytes] | None:
    """Return the kind of the next frame and what is in it, None at the end; a batch that is not wanted is skipped."""
    place = file.tell()
    start = file.read(_FRAME.size)
    if len(start) < _FRAME.size:
        return None
    kind, size, checksum = _FRAME.unpack(start)
    if size > os.fstat(file.fileno()).st_size - file.tell():
        return None
    if not with_batches and kind not in (_HEADER, _FRONTIER):
        file.seek(size, os.SEEK_CUR)
        return kind, b""
    data = file.read(size)
    if zlib.crc32(data, zlib.crc32(kind)) != checksum:
        raise ValueError(f"{path} is damaged, or no log of capture_to: what is at byte {place} is not what was written")
    return kind, data


def _encoded(batch: Batch) -> tuple[bytes, Any]:
    if is_arrow(batch):
        packed = stream_of(batch)
        return _RECORD_BATCH if packed.is_record_batch else _ARROW, packed.stream
    if is_numpy(batch):
        import numpy as np

        if batch.dtype.hasobject:
            raise TypeError(f"an array of {batch.dtype} holds Python objects, which are not written: make it a list")
        file = io.BytesIO()
        np.save(file, batch, allow_pickle=False)
        return _NUMPY, file.getbuffer()
    return _PLAIN, encode(batch)


def _decoded(kind: bytes, payload: memoryview) -> Batch:
    if kind == _PLAIN:
        return decode(bytes(payload))
    if kind == _NUMPY:
        import numpy as np

        return np.load(io.BytesIO(payload), allow_pickle=False)
    return unpack(PackedArrow(payload, kind == _RECORD_BATCH))


def build_capture(context: OperatorContext) -> Schedule:
    """Build an operator that keeps (time, batch) in order of arrival, for the driver to fetch."""
    captured = context.keyed_state(CAPTURED)
    numbers = count(randbits(_NUMBER_BITS))  # so that no two workers use the same

    def schedule(input: InputPort) -> None:
        for token, batch in running_input(input).whole():
            captured[next(numbers)] = (token.time, batch)

    return schedule


def log_path(folder: Path, worker: int) -> Path:
    """Return where a worker's log is."""
    return folder / f"worker-{worker:05d}.log"


def build_capture_to(folder: Path, *, overwrite: bool) -> Build:
    """Return the build function of an operator that logs each batch, and after them how the frontier has moved.

    How far the log goes is its state, so that what comes after that can be taken back. A job that goes back before its
    first snapshot begins a new log in the place of its own.
    """
    described = uuid.uuid4().hex  # all workers have it from the description

    def refuse(_: object, workers: object) -> Any:
        raise SnapshotError(
            f"capture_to cannot go on with {workers} workers: in {folder} there is a log for each of those that began. "
            "Go on with as many as before"
        )

    def build(context: OperatorContext) -> Schedule:
        nothing = {"length": 0, "frontier": None}
        written: dict[str, Any] = Division(refuse, refuse).state(context, "written", nothing.copy)
        folder.mkdir(parents=True, exist_ok=True)
        run = host_of(context).saving.run
        header = LogHeader(_VERSION, run or described, context.worker, context.workers)
        path = log_path(folder, context.worker)
        replaces = overwrite or (bool(run) and _is_of_run(path, run))
        log = LogWriter(path, header, written["length"], overwrite=replaces)
        written["length"] = log.length
        context.on_close(log.close)

        def may_follow(frontier: Antichain) -> bool:
            """Tell whether a frontier is none that was passed before a snapshot was taken."""
            before = written["frontier"]
            return before is None or all(map(Antichain(frontier.domain, before).less_equal, frontier))

        def schedule(input: InputPort) -> None:
            for token, batch in input:
                log.batch(token.time, batch)
            frontier = input.frontier
            times: tuple[Time, ...] = tuple(frontier)
            if times != written["frontier"] and may_follow(frontier):
                written["frontier"] = times
                log.frontier(times)
            written["length"] = log.flush()  # what a snapshot counts is there, however the process ends

        return schedule

    return build
