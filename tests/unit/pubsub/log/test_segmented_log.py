"""The promises of a log while nothing goes wrong."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.kit.log.faulty_files import (
    ALL,
    IDENTITY,
    FaultyFiles,
    ScopedLog,
    abandon,
    entries,
    entry,
    open_log,
    record,
    records,
    segments_in,
    status_of,
    ticks_of,
)
from tests.kit.messages import raises
from tests.waiting import eventually
from tidewheel.pubsub.log import segment
from tidewheel.pubsub.log.errors import LogCorrupted, LogError, LogFailed, LogLocked, LogMismatch
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.storage.log_records import HEAD_BYTES, Entry, decode_head


def test_what_was_synced_is_read_in_order(tmp_path: Path) -> None:
    """By the process that wrote it, and by one that opens the log later; on a real disk."""
    with ScopedLog(tmp_path / "new" / "log", IDENTITY) as log:
        assert (log.first_tick, log.last_tick) == (0, -1)
        log.append(entries([3, 5]))
        log.append(entries([8]))
        assert log.sync() == 8
        assert log.read(0, ALL) == records([3, 5, 8])
        assert log.read(4, ALL) == records([5, 8])
        assert log.read(9, ALL) == []
        assert (log.first_tick, log.last_tick) == (3, 8)
    with ScopedLog(tmp_path / "new" / "log", IDENTITY) as log:
        assert log.read(0, ALL) == records([3, 5, 8])
        assert (log.first_tick, log.last_tick, log.cut_bytes) == (3, 8, 0)


def test_nothing_is_read_before_it_is_durable(tmp_path: Path) -> None:
    """Not even where the records before it are."""
    with open_log(tmp_path) as log:
        log.append(entries([1]))
        assert log.read(0, ALL) == []
        assert (log.first_tick, log.last_tick) == (0, -1)
        log.sync()
        log.append(entries([2]))
        assert log.read(0, ALL) == records([1])
        assert log.total_bytes == segments_in(tmp_path)[0].stat().st_size - HEAD_BYTES - len(record(2).payload)


def test_one_sync_covers_all_that_was_appended(tmp_path: Path) -> None:
    """And without anything there is nothing to sync."""
    files = FaultyFiles()
    with open_log(tmp_path, files) as log:
        log.append(entries([1]))
        log.append(entries([2, 3]))
        files.calls.clear()
        assert log.sync() == 3
        assert log.sync() == 3
        assert files.calls == ["sync", "write"]  # the mark is written, and not synced


def test_what_has_to_be_durable_first_is_synced_first(tmp_path: Path) -> None:
    """A segment before it has its name, the one before it before that, and every name that comes or goes."""
    files = FaultyFiles()
    with open_log(tmp_path / "a" / "b", files) as log:
        made = ["create", "write", "sync", "rename", "sync_directory", "write"]
        assert files.calls == ["sync_directory", "sync_directory", *made]
        log.append(entries([1]))
        files.calls.clear()
        log.begin_segment(b"")
        assert files.calls == ["sync", "write", *made]
        log.begin_segment(b"")
        files.calls.clear()
        log.trim(2)
        assert files.calls == ["rename", "sync_directory", "rename", "sync_directory"]
        files.calls.clear()
        log.begin_segment(b"")
        assert files.calls == ["rename", *made[1:]]  # another name first, under which it is not looked for


def test_ticks_may_be_equal_but_never_go_back(tmp_path: Path) -> None:
    """An entry that comes too late leaves nothing of its group in the log."""
    with open_log(tmp_path) as log:
        log.append([entry(4), entry(4, kind=2)])
        with raises(ValueError):
            log.append(entries([5, 3]))
        log.append(entries([4]))
        log.sync()
        assert log.read(0, ALL) == [record(4), record(4, kind=2), record(4)]
    with open_log(tmp_path) as log, raises(ValueError):
        log.append(entries([3]))


@pytest.mark.parametrize("bad", [Entry(-1, 0), Entry(1 << 63, 0), Entry(5, 256), Entry(5, -1)], ids=repr)
def test_what_does_not_fit_the_format_is_refused(tmp_path: Path, bad: Entry) -> None:
    """With an error, and without a trace in the log."""
    with open_log(tmp_path) as log:
        with raises(ValueError):
            log.append([entry(1), bad])
        log.append(entries([2]))
        log.sync()
        assert ticks_of(log) == [2]


def test_payloads_are_any_bytes_in_any_number_of_parts(tmp_path: Path) -> None:
    """Empty ones, thousands of small ones, views of numbers, and one larger than any read."""
    import array

    numbers = array.array("d", [1.5, 2.5])
    wide = bytes(range(256)) * 10_000
    with open_log(tmp_path) as log:
        log.append([Entry(1, 0), Entry(2, 0, (b"", bytearray(b"a"), memoryview(b""), memoryview(numbers)))])
        log.append([Entry(3, 255, tuple(wide[at : at + 100] for at in range(0, len(wide), 100))), Entry(4, 1, (wide,))])
        log.sync()
        found = log.read(0, ALL)
        assert [one.payload for one in found] == [b"", b"a" + numbers.tobytes(), wide, wide]
        assert [one.kind for one in found] == [0, 0, 255, 1]
        assert [one.tick for one in log.read(3, 1)] == [3]


def test_reading_returns_all_of_a_tick_or_none(tmp_path: Path) -> None:
    """However little is asked for, also where a segment ends in the middle of the tick."""
    with open_log(tmp_path) as log:
        log.append(entries([1, 2, 2]))
        log.begin_segment(b"")
        log.append(entries([2, 2, 3]))
        log.sync()
        assert log.read(0, 1) == records([1])
        assert log.read(2, 1) == records([2, 2, 2, 2])
        assert log.read(2, ALL) == records([2, 2, 2, 2, 3])
        assert log.read(3, 1) == records([3])
        assert log.read(1, HEAD_BYTES + 5) == records([1, 2, 2, 2, 2])


def test_a_long_log_is_read_in_short_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many records at a time, and all of a tick; the next one begins at its end, without a search."""
    heads = [0]

    def counted(*arguments: Any) -> Any:
        heads[0] += 1
        return decode_head(*arguments)

    monkeypatch.setattr(segment, "decode_head", counted)
    ticks = sorted([*range(1000), *range(0, 1000, 7)])
    with open_log(tmp_path, segment_bytes=20_000) as log:
        for tick in ticks:
            log.append(entries([tick]))
            if log.is_segment_due:
                log.begin_segment(b"")
        log.sync()
        found = list[int]()
        while piece := log.read(found[-1] + 1 if found else 0, ALL, 10):
            assert len(piece) <= 11
            found += [record.tick for record in piece]
    assert found == ticks
    assert heads[0] < len(ticks) * 5 / 4


