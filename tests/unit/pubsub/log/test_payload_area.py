"""Payloads that are received in the log: they are not written again, and nothing that is held ever changes."""

import errno
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.kit.log.faulty_files import (
    ALL,
    IDENTITY,
    FaultyFiles,
    ScopedLog,
    abandon,
    contents_of,
    put_contents,
    segments_in,
)
from tidewheel.pubsub.log import payload_area
from tidewheel.pubsub.log.errors import LogCorrupted, LogFull
from tidewheel.pubsub.log.opening import open_log as open_any
from tidewheel.pubsub.log.payload_area import LEAST_BYTES, PayloadArea, is_in_memory
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.storage.log_records import HEAD_BYTES, REFERENCE, Entry, Record

SEGMENT_BYTES = 10 * LEAST_BYTES


def open_log(directory: Path, files: FaultyFiles | None = None) -> ScopedLog:
    """Open a log as one in memory is, wherever the directory is."""
    return ScopedLog(directory, IDENTITY, files=files or FaultyFiles(), segment_bytes=SEGMENT_BYTES, is_in_memory=True)


def payload_of(tick: int, size: int = LEAST_BYTES) -> bytes:
    return Random(tick).randbytes(size)


def received(log: Log, tick: int, size: int = LEAST_BYTES) -> Entry:
    """Return an entry whose payload was received in the log if that has room, and which has a second part."""
    payload = payload_of(tick, size)
    room = log.room_for(size)
    if room is not None:
        room[:] = payload
    return Entry(tick, 1, (room or payload, b"end"))


def record(tick: int, size: int = LEAST_BYTES) -> Record:
    return Record(tick, 1, payload_of(tick, size) + b"end")


def with_area(directory: Path, files: FaultyFiles | None = None) -> ScopedLog:
    """Return a log that has had large payloads in its first segment, so that the second one has an area."""
    log = open_log(directory, files)
    log.append(received(log, tick) for tick in range(10))
    log.begin_segment(b"")
    assert log.room_for(LEAST_BYTES) is not None
    return log


@contextmanager
def area_of(path: Path, size: int) -> Iterator[PayloadArea]:
    path.write_bytes(bytes(size))
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield PayloadArea(descriptor, size)
    finally:
        os.close(descriptor)


def test_an_area_lends_parts_of_its_file(tmp_path: Path) -> None:
    """One behind the other, as long as there is room; it knows them again, and no others."""
    with area_of(tmp_path / "file", 4 * LEAST_BYTES) as area:
        assert area.lend(LEAST_BYTES) is None
        area.open(100, 3 * LEAST_BYTES)
        first, second = area.lend(LEAST_BYTES + 1), area.lend(LEAST_BYTES)
        assert first is not None
        assert second is not None
        first[:], second[:] = b"1" * (LEAST_BYTES + 1), b"2" * LEAST_BYTES
        for part, begin in ((first, 128), (second, 128 + LEAST_BYTES + 64)):
            assert area.offset_of(part) == begin
            assert area.offset_of(part[5:]) == begin + 5
            assert (tmp_path / "file").read_bytes()[begin : begin + len(part)] == part
        assert area.offset_of(bytes(first)) is None
        assert area.lend(LEAST_BYTES - 1) is None
        assert area.lend(LEAST_BYTES) is None
        assert area.used_bytes == 28 + 64 + 2 * LEAST_BYTES


def test_an_area_is_lent_until_the_last_view_is_gone(tmp_path: Path) -> None:
    """A slice of a view counts, and so does an array over it; a closed area lends nothing."""
    import numpy as np

    with area_of(tmp_path / "file", 4 * LEAST_BYTES) as area:
        area.open(0, 4 * LEAST_BYTES)
        first, second = area.lend(LEAST_BYTES) or b"", area.lend(LEAST_BYTES) or b""
        views: list[object] = [memoryview(first)[5:9], np.frombuffer(second)]
        del first, second
        while views:
            assert area.is_lent
            with pytest.raises(AssertionError):
                area.open(0, 1)
            views.pop()
        assert not area.is_lent
        area.close()
        assert area.lend(LEAST_BYTES) is None


