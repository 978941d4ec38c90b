"""Many who hand in entries, one thread that makes them durable."""

import errno
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.kit.log.faulty_files import ALL, FaultyFiles, entries, open_log, payload_of, records, ticks_of
from tests.kit.messages import raises
from tests.waiting import WITHIN_S
from tidewheel.pubsub.log.errors import LogError, LogFailed, LogFull
from tidewheel.pubsub.log.group_commit import GroupCommit
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.storage.files import Part
from tidewheel.storage.log_records import Entry


class Gate(FaultyFiles):
    """Files of which a sync waits, while the gate is shut, until somebody lets it go on.

    Attributes:
        full_once: called by the next write, which then finds the disk full.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_shut = False
        self.full_once: Callable[[], object] | None = None
        self.began = threading.Semaphore(0)
        self.goes_on = threading.Semaphore(0)

    def write(self, descriptor: int, parts: Sequence[Part], offset: int) -> int:
        if self.full_once is not None:
            call, self.full_once = self.full_once, None
            call()
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(descriptor, parts, offset)

    def sync(self, descriptor: int) -> None:
        if self.is_shut:
            self.began.release()
            assert self.goes_on.acquire(timeout=WITHIN_S)
        super().sync(descriptor)


class Outcomes:
    """What was told, in the order in which it was."""

    def __init__(self) -> None:
        self.told: queue.Queue[tuple[int, int | LogError]] = queue.Queue()
        self._number = 0

    def submit(self, commit: GroupCommit, ticks: Sequence[int]) -> bool:
        """Hand in an entry for each tick, as a batch with the next number."""
        self._number += 1
        number = self._number
        return commit.submit(entries(ticks), lambda outcome: self.told.put((number, outcome)))

    def next(self, count: int) -> list[tuple[int, int | LogError]]:
        """Wait for as many outcomes."""
        return [self.told.get(timeout=WITHIN_S) for _ in range(count)]


@pytest.fixture
def files() -> Gate:
    return Gate()


@pytest.fixture
def log(tmp_path: Path, files: Gate) -> Iterator[Log]:
    with open_log(tmp_path, files) as log:
        yield log


def test_what_comes_together_becomes_durable_together(log: Log, files: Gate) -> None:
    """While one sync runs the next group collects; each batch is told, in order, the last tick that is durable."""
    commit, outcomes = GroupCommit(log), Outcomes()
    files.is_shut = True
    outcomes.submit(commit, [1, 2])
    assert files.began.acquire(timeout=WITHIN_S)
    for ticks in ([3], [4, 4], [], [5]):
        outcomes.submit(commit, ticks)
    assert log.read(0, ALL) == []
    files.is_shut = False
    files.calls.clear()
    files.goes_on.release()
    assert outcomes.next(5) == [(1, 2), (2, 5), (3, 5), (4, 5), (5, 5)]
    commit.close(WITHIN_S)
    assert ticks_of(log) == [1, 2, 3, 4, 4, 5]
    assert files.calls.count("sync") == 2


def test_who_is_told_can_read_it(log: Log) -> None:
    """Nobody is told before it is durable."""
    commit = GroupCommit(log)
    found: queue.Queue[object] = queue.Queue()
    commit.submit(entries([7]), lambda outcome: found.put((outcome, log.read(7, ALL))))
    assert found.get(timeout=WITHIN_S) == (7, records([7]))
    commit.close(WITHIN_S)


def test_what_waits_is_bounded(log: Log, files: Gate) -> None:
    """Who finds no room is told so, and finds some once others are told; an empty queue takes any size."""
    commit, outcomes = GroupCommit(log, capacity_bytes=2000), Outcomes()
    files.is_shut = True
    told = threading.Event()
    assert commit.submit([Entry(1, 1, (b"x" * 10_000,))], lambda _: told.set())
    assert files.began.acquire(timeout=WITHIN_S)
    assert not outcomes.submit(commit, [2])
    files.goes_on.release()
    assert told.wait(WITHIN_S)
    taken = 0
    while outcomes.submit(commit, [2]):
        taken += 1
    assert 2 <= taken <= 10
    assert files.began.acquire(timeout=WITHIN_S)
    files.is_shut = False
    files.goes_on.release()
    outcomes.next(taken)
    assert outcomes.submit(commit, [3])
    outcomes.next(1)
    commit.close(WITHIN_S)
    assert [one.tick for one in log.read(0, ALL)] == [1, *[2] * taken, 3]


def test_a_full_disk_leaves_no_gap(log: Log, files: Gate) -> None:
    """What waits behind what did not fit fails with it, and nothing is taken until somebody resumes."""
    commit, outcomes = GroupCommit(log), Outcomes()
    outcomes.submit(commit, [1])
    outcomes.next(1)
    files.full_once = lambda: outcomes.submit(commit, [4])
    outcomes.submit(commit, [2, 3])
    told = outcomes.next(2)
    assert [number for number, _ in told] == [2, 3]
    assert all(isinstance(outcome, LogFull) for _, outcome in told)
    for _ in range(2):
        with raises(LogFull):
            outcomes.submit(commit, [4])
    assert ticks_of(log) == [1]
    commit.resume()
    outcomes.submit(commit, [2, 3])
    assert [outcome for _, outcome in outcomes.next(1)] == [3]
    commit.close(WITHIN_S)
    assert ticks_of(log) == [1, 2, 3]


def test_a_failed_sync_ends_it(log: Log, files: Gate) -> None:
    """Everybody is told, and nothing more is taken; there is no resuming."""
    commit, outcomes = GroupCommit(log), Outcomes()
    files.refuses["sync"] = errno.EIO
    outcomes.submit(commit, [1])
    ((_, outcome),) = outcomes.next(1)
    assert isinstance(outcome, LogFailed)
    files.refuses.clear()
    with raises(LogFailed):
        outcomes.submit(commit, [1])
    with raises(LogFailed):
        commit.resume()
    commit.close(WITHIN_S)


def test_entries_that_cannot_be_logged_are_told_and_end_it(log: Log) -> None:
    """A tick that goes back is a mistake of the caller's, who hears of it."""
    commit, outcomes = GroupCommit(log), Outcomes()
    outcomes.submit(commit, [2, 1])
    ((_, outcome),) = outcomes.next(1)
    assert isinstance(outcome, LogFailed)
    assert "comes too late" in str(outcome)
    with pytest.raises(LogFailed):
        outcomes.submit(commit, [3])
    commit.close(WITHIN_S)


