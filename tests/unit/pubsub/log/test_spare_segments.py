"""Files that are written over: nothing of their former use is ever read, and nobody reads them any more."""

import errno
import logging
import os
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from tests.kit.log.faulty_files import (
    ALL,
    FaultyFiles,
    abandon,
    contents_of,
    entries,
    entry,
    open_log,
    put_contents,
    record,
    records,
    segments_in,
    ticks_of,
)
from tidewheel.pubsub.log import spare_segments
from tidewheel.pubsub.log.errors import LogCorrupted, LogFull
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.storage.files import Part
from tidewheel.storage.log_records import HEAD_BYTES

PREAD = os.pread


def spares_in(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.spare"))


def write_over(log: Log, first: int, count: int) -> None:
    """Write records to a log, and then begin a segment in a file that had just those."""
    log.append(entries(range(first, first + count)))
    log.begin_segment(b"")
    log.begin_segment(b"")
    log.trim(first + count)


def test_a_file_is_used_again(tmp_path: Path) -> None:
    """However many segments there are, there are few files; what is read is what was written last."""
    with open_log(tmp_path) as log:
        files = set()
        for begun in range(100, 200, 3):
            log.append(entries(range(begun, begun + 3)))
            log.begin_segment(b"%d" % begun)
            assert ticks_of(log)[-3:] == [begun, begun + 1, begun + 2]
            log.trim(begun)
            files |= {path.stat().st_ino for path in tmp_path.iterdir()}
        assert len(files) < 12
        assert log._segments[-1].spare_bytes > 0
    assert not spares_in(tmp_path)
    with open_log(tmp_path) as log:
        assert ticks_of(log) == [199, 200, 201]
        assert log.cut_bytes == 0


def test_few_files_are_kept_and_none_that_is_long(tmp_path: Path) -> None:
    """One long record, or a subscriber that has caught up, does not hold the disk for ever."""
    with open_log(tmp_path, segment_bytes=1000) as log:
        for tick in range(10):
            log.append(entries([tick]))
            log.begin_segment(b"")
        log.trim(10)
        assert len(spares_in(tmp_path)) == 4
        while spares_in(tmp_path):
            log.begin_segment(b"")
        log.append(entries([20 + place // 100 for place in range(100)]))
        log.begin_segment(b"")
        log.trim(30)
        assert len(segments_in(tmp_path)) == 1
        sizes = [path.stat().st_size for path in spares_in(tmp_path)]
        assert sizes
        assert max(sizes) < 1000


def test_a_write_torn_at_any_byte_of_a_used_file_is_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Behind it lie whole records of the former segment, in just the places where the next ones would be.

    A byte of a checksum there may be just the byte that the tear has left out: the record is whole then.
    """
    files = FaultyFiles()
    log = open_log(tmp_path / "log", files)
    write_over(log, 100, 9)
    log.begin_segment(b"")
    path = segments_in(tmp_path / "log")[-1]
    former = path.read_bytes()
    start = log._segments[-1].start
    log.append(entries([200, 201]))
    log.sync()
    log.append(entries([202, 203, 204]))
    abandon(log, files)
    before = contents_of(tmp_path / "log")
    written = before[path.name]
    assert len(written) == len(former) > len(written[:start]) + 5 * HEAD_BYTES
    ends = [start]
    for tick in range(200, 205):
        ends.append(ends[-1] + HEAD_BYTES + len(record(tick).payload))
    assert written[ends[-1] :] == former[ends[-1] :]
    assert former[ends[-1] :].count(b"\xd7rec") == 4
    for torn in range(ends[2], ends[5] + 1):
        data = written[:torn] + former[torn:]
        put_contents(tmp_path / "torn", before | {path.name: data})
        caplog.clear()
        as_written = next((place for place in range(ends[-1]) if data[place] != written[place]), ends[-1])
        whole = [end for end in ends if end <= as_written]
        with open_log(tmp_path / "torn") as again:
            assert ticks_of(again) == list(range(200, 199 + len(whole)))
            has_head = as_written - whole[-1] >= HEAD_BYTES
            assert again.cut_bytes == (ends[len(whole)] - whole[-1] if has_head else 0)
            again.append([entry(300)])
            again.sync()
            assert ticks_of(again)[-1] == 300
        assert any("were cut off" in text for text in caplog.messages) == has_head
        with open_log(tmp_path / "torn") as again:
            assert ticks_of(again) == [*range(200, 199 + len(whole)), 300]


def test_damage_in_a_used_file_is_named(tmp_path: Path) -> None:
    """If it was durable; what is left of the former segment is of no concern, there and in one that is complete."""
    files = FaultyFiles()
    log = open_log(tmp_path / "log", files)
    write_over(log, 100, 9)
    log.begin_segment(b"")
    last = segments_in(tmp_path / "log")[-1].name
    log.append(entries([200, 201]))
    log.sync()
    for is_complete in (False, True):
        if is_complete:
            log.begin_segment(b"")
            abandon(log, files)
        end = log._segments[-1 - is_complete].size
        before = contents_of(tmp_path / "log")
        for place in range(len(before[last])):
            data = bytearray(before[last])
            data[place] ^= 0x80
            put_contents(tmp_path / "flipped", before | {last: bytes(data)})
            if place >= end:
                with open_log(tmp_path / "flipped") as again:
                    assert ticks_of(again) == [200, 201]
                continue
            with pytest.raises(LogCorrupted, match=last), open_log(tmp_path / "flipped") as again:
                ticks_of(again)


def test_a_hole_in_a_used_file_is_no_damage(tmp_path: Path) -> None:
    """After the loss of power the second page of a write may be there and not the first; and nothing comes back."""
    files = FaultyFiles()
    log = open_log(tmp_path, files)
    write_over(log, 100, 9)
    log.begin_segment(b"")
    path = segments_in(tmp_path)[-1]
    former = path.read_bytes()
    log.append(entries([200]))
    log.sync()
    durable = log._segments[-1].size
    log.append(entries([201, 202]))
    written = log._writer.written
    abandon(log, files)
    data = bytearray(path.read_bytes())
    data[durable : durable + 20] = former[durable : durable + 20]
    path.write_bytes(data)
    with open_log(tmp_path) as log:
        assert ticks_of(log) == [200]
        assert log.cut_bytes == written - durable
        log.append([entry(210)])  # as long as that of tick 201 was: behind it lay a whole record of this segment
    with open_log(tmp_path) as log:
        assert ticks_of(log) == [200, 210]


def test_without_the_spare_file_another_is_made(tmp_path: Path) -> None:
    """Somebody may have removed it, who needed room."""
    with open_log(tmp_path) as log:
        write_over(log, 100, 3)
        for path in spares_in(tmp_path):
            path.unlink()
        log.append(entries([200]))
        log.begin_segment(b"")
        log.append(entries([201]))
        log.sync()
        assert ticks_of(log) == [200, 201]


def test_a_spare_file_that_is_too_short_makes_room(tmp_path: Path) -> None:
    """A header that does not fit into it on a full disk fits where it was."""
    files = FullBehind()
    with open_log(tmp_path, files) as log:
        log.append(entries([100]))
        log.begin_segment(b"")
        log.trim(101)
        files.is_full = True
        log.begin_segment(bytes(5000))
        assert not files.is_full
        log.append(entries([200]))
        log.sync()
        assert ticks_of(log) == [200]


def test_spare_files_are_not_kept_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is written any more the room is for others."""
    with open_log(tmp_path) as log:
        write_over(log, 100, 3)
        log.trim(0)
        assert spares_in(tmp_path)
        monkeypatch.setattr(spare_segments, "_KEPT_S", -1.0)
        log.trim(0)
        assert not spares_in(tmp_path)


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """A spare file, and one that was about to become a segment."""
    with open_log(tmp_path) as log:
        log.append(entries([1]))
    for name in ("00000000000000000001.spare", "00000000000000000007.new"):
        (tmp_path / name).write_bytes(bytes(100))
    with open_log(tmp_path) as log:
        assert ticks_of(log) == [1]
        assert {path.suffix for path in tmp_path.iterdir()} == {".segment", ""}


def test_what_somebody_reads_is_not_written_over(tmp_path: Path) -> None:
    """The file loses its name, and is read to its end."""
    with open_log(tmp_path) as log:
        log.append(entries(range(100, 105)))
        log.begin_segment(b"")
        first = log._segments[0]
        with first.reading():
            log.trim(105)
            assert not spares_in(tmp_path)
            with pytest.raises(FileNotFoundError):
                first.read(0, [], ALL)
        log.append(entries(range(105, 110)))
        log.begin_segment(b"")
        log.trim(110)
        assert len(spares_in(tmp_path)) == 1


def test_a_reader_that_has_begun_is_not_disturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if between any two steps of it the segment is trimmed, and another begun."""
    with open_log(tmp_path) as log:
        first = 100
        for step in range(8):
            log.append(entries(range(first, first + 5)))
            log.begin_segment(b"")
            calls = count()

            def pread(*place: int, calls: Iterator[int] = calls, first: int = first, step: int = step) -> bytes:
                if next(calls) == step:
                    log.trim(first + 5)
                    log.begin_segment(b"")
                    log.append(entries(range(first + 5, first + 10)))
                    log.sync()
                return PREAD(*place)

            with monkeypatch.context() as patched:
                patched.setattr(os, "pread", pread)
                found = log.read(first, 100)
            assert found == records(range(found[0].tick, found[-1].tick + 1))
            assert found[0].tick in (first, first + 5)
            first += 10


class FullBehind(FaultyFiles):
    """A disk on which what is there can be written over, and no more, unless a file is removed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    def write(self, descriptor: int, parts: Sequence[Part], offset: int) -> int:
        if self.is_full and offset + sum(map(len, parts)) > os.fstat(descriptor).st_size:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(descriptor, parts, offset)

    def remove(self, path: Path) -> None:
        self.is_full = self.is_full and not path.exists()
        super().remove(path)


def test_on_a_full_disk_no_file_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is written finds the room that they had, at once; where there is none, the disk is full as it would be."""
    caplog.set_level(logging.WARNING)
    files = FullBehind()
    with open_log(tmp_path, files) as log:
        write_over(log, 100, 3)
        assert spares_in(tmp_path)
        files.is_full = True
        log.append(entries(range(200, 205)))
        assert not spares_in(tmp_path)
        files.is_full = True
        with pytest.raises(LogFull):
            log.append(entries(range(205, 210)))
        files.is_full = False
        log.append(entries(range(205, 210)))
        log.sync()
        assert ticks_of(log) == list(range(200, 210))


def test_a_used_file_that_cannot_be_written_is_left(tmp_path: Path) -> None:
    """None is kept then, and nothing half made stays."""
    files = FaultyFiles()
    with open_log(tmp_path, files) as log:
        write_over(log, 100, 3)
        files.refuses["write"] = errno.ENOSPC
        with pytest.raises(LogFull):
            log.begin_segment(b"")
        assert {path.suffix for path in tmp_path.iterdir()} == {".segment", ""}
        files.refuses.clear()
        log.append(entries([200]))
        log.begin_segment(b"")
        assert ticks_of(log) == [200]