def test_reading_begins_anywhere(tmp_path: Path) -> None:
    """At every tick of many, also of a log that has just been opened and knows no place in it yet."""
    ticks = list(range(0, 6000, 3))
    with open_log(tmp_path) as log:
        for first in range(0, len(ticks), 100):
            log.append([Entry(tick, 1, (record(tick).payload * 20,)) for tick in ticks[first : first + 100]])
            if first % 700 == 0:
                log.begin_segment(b"")
        log.sync()
        assert all(log.read(tick, 1)[0].tick == -(-tick // 3) * 3 for tick in range(0, 5997, 7))
    with open_log(tmp_path) as log:
        assert all(log.read(tick, 1)[0].tick == -(-tick // 3) * 3 for tick in reversed(range(0, 5997, 7)))
        assert log.read(5998, 1) == []


def test_a_tick_may_be_long(tmp_path: Path) -> None:
    """All its records are read though they are many times as long as what a log knows places of."""
    with open_log(tmp_path) as log:
        log.append([Entry(tick, 1, (b"%d" % place * 10_000,)) for tick in (1, 2, 3) for place in range(60)])
        log.sync()
        assert [one.payload[:2] for one in log.read(2, 1)] == [(b"%d" % place * 2)[:2] for place in range(60)]


def test_whole_segments_are_trimmed_and_ticks_are_remembered(tmp_path: Path) -> None:
    """All records of a segment have to be before the tick; the one in writing stays, until another is begun."""
    with open_log(tmp_path) as log:
        for ticks in ([1, 2], [3, 4], [5]):
            log.append(entries(ticks))
            log.begin_segment(b"")
        log.append(entries([6]))
        log.sync()
        before = log.total_bytes
        assert (log.trim(2), log.removed_end) == (0, 0)
        removed = log.trim(5)
        assert removed == before - log.total_bytes > 0
        assert (log.first_tick, log.last_tick, log.removed_end) == (5, 6, 5)
        assert ticks_of(log) == [5, 6]
        log.trim(ALL)
        assert ticks_of(log) == [6]
        log.begin_segment(b"")
        log.trim(ALL)
        assert (ticks_of(log), log.first_tick, log.last_tick) == ([], 7, 6)
        assert len(segments_in(tmp_path)) == 1
    with open_log(tmp_path) as log:
        assert (ticks_of(log), log.first_tick, log.last_tick, log.removed_end) == ([], 7, 6, 7)
        with raises(ValueError):
            log.append(entries([5]))


def test_a_segment_is_due_when_it_is_long(tmp_path: Path) -> None:
    """As long as was asked for, and no shorter than its snapshot, so that snapshots never are most of a log."""
    due: list[bool] = []
    with open_log(tmp_path, segment_bytes=200) as log:
        for tick, size in enumerate([100, 100, 500, 700]):
            if due == [False, True]:
                log.begin_segment(b"s" * 1000)
            log.append([Entry(tick, 1, (b"x" * size,))])
            due.append(log.is_segment_due)
    assert due == [False, True, False, True]


def test_the_state_at_a_tick_is_a_snapshot_and_what_came_after(tmp_path: Path) -> None:
    """For each tick that is still there, and for none before; the snapshots outlive the process."""
    with open_log(tmp_path, snapshot=b"begin") as log:
        log.append(entries([1, 2, 2]))
        log.begin_segment(b"after 2")
        log.append(entries([2, 4]))
        log.begin_segment(b"after 4")
    with open_log(tmp_path) as log:
        log.append(entries([6]))
        log.sync()
        expected = {
            0: (b"begin", -1, []),
            1: (b"begin", -1, [1]),
            2: (b"after 2", 2, [2]),
            3: (b"after 2", 2, [2]),
            4: (b"after 4", 4, []),
            5: (b"after 4", 4, []),
            9: (b"after 4", 4, [6]),
        }
        for tick, (snapshot, included, replayed) in expected.items():
            replay = log.snapshot_at(tick)
            assert (replay.snapshot, replay.tick, list(replay.records)) == (snapshot, included, records(replayed))
        log.trim(3)
        assert log.snapshot_at(3).snapshot == b"after 2"
        with raises(LogError):
            log.snapshot_at(1)


def test_segments_tell_their_age(tmp_path: Path) -> None:
    """Everything in a segment is older than when the next was begun, also after the log was opened anew."""
    now_s = [100.0]
    with ScopedLog(tmp_path, IDENTITY, clock=lambda: now_s[0], files=FaultyFiles()) as log:
        log.append(entries([1, 2]))
        now_s[0] = 160.0
        log.begin_segment(b"")
        now_s[0] = 200.0
        log.begin_segment(b"")
        log.append(entries([7]))
        log.sync()
        first = [status_of(segment) for segment in log.segments()]
    with ScopedLog(tmp_path, IDENTITY, clock=lambda: now_s[0], files=FaultyFiles()) as log:
        assert [status_of(segment) for segment in log.segments()] == first
    assert [times for times, _, _ in first] == [(100.0, 160.0), (160.0, 200.0), (200.0, None)]
    assert [ticks for _, ticks, _ in first] == [(1, 2), (None, 2), (7, 7)]
    assert [size for _, _, size in first] == [path.stat().st_size for path in segments_in(tmp_path)]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (structs.replace(IDENTITY, topic="bills"), "topic 'bills'"),
        (structs.replace(IDENTITY, partition=1), "partition 1 of 2"),
        (structs.replace(IDENTITY, partitions=3), "a log keeps the number of partitions of its topic"),
        (structs.replace(IDENTITY, domain="UnitDomain()"), "times of UnitDomain()"),
    ],
    ids=["topic", "partition", "partitions", "domain"],
)
def test_the_log_of_something_else_is_not_opened(tmp_path: Path, changed: LogIdentity, said: str) -> None:
    """The error says what was found, and what was looked for; the log is as it was, and nobody holds it."""
    with open_log(tmp_path) as log:
        log.append(entries([1]))
    with pytest.raises(LogMismatch) as caught:
        Log(tmp_path, changed)
    assert said in str(caught.value)
    assert "topic 'orders', partition 0 of 2, with times of IntegerDomain()" in str(caught.value)
    with open_log(tmp_path) as log:
        assert ticks_of(log) == [1]


def test_one_at_a_time_has_a_log_open(tmp_path: Path) -> None:
    """Within a process as well; the error names who has it, and waiting for it has an end."""
    with open_log(tmp_path) as log:
        for wait_s in (0.0, 0.05):
            with raises(LogLocked):
                Log(tmp_path, IDENTITY, wait_s=wait_s)
        found: list[ScopedLog] = []
        waiting = threading.Thread(target=lambda: found.append(ScopedLog(tmp_path, IDENTITY, wait_s=10)))
        waiting.start()
        log.append(entries([1]))
    waiting.join(10)
    with found[0] as log:
        assert ticks_of(log) == [1]


def test_the_lock_of_a_process_goes_with_it(tmp_path: Path) -> None:
    """Another process is named while it lives, and in nobody's way once it was killed."""
    program = """
import sys
from pathlib import Path
from tests.kit.log.faulty_files import IDENTITY, ScopedLog
from tidewheel.pubsub.log.segmented_log import Log
log = Log(Path(sys.argv[1]), IDENTITY)
print("open", flush=True)
sys.stdin.read()
"""
    root = str(Path(__file__).resolve().parents[4])
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": root},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(LogLocked, match=f"process {process.pid} on "):
            Log(tmp_path, IDENTITY)
        process.kill()
        with ScopedLog(tmp_path, IDENTITY, wait_s=10) as log:
            assert log.last_tick == -1


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    """What was appended is durable then; closing it again does nothing."""
    log = open_log(tmp_path)
    log.append(entries([1]))
    log.close()
    log.close()
    with raises(LogFailed):
        log.append(entries([2]))
    with open_log(tmp_path) as again:
        assert ticks_of(again) == [1]


def test_segments_that_are_removed_while_somebody_reads(tmp_path: Path) -> None:
    """A reader is given what is left; a replay that has lost its segment says so."""
    with open_log(tmp_path) as log:
        for tick in range(50):
            log.append(entries([tick]))
            log.begin_segment(b"")
        replay = log.snapshot_at(3)
        done = threading.Event()
        wrong: list[object] = []

        def read() -> None:
            while not done.is_set():
                try:
                    ticks = [one.tick for one in log.read(0, ALL)]
                    if ticks != list(range(50 - len(ticks), 50)):
                        wrong.append(ticks)
                except LogError as error:
                    wrong.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        for tick in range(51):
            log.trim(tick)
        done.set()
        reader.join(10)
        assert wrong == []
        assert eventually(lambda: not reader.is_alive())
        with raises(LogError):
            list(replay.records)


@pytest.mark.parametrize("place", ["first", "middle", "last", "all"])
def test_a_segment_that_is_gone_is_missed(tmp_path: Path, place: str) -> None:
    """Whoever removed it; but for the first ones, which the log itself removes."""
    files = FaultyFiles()
    log = open_log(tmp_path, files)
    for tick in (1, 2):
        log.append(entries([tick]))
        log.begin_segment(b"")
    log.append(entries([3]))
    log.sync()
    abandon(log, files)
    paths = segments_in(tmp_path)
    for path in {"first": paths[:1], "middle": paths[1:2], "last": paths[2:], "all": paths}[place]:
        path.unlink()
    if place == "first":
        with open_log(tmp_path) as again:
            assert ticks_of(again) == [2, 3]
        return
    with raises(LogCorrupted) as caught:
        open_log(tmp_path)
    assert caught.value.path == (paths[1] if place == "middle" else paths[2])


def test_a_segment_under_the_name_of_another_is_named(tmp_path: Path) -> None:
    """Its number is in its header, too."""
    with open_log(tmp_path):
        (path,) = segments_in(tmp_path)
    path.rename(tmp_path / "00000000000000000004.segment")
    with raises(LogCorrupted):
        open_log(tmp_path)


def test_a_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    """What a log holds is unpickled, so it has to be this user's alone; one that is made is."""
    Log(tmp_path / "log", IDENTITY).close()
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "log").iterdir()} == {0o600}
    (tmp_path / "log").chmod(0o777)
    with raises(LogError):
        Log(tmp_path / "log", IDENTITY)


@pytest.mark.parametrize(("free", "is_short"), [(1999, True), (2000, False)])
def test_a_log_says_where_its_disk_is_short_of_room(tmp_path: Path, free: int, is_short: bool) -> None:
    """Two segments have to fit, as the next one is written before an old one goes."""

    class Small(FaultyFiles):
        def free_bytes(self, path: Path) -> int:
            return free

    with ScopedLog(tmp_path, IDENTITY, segment_bytes=1000, files=Small()) as log:
        assert log.is_short_of_room() is is_short
