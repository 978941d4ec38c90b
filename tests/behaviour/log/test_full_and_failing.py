"""A disk that is full, one that fails, and a process that ends between any two things that it does."""

import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit.log.faulty_files import (
    ALL,
    IDENTITY,
    FaultyFiles,
    ScopedLog,
    abandon,
    contents_of,
    entries,
    entry,
    open_log,
    put_contents,
    record,
    segments_in,
    ticks_of,
)
from tests.kit.messages import raises
from tidewheel.pubsub.log.errors import LogError, LogFailed, LogFull
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.storage.files import Part
from tidewheel.storage.log_records import HEAD_BYTES, Entry


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG], ids=errno.errorcode.get)
def test_a_full_disk_loses_nothing_and_is_gone_on_with(tmp_path: Path, code: int) -> None:
    """Nothing of what did not fit is in the log; what was durable can be read; and what fits later is taken."""
    files = FaultyFiles()
    with open_log(tmp_path, files) as log:
        log.append(entries([1]))
        log.sync()
        files.refuses["write"] = code
        for _ in range(2):
            with raises(LogFull):
                log.append(entries([2, 3]))
        assert ticks_of(log) == [1]
        assert log.sync() == 1
        files.refuses.clear()
        log.append(entries([4]))
        assert log.sync() == 4
        assert ticks_of(log) == [1, 4]
    with open_log(tmp_path) as log:
        assert (ticks_of(log), log.cut_bytes) == ([1, 4], 0)


def test_a_write_that_fits_in_part_is_cut_off(tmp_path: Path) -> None:
    """Whatever fits of it, to the byte; what was appended before, and is not durable yet, stays."""
    size = sum(HEAD_BYTES + len(record(tick).payload) for tick in (3, 4, 5))
    for room in range(size):
        directory = tmp_path / str(room)
        files = FaultyFiles()
        with open_log(directory, files) as log:
            log.append(entries([1]))
            log.sync()
            log.append(entries([2]))
            written = segments_in(directory)[0].stat().st_size
            files.room = room
            with pytest.raises(LogFull):
                log.append(entries([3, 4, 5]))
            assert segments_in(directory)[0].stat().st_size == written
            files.room = None
            log.append(entries([6]))
            log.sync()
            assert ticks_of(log) == [1, 2, 6]
        with open_log(directory) as log:
            assert (ticks_of(log), log.cut_bytes) == ([1, 2, 6], 0)


@pytest.mark.parametrize("removes_folder", [True, False])
def test_a_log_that_was_removed_confirms_nothing(tmp_path: Path, *, removes_folder: bool) -> None:
    """Its file takes writes and syncs as before, and would be gone with the process."""
    folder = tmp_path / "log"
    with suppress(LogError), open_log(folder) as log:
        log.append(entries([1]))
        assert log.sync() == 1
        if removes_folder:
            shutil.rmtree(folder)
        else:
            segments_in(folder)[-1].unlink()
        log.append(entries([2]))
        with raises(LogFailed):
            log.sync()
        with pytest.raises(LogFailed):
            log.append(entries([3]))