def test_a_received_payload_is_not_written_again(tmp_path: Path) -> None:
    """The record refers to it; it is read as any other, also once the log is opened again, or after a crash."""
    files = FaultyFiles()
    log = with_area(tmp_path / "log", files)
    for rest in range(3):
        files.written.clear()
        log.append(received(log, tick) for tick in (20 + 2 * rest, 21 + 2 * rest))
        assert sum(end - begin for begin, end in files.written) < 1000
        log.sync()
    expected = [record(tick) for tick in range(20, 26)]
    assert log.read(20, ALL) == expected
    assert log.read(20, 2 * LEAST_BYTES) == expected[:2]
    assert log.total_bytes == sum(segment.size for segment in log.segments())
    abandon(log, files)
    with open_log(tmp_path / "log") as again:
        assert (again.read(20, ALL), again.cut_bytes) == (expected, 0)
        assert again.room_for(LEAST_BYTES) is None, "what is there already could be overwritten"
        again.append([received(again, 30)])
        again.begin_segment(b"")
        again.append([received(again, 31)])
    with open_log(tmp_path / "log") as again:
        assert again.read(20, ALL) == [*expected, record(30), record(31)]


def test_a_payload_without_a_record_is_nothing(tmp_path: Path) -> None:
    """A worker may die in the middle of it, or send again what is logged."""
    files = FaultyFiles()
    log = with_area(tmp_path / "log", files)
    log.append([received(log, 20)])
    room = log.room_for(2 * LEAST_BYTES)
    assert room is not None
    room[:LEAST_BYTES] = payload_of(21)
    log.append([received(log, 22)])
    log.sync()
    abandon(log, files)
    with open_log(tmp_path / "log") as again:
        assert again.read(20, ALL) == [record(20), record(22)]


def test_a_payload_that_another_segment_has_is_copied(tmp_path: Path) -> None:
    """If the next segment begins after a payload was received, its record does not depend on the old file."""
    with with_area(tmp_path / "log") as log:
        late = [received(log, tick) for tick in (20, 21)]
        log.begin_segment(b"")
        log.append(late)
        log.begin_segment(b"")
        log.trim(20)
        assert log.read(20, ALL) == [record(20), record(21)]
    with open_log(tmp_path / "log") as log:
        assert log.read(20, ALL) == [record(20), record(21)]


def test_what_is_held_never_changes(tmp_path: Path) -> None:
    """Not where its file is used again, as that waits: a message on its way to a slow child stays as it is."""
    with with_area(tmp_path / "log") as log:
        held = received(log, 20)
        log.append([held])
        inode = segments_in(tmp_path / "log")[-1].stat().st_ino
        for tick in range(21, 100, 9):
            log.begin_segment(b"")
            log.append(received(log, later) for later in range(tick, tick + 9))
            log.trim(tick)
            assert held.parts[0] == payload_of(20)
            assert all(path.stat().st_ino != inode for path in segments_in(tmp_path / "log"))
        del held
        gc.collect()
        log._spares.expire()
        log.begin_segment(b"")


@pytest.mark.parametrize("seed", range(20))
def test_records_and_views_are_right_whatever_comes_between(tmp_path: Path, seed: int) -> None:
    """Payloads are received, logged later or never, in this segment or the next; files are trimmed, logs die."""
    random = Random(seed)
    files = FaultyFiles()
    log = open_log(tmp_path / "log", files)
    logged: list[Record] = []
    waiting: list[tuple[Entry, int]] = []
    held: list[tuple[Entry, int, int]] = []
    tick = lent = 0
    for _ in range(250):
        match random.choices(["receive", "log", "begin", "trim", "let go", "die"], [20, 15, 3, 6, 6, 1])[0]:
            case "receive":
                size = random.choice([10, LEAST_BYTES, 3 * LEAST_BYTES])
                entry = received(log, tick, size)
                lent += isinstance(entry.parts[0], memoryview)
                waiting.append((entry, size))
                held.append((entry, tick, size))
                tick += 1
            case "log" if waiting:
                count = random.randint(1, len(waiting))
                some = [one for one in waiting[:count] if random.random() < 0.9]
                log.append(entry for entry, _ in some)
                log.sync()
                logged += [record(entry.tick, size) for entry, size in some]
                del waiting[:count]
            case "begin":
                log.begin_segment(b"")
            case "trim":
                log.trim(log.last_tick - random.randint(0, 10))
            case "let go":
                held = [one for one in held if random.random() < 0.3]
            case "die":
                waiting.clear()
                if random.random() < 0.5:
                    log.close()
                else:
                    abandon(log, files)
                files = FaultyFiles()
                log = open_log(tmp_path / "log", files)
                assert log.cut_bytes == 0, f"seed {seed}"
        for entry, at, size in held:
            assert entry.parts[0] == payload_of(at, size), f"seed {seed}"
        assert log.read(0, ALL) == [one for one in logged if one.tick >= log.removed_end], f"seed {seed}"
    assert lent > 1, f"seed {seed}"
    log.close()


