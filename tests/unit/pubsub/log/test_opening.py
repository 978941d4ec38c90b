"""The promises of every log, in a directory and in an object store."""

from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.kit.log.faulty_files import ALL, IDENTITY, entries, entry, record, records, ticks_of
from tests.kit.messages import raises
from tests.kit.stores.failing_store import failing_store
from tests.kit.stores.s3_fixtures import use_endpoint
from tests.waiting import eventually
from tidewheel.pubsub.log.errors import LogError, LogFailed, LogMismatch, StoreFailed
from tidewheel.pubsub.log.group_commit import GroupCommit
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.log.opening import AnyLog, logged_partitions, open_log
from tidewheel.storage.log_records import Entry


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place for a log, of each kind."""
    if request.param == "folder":
        return str(tmp_path / "logs" / "partition-0")
    return str(request.getfixturevalue("bucket")) + "/logs/partition-0"


def opened(place: str, snapshot: bytes = b"first", segment_bytes: int = ALL) -> AnyLog:
    return open_log(place, IDENTITY, snapshot, segment_bytes)


def test_a_log_says_how_many_partitions_its_topic_has(place: str) -> None:
    """Also while another process has it open, and whatever number is asked for; nothing is written."""
    more = replace(IDENTITY, partitions=5)
    assert logged_partitions(place, IDENTITY) == logged_partitions(place, more) == 0
    assert logged_partitions(place, IDENTITY) == 0
    with closing(opened(place)) as log:
        log.append(entries([3]))
        assert logged_partitions(place, IDENTITY) == logged_partitions(place, more) == 2
        assert log.sync() == 3
    assert logged_partitions(place, more) == 2
    with raises(LogMismatch):
        logged_partitions(place, replace(more, topic="bills"))


def test_what_was_synced_is_read_in_order(place: str) -> None:
    """By the process that wrote it, and by one that opens the log later."""
    with closing(opened(place)) as log:
        assert (log.first_tick, log.last_tick) == (0, -1)
        log.append(entries([3, 5]))
        assert (log.last_tick, log.read(0, ALL)) == (-1, [])
        log.append(entries([8]))
        assert log.sync() == log.sync() == 8
        assert log.read(0, ALL) == records([3, 5, 8])
        assert log.read(4, ALL) == records([5, 8])
        assert log.read(9, ALL) == []
    with closing(opened(place)) as log:
        assert (log.first_tick, log.last_tick) == (3, 8)
        log.append(entries([8, 9]))
        log.sync()
        assert log.read(0, ALL) == records([3, 5, 8, 8, 9])
        assert log.read(8, 1) == records([8, 8])


def test_closing_makes_everything_durable_and_ends_the_log(place: str) -> None:
    """As the end of a job does."""
    log = opened(place)
    log.append(entries([1]))
    log.close()
    with raises(LogFailed):
        log.append(entries([2]))
    with closing(opened(place)) as log:
        assert ticks_of(log) == [1]


def test_states_are_found_and_segments_removed(place: str) -> None:
    """A state of each tick is known as long as a segment from before it is there."""
    with closing(opened(place)) as log:
        for state, ticks in ((b"a", [1, 2]), (b"b", [3]), (b"c", [4])):
            log.append(entries(ticks))
            log.begin_segment(state)
        log.append(entries([5]))
        log.sync()
        for tick, state, before, found in ((3, b"b", 3, []), (5, b"c", 4, records([5]))):
            replay = log.snapshot_at(tick)
            assert (replay.snapshot, replay.tick, list(replay.records)) == (state, before, found)
        assert log.has_before(4)
        assert log.trim(4) > 0
        assert not log.has_before(4)
        assert (ticks_of(log), log.removed_end) == ([4, 5], 4)
        with raises(LogError):
            log.snapshot_at(2)
    with closing(opened(place)) as log:
        assert (ticks_of(log), log.removed_end) == ([4, 5], 4)
        replay = log.snapshot_at(9)
        assert (replay.snapshot, list(replay.records)) == (b"c", records([5]))
        assert [one.ended_s for one in log.segments()][:-1] == [one.begun_s for one in log.segments()][1:]


def test_segments_are_read_after_they_were_tidied(place: str) -> None:
    """However much is read at a time, by the one who tidied and by those who open the log later."""
    with closing(opened(place)) as log:
        for tick in range(1, 40):
            log.append([entry(tick), entry(tick, kind=2)])
            log.sync()
            if tick % 10 == 0:
                log.begin_segment(b"%d" % tick)
        log.trim(0)
        every = [tick for tick in range(1, 40) for _ in range(2)]
        assert ticks_of(log) == ticks_of(log, 1) == ticks_of(log, 300) == every
    with closing(opened(place)) as log:
        assert ticks_of(log) == ticks_of(log, 1) == every
        assert log.snapshot_at(25).snapshot == b"20"
        assert len(log.segments()) == 4


@pytest.mark.parametrize("bad", [Entry(-1, 0), Entry(5, 256), Entry(0, 0)], ids=repr)
def test_what_does_not_fit_is_refused(place: str, bad: Entry) -> None:
    """With an error, and without a trace in the log."""
    with closing(opened(place)) as log:
        with raises(ValueError):
            log.append([entry(1), bad])
        log.append(entries([2]))
        log.sync()
        assert ticks_of(log) == [2]


def test_the_log_of_another_is_refused(place: str) -> None:
    """It may have the records of another topic."""
    opened(place).close()
    with raises(LogMismatch):
        open_log(place, LogIdentity("bills", 0, 2, "IntegerDomain()"), b"")


def test_groups_of_many_callers_are_logged_in_order(place: str) -> None:
    """While one group is on its way the next one collects; segments begin by themselves."""
    done: list[int | LogError] = []
    with closing(opened(place, segment_bytes=200)) as log:
        commit = GroupCommit(log)
        for tick in range(50):
            assert commit.submit([entry(tick)], done.append, partial(b"%d".__mod__, tick))
            assert tick != 25 or eventually(lambda: len(done) > 25, 30.0)
        commit.close(30)
        assert len(done) == 50
        assert ticks_of(log) == list(range(50))
        assert len(log.segments()) > 1
        replay = log.snapshot_at(49)
        assert list(replay.records) == [record(tick) for tick in range(int(replay.snapshot) + 1, 50)]


@pytest.mark.usefixtures("s3_environment")
def test_a_bucket_that_is_gone_is_an_error() -> None:
    """It is named, and not taken for an empty log."""
    with raises(StoreFailed) as raised:
        open_log("s3://gone/logs", IDENTITY, b"")
    assert raised.value.path == "s3://gone/logs"
    assert "top-secret" not in str(raised.value)


def test_a_store_that_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to look at, and has no secret."""
    with failing_store(403, "AccessDenied") as refusing:
        use_endpoint(refusing.url, monkeypatch)
        with raises(StoreFailed) as raised:
            open_log("s3://bucket/logs", IDENTITY, b"")
    assert "top-secret" not in str(raised.value)