def test_without_room_for_another_segment_the_old_one_is_gone_on_with(tmp_path: Path) -> None:
    """What was appended is durable nevertheless, and no file is left."""
    files = FaultyFiles()
    with open_log(tmp_path, files) as log:
        log.append(entries([1]))
        files.room = 20
        with pytest.raises(LogFull):
            log.begin_segment(b"snapshot")
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "00000000000000000001.segment",
            "lock",
            "mark",
            "reserve",
        ]
        files.room = None
        assert ticks_of(log) == [1]
        log.append(entries([2]))
        log.begin_segment(b"snapshot")
        log.append(entries([3]))
        log.sync()
        assert ticks_of(log) == [1, 2, 3]
    with open_log(tmp_path) as log:
        assert ticks_of(log) == [1, 2, 3]


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """The same with a limit of the operating system's, in a process of its own."""
    program = """
import json, resource, sys
from pathlib import Path
from tests.kit.log.faulty_files import ALL, IDENTITY, ScopedLog, entry
from tidewheel.pubsub.log.errors import LogFull
from tidewheel.storage.log_records import Entry

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
with ScopedLog(Path(sys.argv[1]), IDENTITY) as log:
    full = 0
    for tick in range(20):
        try:
            log.append([Entry(tick, 1, (b"x" * 3_000, b"y" * 5_000))])
            log.sync()
        except LogFull as error:
            full += 1
            said = str(error)
    before = [record.tick for record in log.read(0, ALL)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    log.append([entry(100)])
    log.sync()
    print(json.dumps([full, said, before, [record.tick for record in log.read(0, ALL)]]))
"""
    root = str(Path(__file__).resolve().parents[3])
    command = [sys.executable, "-c", program, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": root})
    full, said, before, after = json.loads(ran.stdout)
    assert full == 8
    assert "File too large" in said
    assert before == list(range(12))
    assert after == [*range(12), 100]
    with ScopedLog(tmp_path, IDENTITY) as log:
        assert (log.last_tick, log.cut_bytes) == (100, 0)


CALLS: dict[str, Callable[[Log], object]] = {
    "append": lambda log: log.append(entries([9])),
    "sync": lambda log: log.sync(),
    "begin_segment": lambda log: log.begin_segment(b""),
}


@pytest.mark.parametrize(
    ("failing", "call"),
    [
        ("write", "append"),
        ("write", "begin_segment"),
        ("create", "begin_segment"),
        ("rename", "begin_segment"),
        ("sync_directory", "begin_segment"),
        ("sync", "begin_segment"),
        ("sync", "sync"),
    ],
)
def test_after_a_failure_the_log_takes_nothing_until_it_is_opened_anew(tmp_path: Path, failing: str, call: str) -> None:
    """It is not tried again, as the kernel would then tell of success; what was durable can still be read."""
    files = FaultyFiles()
    log = open_log(tmp_path, files)
    log.append(entries([1]))
    log.sync()
    log.append(entries([1] if call == "sync" else []))
    files.refuses[failing] = errno.EIO
    with raises(LogFailed):
        CALLS[call](log)
    files.refuses.clear()
    files.calls.clear()
    for each in CALLS.values():
        with raises(LogFailed):
            each(log)
    assert ticks_of(log) == [1]
    log.close()
    assert files.calls == ["sync"]  # the mark's
    with open_log(tmp_path) as again:
        again.append(entries([2]))
        again.sync()
        assert ticks_of(again)[-2:] == [1, 2]


@pytest.mark.parametrize("failing", ["sync", "rename", "sync_directory"])
def test_a_disk_that_is_found_full_too_late_has_failed(tmp_path: Path, failing: str) -> None:
    """Where nobody knows any more what is on it; some file systems only look for room at a sync."""
    files = FaultyFiles()
    log = open_log(tmp_path, files)
    log.append(entries([1]))
    files.refuses[failing] = errno.ENOSPC
    with raises(LogFailed):
        log.begin_segment(b"")
    with raises(LogFailed):
        log.append(entries([2]))
    abandon(log, files)
    with open_log(tmp_path) as again:
        assert ticks_of(again) == [1]


def test_a_disk_that_takes_little_at_a_time_gets_everything(tmp_path: Path) -> None:
    """In the middle of a part as well as between two."""

    class Slow(FaultyFiles):
        def write(self, descriptor: int, parts: Sequence[Part], offset: int) -> int:
            return super().write(descriptor, [b"".join(map(bytes, parts))[:777]], offset)

    parts = tuple(bytes([number]) * (number * 11) for number in range(150))
    with open_log(tmp_path, Slow()) as log:
        log.append([Entry(1, 1, parts), Entry(2, 1, parts[:9])])
        log.sync()
        assert [one.payload for one in log.read(0, ALL)] == [b"".join(parts), b"".join(parts[:9])]


def test_what_was_not_synced_is_written_again_before_it_is_told(tmp_path: Path) -> None:
    """After a sync that failed it may be in memory alone, where a later sync finds nothing left to do."""
    files = FaultyFiles()
    log = open_log(tmp_path, files)
    log.append(entries([1]))
    log.sync()
    durable = segments_in(tmp_path)[0].stat().st_size
    log.append(entries([2, 3]))
    files.refuses["sync"] = errno.EIO
    with raises(LogFailed):
        log.sync()
    assert ticks_of(log) == [1]
    abandon(log, files)
    files = FaultyFiles()
    with open_log(tmp_path, files) as again:
        assert files.calls == ["write", "sync", "write"]
        assert files.written[0] == (durable, segments_in(tmp_path)[0].stat().st_size)
        assert ticks_of(again) == [1, 2, 3]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_failure_to_cut_is_a_failure(tmp_path: Path, code: int) -> None:
    """Even if the disk was merely full: what was written in part is in the file."""
    files = FaultyFiles()
    log = open_log(tmp_path, files)
    log.append(entries([1]))
    log.sync()
    files.room = 50
    files.refuses["cut"] = code
    with pytest.raises(LogFailed):
        log.append(entries([2, 3]))
    with pytest.raises(LogFailed):
        log.append(entries([2]))
    assert ticks_of(log) == [1]
    abandon(log, files)
    with open_log(tmp_path) as again:
        assert ticks_of(again) in ([1], [1, 2])
        assert again.cut_bytes > 0


def test_a_mark_that_cannot_be_written_is_only_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once; the log goes on, as the mark is of use only together with damage."""

    class NoMark(FaultyFiles):
        def write(self, descriptor: int, parts: Sequence[Part], offset: int) -> int:
            if offset == 0 and len(parts[0]) == 20:
                raise OSError(errno.EIO, "no")
            return super().write(descriptor, parts, offset)

    with open_log(tmp_path, NoMark()) as log:
        for tick in (1, 2):
            log.append(entries([tick]))
            log.sync()
        assert ticks_of(log) == [1, 2]
    assert sum("mark cannot be written" in text for text in caplog.messages) == 1


def test_a_segment_that_cannot_be_removed_is_still_there(tmp_path: Path) -> None:
    """It is an error that names the file, and can be read on; the next trim tries again."""
    files = FaultyFiles()
    with open_log(tmp_path, files) as log:
        log.append(entries([1]))
        log.begin_segment(b"")
        files.refuses = dict.fromkeys(("rename", "remove"), errno.EACCES)
        with raises(LogError):
            log.trim(5)
        assert ticks_of(log) == [1]
        files.refuses.clear()
        log.trim(5)
        assert ticks_of(log) == []


def test_a_log_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    """Full, failing, or in a place where there is no room for a directory; nobody holds anything after that."""
    for code, kind in ((errno.ENOSPC, LogFull), (errno.EIO, LogFailed)):
        for call in ("create", "write", "sync"):
            files = FaultyFiles()
            files.refuses[call] = code
            with pytest.raises(kind):
                open_log(tmp_path / "log", files)
    with open_log(tmp_path / "log"):
        pass
    (tmp_path / "file").touch()
    with raises(LogFailed):
        open_log(tmp_path / "file" / "log")


def live(directory: Path, files: FaultyFiles) -> list[int]:
    """Do everything that changes files; return the ticks that were acknowledged before the files stopped."""
    acknowledged: list[int] = []
    try:
        log = open_log(directory, files, snapshot=b"0")
    except LogError:
        return acknowledged
    try:
        for tick in range(10, 18):
            log.append([entry(tick), entry(tick, kind=2)])
            assert log.sync() == tick
            acknowledged.append(tick)
            log.append([entry(tick, kind=3)])
            if tick % 2:
                log.begin_segment(b"%d" % tick)
            if tick == 13:
                log.trim(12)
    except LogError:
        pass
    finally:
        abandon(log, files)
    return acknowledged


@pytest.mark.parametrize("stops_after", [False, True], ids=["before", "after"])
def test_a_process_may_end_anywhere(tmp_path: Path, stops_after: bool) -> None:
    """Before or after each call that changes a file: what was acknowledged is there, whole, and goes on."""
    calls = 0
    while True:
        directory = tmp_path / str(calls)
        files = FaultyFiles()
        files.calls_left, files.stops_after = calls, stops_after
        acknowledged = live(directory, files)
        with open_log(directory, snapshot=b"0") as log:
            ticks = ticks_of(log)
            assert set(acknowledged) <= set(ticks) | {10, 11}  # which may have been trimmed
            assert ticks == sorted(ticks)
            last = max([*ticks, -1])
            assert log.last_tick == last
            replay = log.snapshot_at(last)
            assert int(replay.snapshot) <= max(last, 0)
            assert [one.tick for one in replay.records] == [tick for tick in ticks if tick > int(replay.snapshot)]
            log.append(entries([20]))
            log.sync()
            assert ticks_of(log) == [*ticks, 20]
        if acknowledged == list(range(10, 18)):
            break
        calls += 1
    assert calls > 40
    with open_log(tmp_path / str(calls)) as log:
        assert log._segments[-1].spare_bytes > 0


@pytest.mark.parametrize("call", ["rename", "sync_directory"])
def test_a_name_that_cannot_be_taken_away_is_taken_away_later(tmp_path: Path, call: str) -> None:
    """Where a file cannot be kept to be written over, it is removed; where nobody knows, the next trim does it."""
    files = FaultyFiles()
    with open_log(tmp_path, files) as log:
        log.append(entries([1]))
        log.begin_segment(b"")
        files.refuses[call] = errno.ENOSPC
        if call == "rename":
            assert log.trim(5) > 0
        else:
            with raises(LogError):
                log.trim(5)
        files.refuses.clear()
        log.trim(5)
        assert ticks_of(log) == []
        assert len(segments_in(tmp_path)) == 1
        assert not list(tmp_path.glob("*.spare"))
        log.begin_segment(b"")
        log.append(entries([6]))
    assert reopened_ticks(tmp_path) == [6]


def reopened_ticks(directory: Path) -> list[int]:
    """Return what a log has that is opened anew; nothing else is left in its directory."""
    with open_log(directory) as log:
        names = {path.suffix for path in directory.iterdir()}
        assert names <= {".segment", ""}
        return ticks_of(log)


def test_a_recovery_may_end_anywhere_and_be_done_again(tmp_path: Path) -> None:
    """One that cuts, writes again and syncs is the same after any part of it was done before."""
    files = FaultyFiles()
    log = open_log(tmp_path / "log", files)
    log.append(entries([1]))
    log.sync()
    log.append(entries([2, 3]))
    abandon(log, files)
    before = contents_of(tmp_path / "log")
    name = segments_in(tmp_path / "log")[0].name
    before[name] = before[name][:-1]
    for calls in range(4):
        for stops_after in (False, True):
            put_contents(tmp_path / "again", before)
            files = FaultyFiles()
            files.calls_left, files.stops_after = calls, stops_after
            try:
                abandon(open_log(tmp_path / "again", files), files)
            except LogFailed:
                assert calls < 4
            with open_log(tmp_path / "again") as again:
                assert ticks_of(again) == [1, 2]
                assert again.read(0, ALL)[-1] == record(2)