def test_a_segment_begins_behind_the_batch_that_brought_the_snapshot(tmp_path: Path, files: Gate) -> None:
    """The snapshot is asked for when one is due, once, as the batch is handed in; then the state can be made again."""
    with open_log(tmp_path, files, segment_bytes=300, snapshot=b"0") as log:
        commit, outcomes = GroupCommit(log), Outcomes()
        asked: list[int] = []
        done: queue.Queue[object] = queue.Queue()

        def submit(tick: int) -> None:
            def snapshot() -> bytes:
                asked.append(tick)
                return b"%d" % tick

            assert commit.submit([Entry(tick, 1, (payload_of(tick) * 30,))], done.put, snapshot)

        for tick in range(1, 40):
            submit(tick)
            if tick % 3:
                done.get(timeout=WITHIN_S)
        outcomes.submit(commit, [])
        commit.close(WITHIN_S)
        segments = log.segments()
        assert len(segments) == len(asked) + 1 > 4
        assert [one.last_tick for one in segments[:-1]] == asked
        for tick in range(1, 40):
            replay = log.snapshot_at(tick)
            assert int(replay.snapshot) == replay.tick + (replay.tick < 0)
            assert [one.tick for one in replay.records] == list(range(int(replay.snapshot) + 1, tick + 1))


def test_without_room_for_a_segment_the_entries_are_logged(tmp_path: Path, files: Gate) -> None:
    """It is tried again with the next batch."""
    with open_log(tmp_path, files, segment_bytes=10) as log:
        commit, done = GroupCommit(log), queue.Queue[object]()
        commit.submit([Entry(1, 1, (b"x" * 1000,))], done.put)
        assert done.get(timeout=WITHIN_S) == 1
        assert log.is_segment_due
        files.refuses["create"] = errno.ENOSPC
        for tick in (2, 3):
            commit.submit(entries([tick]), done.put, lambda: b"state")
            assert done.get(timeout=WITHIN_S) == tick
        commit.close(WITHIN_S)
        assert len(log.segments()) == 1
        files.refuses.clear()
        commit = GroupCommit(log)
        commit.submit(entries([4]), done.put, lambda: b"state")
        commit.close(WITHIN_S)
        assert len(log.segments()) == 2


def test_a_segment_begins_after_one_was_due_and_the_disk_was_full(tmp_path: Path, files: Gate) -> None:
    """A batch that brought a snapshot, and waited behind what did not fit, is not waited for."""
    with open_log(tmp_path, files, segment_bytes=10) as log:
        commit, done = GroupCommit(log), queue.Queue[object]()
        commit.submit([Entry(1, 1, (b"x" * 1000,))], done.put)
        assert done.get(timeout=WITHIN_S) == 1
        files.full_once = lambda: commit.submit(entries([3]), done.put, lambda: b"lost")
        commit.submit(entries([2]), done.put)
        assert all(isinstance(done.get(timeout=WITHIN_S), LogFull) for _ in range(2))
        commit.resume()
        commit.submit(entries([2, 3]), done.put, lambda: b"state")
        commit.close(WITHIN_S)
        assert [one.last_tick for one in log.segments()] == [3, 3]
        assert log.snapshot_at(3).snapshot == b"state"


