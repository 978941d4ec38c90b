"""Files that fill up, fail or stop, and what the tests of the log share beside."""

import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.log.opening import AnyLog
from tidewheel.pubsub.log.segment import Segment
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.storage.files import Files, Part
from tidewheel.storage.log_records import Entry, Record

IDENTITY = LogIdentity("orders", 0, 2, "IntegerDomain()")
ALL = 1 << 40


class FaultyFiles(Files):
    """Changes files as the operating system does, but for what a test says. It does not really sync: that takes long.

    Attributes:
        room: how many bytes can still be written; None for any number.
        refuses: what to raise for which call, by the name of the method.
        calls_left: after so many calls all of them fail, as if the process had ended; None for never.
        stops_after: whether the last of those still does what it should, and then fails.
        calls: the names of the methods, as they were called.
        written: the ranges of bytes that were written, since somebody cleared it.
    """

    def __init__(self) -> None:
        self.room: int | None = None
        self.refuses: dict[str, int] = {}
        self.calls_left: int | None = None
        self.stops_after = False
        self.calls: list[str] = []
        self.written: list[tuple[int, int]] = []

    def stop(self) -> None:
        """Let every call fail from now on."""
        self.calls_left = 0

    def _call(self, name: str) -> bool:
        """Count a call; raise if it fails before it does anything, return whether it does so after."""
        self.calls.append(name)
        if name in self.refuses:
            raise OSError(self.refuses[name], os.strerror(self.refuses[name]))
        if self.calls_left is None:
            return False
        if self.calls_left == 0 or (self.calls_left == 1 and not self.stops_after):
            self.calls_left = 0
            raise _stopped()
        self.calls_left -= 1
        return self.calls_left == 0

    def create(self, path: Path) -> int:
        stops = self._call("create")
        descriptor = super().create(path)
        if stops:
            os.close(descriptor)
            raise _stopped()
        return descriptor

    def write(self, descriptor: int, parts: Sequence[Part], offset: int) -> int:
        stops = self._call("write")
        if self.room is not None:
            parts = [b"".join(bytes(part) for part in parts)[: self.room]]
            if not parts[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
        written = super().write(descriptor, parts, offset)
        self.written.append((offset, offset + written))
        if self.room is not None:
            self.room -= written
        if stops:
            raise _stopped()
        return written

    def sync(self, descriptor: int) -> None:
        if self._call("sync"):
            raise _stopped()

    def cut(self, descriptor: int, size: int) -> None:
        stops = self._call("cut")
        super().cut(descriptor, size)
        if stops:
            raise _stopped()

    def rename(self, old: Path, new: Path) -> None:
        stops = self._call("rename")
        super().rename(old, new)
        if stops:
            raise _stopped()

    def remove(self, path: Path) -> None:
        stops = self._call("remove")
        super().remove(path)
        if stops:
            raise _stopped()

    def sync_directory(self, path: Path) -> None:
        if self._call("sync_directory"):
            raise _stopped()


def _stopped() -> OSError:
    return OSError(errno.EIO, "the process has ended")


def payload_of(tick: int) -> bytes:
    """Return what a record of this tick has in these tests."""
    return b"%d:" % tick * (1 + tick % 3)


def entry(tick: int, kind: int = 1) -> Entry:
    """Return an entry whose payload comes in two parts."""
    payload = payload_of(tick)
    return Entry(tick, kind, (payload[:2], payload[2:]))


def entries(ticks: Iterable[int]) -> list[Entry]:
    """Return an entry for each tick."""
    return [entry(tick) for tick in ticks]


def record(tick: int, kind: int = 1) -> Record:
    """Return what is read of `entry`."""
    return Record(tick, kind, payload_of(tick))


def records(ticks: Iterable[int]) -> list[Record]:
    """Return what is read of `entries`."""
    return [record(tick) for tick in ticks]


class ScopedLog(Log):
    """A log that is closed at the end of a with statement."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_log(directory: Path, files: Files | None = None, segment_bytes: int = ALL, snapshot: bytes = b"") -> ScopedLog:
    """Open the log of these tests, quickly."""
    return ScopedLog(directory, IDENTITY, files=files or FaultyFiles(), segment_bytes=segment_bytes, snapshot=snapshot)


def ticks_of(log: AnyLog, max_bytes: int = ALL) -> list[int]:
    """Return the ticks of all records, read ``max_bytes`` at a time, each of which has to be as it was written."""
    found: list[int] = []
    while news := log.read(found[-1] + 1 if found else 0, max_bytes):
        assert news == [Record(new.tick, new.kind, payload_of(new.tick)) for new in news]
        found += [new.tick for new in news]
    return found


def segments_in(directory: Path) -> list[Path]:
    """Return the files of a log's segments, in order."""
    return sorted(directory.glob("*.segment"))


def abandon(log: Log, files: FaultyFiles) -> None:
    """Leave a log as a process does that is killed: what was written stays, nothing more is."""
    files.stop()
    try:
        log.close()
    except LogError:
        return


def contents_of(directory: Path) -> dict[str, bytes]:
    """Return all files of a directory."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def put_contents(directory: Path, contents: dict[str, bytes]) -> None:
    """Make a directory have these files and no others."""
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        path.unlink()
    for name, content in contents.items():
        (directory / name).write_bytes(content)


def status_of(segment: Segment) -> tuple[tuple[float, float | None], tuple[int | None, int], int]:
    """Return when a segment began and ended, its first and last tick, and its size."""
    return (segment.begun_s, segment.ended_s), (segment.first_tick, segment.last_tick), segment.size
