"""The thread that takes the snapshots of a job on Ray: each that is asked for is taken, and its outcome is told."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.waiting import eventually
from tidewheel.host.retry import Retry
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.engines.job_life import JobLife
from tidewheel.runtime.engines.snapshot_taker import SnapshotTaker
from tidewheel.runtime.messages.written_part import WrittenPart
from tidewheel.runtime.snapshots import job_snapshots
from tidewheel.runtime.snapshots.errors import FencedError
from tidewheel.runtime.snapshots.job_snapshots import JobSnapshots
from tidewheel.transport.frames import dumps

DEADLINE_S = 10.0


class Bench:
    """A taker whose workers answer when they are told to, from other threads."""

    def __init__(self, folder: Path, every_s: float) -> None:
        flow = tw.Dataflow("numbers")
        flow.input("numbers").capture("numbers")
        plan = description_of(flow).plan()
        self.snapshots = JobSnapshots(tw.Snapshots(folder, every_s=every_s), "job", plan, 2)
        self.begun: list[int] = []
        self.failures: list[Exception] = []
        self.answers = True
        self.saved: list[int] = []
        self.statuses = [SimpleNamespace(awaits=-1) for _ in range(2)]
        self._made = threading.Event()
        link = SimpleNamespace(statuses=self.statuses)
        feed: Any = SimpleNamespace(begin_snapshot=self._begin, tell_saved=self.saved.append, link=link)
        life = JobLife("job")
        life.has_started = True
        job: Any = SimpleNamespace(name="job", _life=life, _fail=self._fail)
        self.taker = SnapshotTaker(job, feed, self.snapshots)
        self._made.set()

    def _begin(self, number: int) -> None:
        assert self._made.wait(DEADLINE_S)  # its thread begins one, if due, before the constructor returns
        self.begun.append(number)
        for worker in range(2) if self.answers else ():
            part = WrittenPart(number, worker, (), dumps({}))
            threading.Thread(target=self.taker.add, args=[part]).start()

    def _fail(self, error: Exception) -> None:
        self.failures.append(error)
        self.taker.close()

    def close(self) -> None:
        self.taker.close()
        self.snapshots.release()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "s", 1000.0)
    yield made
    made.close()


@pytest.mark.parametrize("every_s", [1000.0, 0.001])
def test_each_that_asks_gets_one_that_begins_later(every_s: float, tmp_path: Path) -> None:
    """Also those that ask while others become due all the time."""
    numbers: list[int] = []
    with closing(Bench(tmp_path / "s", every_s)) as bench:

        def ask() -> None:
            numbers.extend(bench.taker.take(DEADLINE_S) for _ in range(5))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert len(numbers) == 20
        assert set(numbers) <= set(bench.begun)
        assert bench.begun == sorted(set(bench.begun))


def test_one_for_which_operators_wait_is_taken_at_once(bench: Bench) -> None:
    """On whichever worker they are; all of them are told that it is durable, and then wait no more."""
    assert bench.taker.take(DEADLINE_S) == 1
    bench.statuses[1].awaits = 1
    assert eventually(lambda: bench.saved == [1, 2])
    bench.statuses[1].awaits = 2
    bench.snapshots._ended = "the folder was removed"
    assert eventually(lambda: bool(bench.failures))
    assert "can never be seen: the folder was removed" in str(bench.failures[0])


def test_one_for_which_operators_wait_is_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pause that grows, and long before the next one is due: until then, records would be held back."""
    monkeypatch.setattr(job_snapshots, "_AGAIN", Retry(first_pause_s=0.001))
    bench.answers = False
    bench.statuses[0].awaits = 0
    for number in (1, 2):
        assert eventually(lambda: len(bench.begun) == number)  # noqa: B023 - it is called at once
        bench.answers = number == 2
        bench.taker.add(WrittenPart(number, 1, failure="the disk is full"))
        bench.taker.add(WrittenPart(number, 0))
        assert eventually(lambda: number in bench.snapshots._failed)  # noqa: B023
        assert bench.snapshots._failures == number
    assert eventually(lambda: bench.saved[-1:] == [3])


def test_one_that_takes_too_long_is_a_timeout(bench: Bench) -> None:
    """Be it this one, or the one before."""
    bench.answers = False
    with raises(TimeoutError):
        bench.taker.take(0.2)
    with raises(TimeoutError):
        bench.taker.take(0.1)


def test_a_failure_of_a_worker_is_told(bench: Bench) -> None:
    """To whoever waits; the next snapshot is taken."""
    bench.answers = False
    waiting = threading.Thread(target=fail_part, args=[bench])
    waiting.start()
    with raises(tw.errors.SnapshotError):
        bench.taker.take(DEADLINE_S)
    bench.answers = True
    assert bench.taker.take(DEADLINE_S) == 2
    assert bench.failures == []


def fail_part(bench: Bench) -> None:
    assert eventually(lambda: bench.begun == [1])
    bench.taker.add(WrittenPart(1, 1, failure="the disk is full"))
    bench.taker.add(WrittenPart(1, 0))


@pytest.mark.parametrize("error", [FencedError("another job has claimed the folder"), ZeroDivisionError("bug")])
def test_a_folder_that_is_lost_and_a_bug_fail_the_job(
    error: Exception, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left that waits for a thread that has ended."""

    def lost(*_: Any) -> None:
        raise error

    monkeypatch.setattr(bench.snapshots._ownership, "commit", lost)
    with pytest.raises(tw.errors.SnapshotError):
        bench.taker.take(DEADLINE_S)
    assert eventually(lambda: bool(bench.failures))
    assert str(error) in str(bench.failures[0])


def test_a_thread_that_waits_is_told_that_the_job_goes_back(bench: Bench) -> None:
    """The job has not failed, nor was it stopped: another snapshot can be taken."""
    bench.answers = False

    def end() -> None:
        assert eventually(lambda: bench.begun == [1])
        bench.taker.close()

    ending = threading.Thread(target=end)
    ending.start()
    with raises(tw.errors.SnapshotError):
        bench.taker.take(DEADLINE_S)
    ending.join(DEADLINE_S)


def test_a_job_that_goes_back_does_not_fail(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has just died when a snapshot begins: the connections to the workers are closed before the taker is."""
    begun = threading.Event()

    def begin(number: int) -> None:
        begun.set()
        raise tw.JobRolledBack("job 'job' goes back to a snapshot")

    monkeypatch.setattr(bench.taker._feed, "begin_snapshot", begin)
    with raises(TimeoutError):
        bench.taker.take(0.1)
    assert begun.wait(DEADLINE_S)
    bench.taker.close()
    assert bench.failures == []