def test_many_threads_hand_in_at_a_time(log: Log) -> None:
    """Each is told of all of its own, in order, and nothing is lost or doubled."""
    commit = GroupCommit(log, capacity_bytes=20_000)
    order = threading.Lock()
    ticks = iter(range(10_000))
    wrong: list[object] = []

    def hand_in() -> None:
        told: queue.Queue[int | LogError] = queue.Queue()
        for _ in range(150):
            with order:
                tick = next(ticks)
                while not commit.submit(entries([tick]), told.put):
                    pass
            outcome = told.get(timeout=WITHIN_S)
            if isinstance(outcome, LogError) or outcome < tick:
                wrong.append((tick, outcome))

    threads = [threading.Thread(target=hand_in) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)
    commit.close(WITHIN_S)
    assert wrong == []
    assert ticks_of(log) == list(range(600))


def test_reading_goes_along_with_writing(tmp_path: Path) -> None:
    """Whoever follows a log that is written sees each tick once, in order, as segments come."""
    with open_log(tmp_path, segment_bytes=2000) as log:
        commit = GroupCommit(log)
        last = 600
        followed: list[list[int]] = []

        def follow(max_bytes: int) -> None:
            ticks = [-1]
            while ticks[-1] < last and commit_lives.is_set():
                ticks += [one.tick for one in log.read(ticks[-1] + 1, max_bytes)]
            followed.append(ticks)

        commit_lives = threading.Event()
        commit_lives.set()
        readers = [threading.Thread(target=follow, args=(most,)) for most in (1, 500, 100_000)]
        for reader in readers:
            reader.start()
        done: queue.Queue[object] = queue.Queue()
        for tick in range(last + 1):
            commit.submit(entries([tick]), done.put, lambda: b"")
            if tick % 10 == 0:
                while done.get(timeout=WITHIN_S) != tick:
                    pass
        commit.close(WITHIN_S)
        for reader in readers:
            reader.join(WITHIN_S)
        commit_lives.clear()
        assert followed == [list(range(-1, last + 1))] * 3
        assert len(log.segments()) > 10


def test_who_fails_when_told_does_not_disturb_the_others(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so."""
    commit, outcomes = GroupCommit(log), Outcomes()
    commit.submit(entries([1]), lambda outcome: [][int(outcome == 2)])
    outcomes.submit(commit, [2])
    assert outcomes.next(1) == [(1, 2)]
    commit.close(WITHIN_S)
    assert "a callback of the log has failed" in caplog.text


def test_closing_logs_what_waits(log: Log, files: Gate) -> None:
    """And everybody is told before it returns; after that nothing is taken."""
    commit, outcomes = GroupCommit(log), Outcomes()
    files.is_shut = True
    outcomes.submit(commit, [1])
    assert files.began.acquire(timeout=WITHIN_S)
    outcomes.submit(commit, [2])
    files.is_shut = False
    files.goes_on.release()
    commit.close(WITHIN_S)
    assert outcomes.told.qsize() == 2
    assert ticks_of(log) == [1, 2]
    with raises(LogError):
        outcomes.submit(commit, [3])
    assert not [thread for thread in threading.enumerate() if thread.name == "tidewheel-log"]


def test_closing_does_not_wait_for_ever(log: Log, files: Gate) -> None:
    """A disk that hangs is an error."""
    commit, outcomes = GroupCommit(log), Outcomes()
    files.is_shut = True
    outcomes.submit(commit, [1])
    assert files.began.acquire(timeout=WITHIN_S)
    with raises(LogError):
        commit.close(0.01)
    with raises(LogError):
        log.close(0.01)
    files.is_shut = False
    files.goes_on.release()
    commit.close(WITHIN_S)
    assert outcomes.next(1) == [(1, 1)]


def test_without_a_thread_entries_are_durable_at_once(log: Log) -> None:
    """Also where another segment begins; the outcome is told before `submit` returns."""
    commit, outcomes = GroupCommit(log, has_thread=False), Outcomes()
    assert outcomes.submit(commit, [1, 2])
    assert outcomes.told.get_nowait() == (1, 2)
    assert commit.submit(entries([3]), lambda _: None, lambda: b"state")
    assert log.last_tick == 3
    commit.close(0.0)
    with pytest.raises(LogError):
        outcomes.submit(commit, [4])


def test_without_a_thread_a_full_disk_is_told_as_well(log: Log, files: Gate) -> None:
    """Nothing is accepted until `resume`, and nothing is lost."""
    commit, outcomes = GroupCommit(log, has_thread=False), Outcomes()
    files.room = 0
    assert outcomes.submit(commit, [1])
    assert isinstance(outcomes.told.get_nowait()[1], LogFull)
    with pytest.raises(LogFull):
        outcomes.submit(commit, [2])
    files.room = None
    commit.resume()
    assert outcomes.submit(commit, [1, 2])
    assert outcomes.told.get_nowait()[1] == 2
    commit.close(0.0)
