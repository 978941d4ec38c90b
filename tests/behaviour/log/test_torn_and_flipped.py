"""Logs whose files are not as they were written: torn writes are cut, damage is named."""

import pickle
import struct
from itertools import product
from pathlib import Path

import pytest

from tests.kit.log.faulty_files import (
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
from tests.kit.messages import raises
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.log.errors import LogCorrupted, LogMismatch
from tidewheel.storage.checksum import crc32c
from tidewheel.storage.log_records import HEAD_BYTES, Entry

PATTERNS = (0x01, 0x80, 0xFF)


def write_log(directory: Path, *, groups: int, synced: int) -> list[int]:
    """Write groups of three records to a log, of which so many are synced; return how long the last segment was.

    The first two groups have a segment of their own each. The process does not end properly.
    """
    files = FaultyFiles()
    log = open_log(directory, files)
    sizes = []
    for group in range(groups):
        log.append(entries(range(10 * group, 10 * group + 3)))
        if group < synced:
            log.sync()
        if group < 2:
            log.begin_segment(b"snapshot")
        sizes.append(segments_in(directory)[-1].stat().st_size)
    abandon(log, files)
    return sizes


def ticks_until(groups: int) -> list[int]:
    return [10 * group + tick for group in range(groups) for tick in range(3)]


def whole_ticks(directory: Path) -> list[int]:
    """Return the ticks of the log, read from the start, and again in small steps, with what is in the records."""
    with open_log(directory) as log:
        ticks = ticks_of(log)
        assert ticks_of(log, 1) == ticks
        return ticks


def test_a_write_torn_at_any_byte_is_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was synced stays, whole records of the rest do, and it is said how many bytes do not; then it goes on."""
    sizes = write_log(tmp_path / "log", groups=4, synced=3)
    before = contents_of(tmp_path / "log")
    durable, size = sizes[2], sizes[3]
    name = segments_in(tmp_path / "log")[-1].name
    ends = [durable]
    for tick in (30, 31, 32):
        ends.append(ends[-1] + HEAD_BYTES + len(record(tick).payload))
    assert ends[-1] == size
    for torn in range(durable, size + 1):
        put_contents(tmp_path / "torn", before | {name: before[name][:torn]})
        caplog.clear()
        whole = [end for end in ends if end <= torn]
        cut_bytes = torn - whole[-1]
        files = FaultyFiles()
        with open_log(tmp_path / "torn", files) as log:
            assert log.cut_bytes == cut_bytes
            assert ticks_of(log) == ticks_until(3) + [30, 31, 32][: len(whole) - 1]
            log.append([entry(40)])
        assert [f"{cut_bytes} bytes" in text for text in caplog.messages] == [True] * (cut_bytes > 0)
        assert whole_ticks(tmp_path / "torn")[-1] == 40


@pytest.mark.parametrize("rest", [b"\0", b"\xff", b"\xd7rec"], ids=["zeros", "ones", "magic"])
def test_what_lies_behind_a_torn_write_does_not_matter(tmp_path: Path, rest: bytes) -> None:
    """A file may have become longer though what was written has not arrived."""
    sizes = write_log(tmp_path, groups=4, synced=3)
    path = segments_in(tmp_path)[-1]
    data = path.read_bytes()
    for torn in range(sizes[2], sizes[3], 7):
        path.write_bytes(data[:torn] + rest * 3000)
        with open_log(tmp_path) as log:
            assert log.cut_bytes > 0
            ticks = ticks_of(log)
        assert ticks == ticks_until(4)[: len(ticks)]
        assert len(ticks) >= 9
        path.write_bytes(data)


def test_a_hole_in_what_was_not_synced_is_no_damage(tmp_path: Path) -> None:
    """After the loss of power the second page of a write may be there and not the first; both are cut."""
    sizes = write_log(tmp_path, groups=4, synced=3)
    path = segments_in(tmp_path)[-1]
    data = bytearray(path.read_bytes())
    data[sizes[2] : sizes[2] + 20] = bytes(20)
    path.write_bytes(data)
    with open_log(tmp_path) as log:
        assert log.cut_bytes == sizes[3] - sizes[2]
        assert ticks_of(log) == ticks_until(3)


def read_into(directory: Path, found: list[int]) -> None:
    """Append the ticks of a log, which has to be whole, to ``found``, as they are read."""
    with open_log(directory) as log:
        assert log.cut_bytes == 0
        while news := log.read(found[-1] + 1 if found else 0, 50):
            assert news == [record(new.tick) for new in news]
            found += [new.tick for new in news]


def check_flipped(directory: Path, name: str, place: int, expected: list[int]) -> None:
    """Open a log of which a byte was flipped that was durable: it has to be named, and never given to anybody."""
    found: list[int] = []
    with pytest.raises(LogCorrupted) as caught:
        read_into(directory, found)
    error = caught.value
    assert found == expected[: len(found)]
    assert error.path == directory / name
    assert error.offset is not None
    assert error.offset <= place
    assert name in str(error)
    assert f"byte {error.offset}" in str(error)
    if error.tick is not None:
        assert error.tick in expected
        assert place < error.offset + HEAD_BYTES + len(record(error.tick).payload)


@pytest.mark.long
def test_a_flipped_byte_anywhere_is_named(tmp_path: Path) -> None:
    """Every byte of every segment, one at a time, where all was durable; the mark, which is damaged itself, is not.

    The reserve has no contents that matter: a few of its bytes are flipped.
    """
    write_log(tmp_path / "log", groups=4, synced=4)
    before = contents_of(tmp_path / "log")
    for name, content in before.items():
        places = range(0, len(content), 1 << 18 if name == "reserve" else 1)
        for place, pattern in product(places, PATTERNS):
            flipped = bytearray(content)
            flipped[place] ^= pattern
            put_contents(tmp_path / "flipped", before | {name: bytes(flipped)})
            if name.endswith(".segment"):
                check_flipped(tmp_path / "flipped", name, place, ticks_until(4))
            else:
                assert whole_ticks(tmp_path / "flipped") == ticks_until(4)


def test_a_flipped_byte_is_noticed_by_who_has_the_log_open(tmp_path: Path) -> None:
    """Every record is looked at each time that it is read; those before and behind it can still be had."""
    with open_log(tmp_path) as log:
        log.append([Entry(tick, 1, (b"%d" % tick * 10,)) for tick in range(1, 6)])
        log.sync()
        assert len(log.read(0, 1 << 20)) == 5
        path = segments_in(tmp_path)[0]
        data = bytearray(path.read_bytes())
        data[data.index(b"33333")] ^= 1
        path.write_bytes(data)
        assert [one.tick for one in log.read(0, 1 << 20)] == [1, 2]
        with raises(LogCorrupted) as caught:
            log.read(3, 1 << 20)
        assert caught.value.tick == 3
        assert [one.tick for one in log.read(4, 1 << 20)] == [4, 5]


def test_a_tick_of_which_a_record_is_damaged_is_not_read_in_part(tmp_path: Path) -> None:
    """Or else who reads on at the next tick would never hear of it."""
    with open_log(tmp_path) as log:
        log.append(
            [Entry(1, 1, (b"a" * 20,)), Entry(2, 1, (b"b" * 20,)), Entry(2, 1, (b"c" * 20,)), Entry(3, 1, (b"d",))]
        )
        log.sync()
        path = segments_in(tmp_path)[0]
        clean = path.read_bytes()
        start = clean.index(b"c" * 20)
        for place in (start, start - 1):  # in the payload, where the tick is known, and in the head
            data = bytearray(clean)
            data[place] ^= 1
            path.write_bytes(data)
            assert [one.tick for one in log.read(0, 1 << 20)] == [1]
            with pytest.raises(LogCorrupted):
                log.read(2, 1 << 20)
        path.write_bytes(clean)


@pytest.mark.parametrize("mark", ["older", "damaged", "missing", "empty"])
def test_damage_is_told_from_a_torn_write_without_the_mark(
    tmp_path: Path, mark: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As long as there is something behind it that was written after it was durable; only the last group has nothing.

    So it is after the loss of power, when the last mark may not have reached the disk.
    """
    sizes = write_log(tmp_path / "log", groups=5, synced=5)
    before = contents_of(tmp_path / "log")
    write_log(tmp_path / "older", groups=3, synced=3)
    marks = {"older": contents_of(tmp_path / "older")["mark"], "damaged": before["mark"][:-1] + b"?", "empty": b""}
    before.pop("mark")
    if mark in marks:
        before["mark"] = marks[mark]
    name = segments_in(tmp_path / "log")[-1].name
    put_contents(tmp_path / "flipped", before)
    assert whole_ticks(tmp_path / "flipped") == ticks_until(5)
    assert any("mark is damaged" in text for text in caplog.messages) == (mark == "damaged")
    for place in range(sizes[1], len(before[name])):
        flipped = bytearray(before[name])
        flipped[place] ^= PATTERNS[place % 3]
        put_contents(tmp_path / "flipped", before | {name: bytes(flipped)})
        if place < sizes[3]:
            check_flipped(tmp_path / "flipped", name, place, ticks_until(5))
        else:
            ticks = whole_ticks(tmp_path / "flipped")
            assert ticks == ticks_until(5)[: len(ticks)]
            assert len(ticks) >= 12


def test_what_has_become_shorter_is_named(tmp_path: Path) -> None:
    """By a record as well as by a byte; of the last segment, and of those before it, which may be longer as little."""
    write_log(tmp_path / "log", groups=4, synced=4)
    before = contents_of(tmp_path / "log")
    names = [path.name for path in segments_in(tmp_path / "log")]
    for name in names:
        for size in (len(before[name]) - 1, len(before[name]) - HEAD_BYTES - len(record(32).payload), 3, 0):
            put_contents(tmp_path / "short", before | {name: before[name][:size]})
            with pytest.raises(LogCorrupted, match=name):
                open_log(tmp_path / "short")
    put_contents(tmp_path / "long", before | {names[0]: before[names[0]] + b"\0"})
    with pytest.raises(LogCorrupted, match=names[0]):
        open_log(tmp_path / "long")


def test_a_log_inside_of_a_record_is_only_bytes(tmp_path: Path) -> None:
    """Records that lie in a payload, at whatever offset, are not taken for those of the log around them."""
    write_log(tmp_path / "inner", groups=4, synced=4)
    inner = segments_in(tmp_path / "inner")[-1].read_bytes()
    files = FaultyFiles()
    log = open_log(tmp_path / "log", files)
    log.begin_segment(b"snapshot")
    log.append(entries([1]))
    log.sync()
    log.append([Entry(2, 1, (inner * 3,))])
    abandon(log, files)
    path = segments_in(tmp_path / "log")[-1]
    path.write_bytes(path.read_bytes()[:-1])
    with open_log(tmp_path / "log") as again:
        assert again.cut_bytes == HEAD_BYTES + 3 * len(inner) - 1
        assert again.read(0, 1 << 20) == records([1])


def test_records_of_another_segment_are_none(tmp_path: Path) -> None:
    """A disk that has put a block of one file into another is found out, though every checksum in it matches."""
    files = FaultyFiles()
    log = open_log(tmp_path, files)
    for _ in range(3):
        log.append(entries([1]))
        log.begin_segment(b"")
    abandon(log, files)
    one, other = (path.read_bytes() for path in segments_in(tmp_path)[1:3])
    assert len(one) == len(other)
    start = len(one) - HEAD_BYTES - len(record(1).payload)
    segments_in(tmp_path)[2].write_bytes(other[:start] + one[start:])
    with raises(LogCorrupted):
        open_log(tmp_path)


def test_another_format_is_named(tmp_path: Path) -> None:
    """A segment of another version, or a file that never was a segment, is not read, and not removed."""
    path = tmp_path / "00000000000000000001.segment"
    for version in (2, 4):
        start = struct.pack("<8sHI", b"tidewlog", version, 0)
        path.write_bytes(start + struct.pack("<I", crc32c(start)))
        with pytest.raises(LogMismatch, match=f"format {version}, and this is a reader of format 3"):
            open_log(tmp_path)
    path.write_bytes(b"something else altogether")
    with raises(LogCorrupted):
        open_log(tmp_path)
    assert path.read_bytes() == b"something else altogether"


def test_a_file_that_a_disk_does_not_give_is_named(tmp_path: Path) -> None:
    """An error of reading is damage like any other; here a directory stands where the file was."""
    with open_log(tmp_path) as log:
        log.append(entries([1]))
        log.begin_segment(b"")
        path = segments_in(tmp_path)[0]
        path.unlink()
        path.mkdir()
        with raises(LogCorrupted):
            log.read(0, 1)
        path.rmdir()
        with raises(LogCorrupted):
            log.read(0, 1)
        with raises(LogCorrupted):
            log.snapshot_at(0)


def test_errors_are_of_delivery_and_cross_processes() -> None:
    """With their fields; whoever handles errors of topics handles these."""
    error = LogCorrupted("what", path=Path("file"), offset=3, tick=9)
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, DeliveryError)
    assert (str(copy), vars(copy)) == ("what", vars(error))