def test_damage_to_a_payload_is_named(tmp_path: Path) -> None:
    """In the reference to it, and at both ends of where it lies. Nothing sums the middle."""
    with with_area(tmp_path / "log") as log:
        log.append(received(log, tick) for tick in (20, 21))
        log.sync()
        segment = log._segments[-1]
    before = contents_of(tmp_path / "log")
    name = segment.path.name
    first, size = REFERENCE.unpack_from(before[name], segment.start + HEAD_BYTES)
    ends = [*range(first, first + 4096, 997), *range(first + size - 4096, first + size, 997), first + size - 1]
    for place in [*range(segment.start, segment.size), *ends]:
        for flip in (0x01, 0x80):
            data = bytearray(before[name])
            data[place] ^= flip
            put_contents(tmp_path / "flipped", before | {name: bytes(data)})
            with pytest.raises(LogCorrupted, match=name), open_log(tmp_path / "flipped"):
                pass
    assert first + 4096 + 1 < first + size - 4096
    data = bytearray(before[name])
    data[first + size // 2] ^= 0x01
    put_contents(tmp_path / "flipped", before | {name: bytes(data)})
    with open_log(tmp_path / "flipped") as log:
        assert len(log.read(20, ALL)) == 2


def test_without_large_payloads_there_is_no_area(tmp_path: Path) -> None:
    """The whole file is for records then, so that a log in memory takes no more room than it has to."""
    with open_log(tmp_path / "log") as log:
        for tick in range(0, 600, 60):
            log.append(received(log, tick + place, LEAST_BYTES // 10) for place in range(60))
            log.begin_segment(b"")
            log.trim(tick)
            assert log._segments[-1].area is None
            assert max(path.stat().st_size for path in (tmp_path / "log").glob("*.segment")) < 60 * LEAST_BYTES // 9
        log.append(received(log, 1000 + place) for place in range(10))
        log.begin_segment(b"")
        assert log.room_for(LEAST_BYTES) is not None
        log.append(received(log, 2000 + place, LEAST_BYTES // 10) for place in range(60))
        log.begin_segment(b"")
        assert log.room_for(LEAST_BYTES) is None


class NoRoomAhead(FaultyFiles):
    """A file system that gives no room before it is needed."""

    def allocate(self, descriptor: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_on_a_full_file_system_there_is_no_area(tmp_path: Path) -> None:
    """What fits is logged as in any file."""
    with open_log(tmp_path / "log", NoRoomAhead()) as log:
        for tick in (0, 10):
            log.append(received(log, tick + place) for place in range(10))
            log.begin_segment(b"")
            assert log.room_for(LEAST_BYTES) is None
        log.append([received(log, 20)])
        log.sync()
        assert log.read(20, ALL) == [record(20)]


def test_a_file_that_was_cut_has_a_smaller_area(tmp_path: Path) -> None:
    """A write that failed has cut it; what is mapped beyond its end would end the process."""
    files = FaultyFiles()
    with with_area(tmp_path / "log", files) as log:
        log.begin_segment(b"")
        log.begin_segment(b"")
        log.trim(100)
        log.append([received(log, 100, 10)])
        log.begin_segment(b"")  # without an area, in a file that is mapped
        files.room = 10
        with pytest.raises(LogFull):
            log.append([received(log, 101)])
        files.room = None
        assert segments_in(tmp_path / "log")[-1].stat().st_size < LEAST_BYTES
        for tick in range(110, 150, 10):
            log.append(received(log, tick + place) for place in range(2))
            log.begin_segment(b"")
            log.trim(tick)
            log.append([received(log, tick + 2)])
            log.sync()
            assert log.read(tick, ALL) == [record(tick), record(tick + 1), record(tick + 2)]


def test_a_log_in_memory_has_areas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kind of the file system that a directory is on, or would be."""
    monkeypatch.setattr(payload_area, "_MOUNTS", tmp_path / "mounts")
    assert not is_in_memory(tmp_path)
    (tmp_path / "mounts").write_text(f"disk / ext4 rw 0 0\nnone {tmp_path}/memory tmpfs rw 0 0\n", "utf-8")
    places = ("memory", "memory/a/b", "disk", ".")
    assert [name for name in places if is_in_memory(tmp_path / name)] == ["memory", "memory/a/b"]
    for name in ("memory", "disk"):
        log = open_any(tmp_path / name / "log", IDENTITY, b"", SEGMENT_BYTES)
        log.append(Entry(tick, 1, (payload_of(tick),)) for tick in range(10))
        log.begin_segment(b"")
        assert (log.room_for(LEAST_BYTES) is not None) == (name == "memory")
        log.close()
