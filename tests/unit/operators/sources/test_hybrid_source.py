"""A source of two sources in turn: the second begins when all of the first has ended, also after a restart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.waiting import WITHIN_S as DEADLINE_S
from tests.waiting import eventually
from tidewheel.testing import FakeBroker


def captured(job: tw.types.Job) -> list[tuple[int, Any]]:
    """Return the records with their epochs, sorted."""
    return sorted((one.time, record) for one in job.captured("records") for record in one.batch)


def run_until(job: tw.types.Job, condition: Any) -> None:
    def holds() -> bool:
        job.run_round()  # type: ignore[attr-defined]
        return bool(condition())

    assert eventually(holds)


def flow_of(source: tw.Source[Any], **options: Any) -> tw.Dataflow:
    flow = tw.Dataflow("test")
    flow.source("records", source, **options).probe("read").capture("records")
    return flow


@pytest.mark.parametrize("workers", [1, 3])
def test_the_second_source_waits_for_all_of_the_first(workers: int, tmp_path: Path) -> None:
    """On whichever workers the partitions are; over a restart, too, which begins with neither anew."""
    old, new = FakeBroker(3), FakeBroker(2)
    for partition in range(3):
        old.send(partition, f"old {partition}")
    new.send(0, "new 0")

    def begin(workers: int) -> tw.types.Job:
        source = old.source().then(new.source(look_every_s=0.01))
        return tw.run(flow_of(source), workers=workers, engine="local", snapshots=tw.Snapshots(tmp_path, every_s=1e9))

    expected = [f"old {partition}" for partition in range(3)]
    with begin(2) as job:
        run_until(job, lambda: [record for _, record in captured(job)] == expected)
        job.snapshot(DEADLINE_S)
        job.stop()
    with begin(workers) as job:
        old.end(0, 1)
        run_until(job, lambda: old.committed.keys() and job.probe("read").has_completed(0))
        assert sorted(record for _, record in captured(job)) == expected
        old.send(2, "old, later")
        old.end(2)
        run_until(job, lambda: len(captured(job)) == 5)
        job.snapshot(DEADLINE_S)
        job.stop()
    new.send(1, "new 1")
    with begin(2) as job:
        run_until(job, lambda: len(captured(job)) == 6)
        found = captured(job)
        job.stop()
    assert sorted(record for _, record in found) == sorted([*expected, "old, later", "new 0", "new 1"])
    of_old = [epoch for epoch, record in found if record.startswith("old")]
    of_new = [epoch for epoch, record in found if record.startswith("new")]
    assert max(of_old) <= min(of_new)


def test_epochs_go_on_while_the_second_source_waits() -> None:
    """Its partitions hold back no epoch of the first one."""
    old, new = FakeBroker(1), FakeBroker(1)
    with tw.run(flow_of(old.source().then(new.source())), workers=2, engine="local") as job:
        for number in range(4):
            old.send(0, number)
            run_until(job, lambda number=number: job.probe("read").has_completed(number))
        old.end()
        new.send(0, 4)
        new.end()
        job.wait(DEADLINE_S)
        assert [record for _, record in captured(job)] == [0, 1, 2, 3, 4]


def test_epochs_by_seconds() -> None:
    """The clock goes on from one source to the other."""
    old, new = FakeBroker(1), FakeBroker(1)
    flow = flow_of(old.source().then(new.source()), epoch_every_s=0.01)
    with tw.run(flow, engine="local") as job:
        old.send(0, "old")
        run_until(job, lambda: job.probe("read").has_completed(1))
        old.end()
        new.send(0, "new")
        new.end()
        job.wait(DEADLINE_S)
        assert [record for _, record in captured(job)] == ["old", "new"]


def test_a_history_of_nothing_has_ended() -> None:
    """Such as an empty folder."""
    new = FakeBroker(1)
    new.send(0, "new")
    new.end()
    with tw.run(flow_of(FakeBroker(0).source().then(new.source())), engine="local") as job:
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, "new")]


@pytest.mark.parametrize(
    "chain", [lambda a, b, c: a.then(b).then(c), lambda a, b, c: a.then(b.then(c))], ids=["left", "right"]
)
def test_three_sources_follow_each_other(chain: Any, tmp_path: Path) -> None:
    """However they are put together; a job that continues while the second is read begins with none anew."""
    brokers = [FakeBroker(1) for _ in range(3)]
    for number, broker in enumerate(brokers):
        broker.send(0, number)

    def begin() -> tw.types.Job:
        flow = flow_of(chain(*[broker.source() for broker in brokers]))
        return tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path, every_s=1e9))

    def has_read(job: tw.types.Job, *numbers: int) -> None:
        run_until(job, lambda: len(captured(job)) >= len(numbers))
        for _ in range(50):
            job.run_round()  # type: ignore[attr-defined]
        assert [record for _, record in captured(job)] == [*numbers]
        job.snapshot(DEADLINE_S)

    with begin() as job:
        has_read(job, 0)
        brokers[0].end()
        has_read(job, 0, 1)
        job.stop()
    with begin() as job:
        has_read(job, 0, 1)
        brokers[1].end()
        has_read(job, 0, 1, 2)
        job.stop()


def test_a_history_is_read_once_when_all_that_followed_is_gone(tmp_path: Path) -> None:
    """Files of a watched folder are deleted when they are read, and the job is started again before and after."""
    old, new, snapshots = (tmp_path / name for name in ("old", "new", "snapshots"))
    for folder in (old, new):
        folder.mkdir()
        (folder / "a.txt").write_text(f"{folder.name}\n")

    def begin() -> tw.types.Job:
        flow = flow_of(tw.FileSource(old).then(tw.FileSource(new, format="text", watch_every_s=0.01)))
        return tw.run(flow, engine="local", snapshots=tw.Snapshots(snapshots, every_s=1e9))

    for read in (["old", "new"], ["old", "new"], ["old", "new", "newer"]):
        with begin() as job:
            if "newer" in read:
                (new / "b.txt").write_text("newer\n")
            run_until(job, lambda read=read: len(captured(job)) >= len(read))
            for _ in range(200):
                job.run_round()  # type: ignore[attr-defined]
            assert [record for _, record in captured(job)] == read
            (new / "a.txt").unlink(missing_ok=True)
            job.snapshot(DEADLINE_S)
            job.stop()


class Growing(tw.Source[str]):
    """Has partitions that are open until they are let go."""

    names: ClassVar[list[str]] = ["a"]
    goes_on: ClassVar[list[bool]] = []

    def partitions(self) -> list[str]:
        return self.names

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        if position is None:
            yield [str(partition)], 1
        while not self.goes_on:
            yield tw.Pause(0.001)


def test_a_job_that_continues_reads_the_history_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has come since then may have what the live source has."""
    new = FakeBroker(1)
    new.send(0, "new")
    new.end()

    def begin() -> tw.types.Job:
        flow = flow_of(Growing().then(new.source()))
        return tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path, every_s=1e9))

    with begin() as job:
        run_until(job, lambda: len(captured(job)) == 1)
        job.snapshot(DEADLINE_S)
        job.stop()
    monkeypatch.setattr(Growing, "names", ["a", "b"])
    monkeypatch.setattr(Growing, "goes_on", [True])
    with begin() as job:
        job.wait(DEADLINE_S)
        assert [record for _, record in captured(job)] == ["a", "new"]


class Blocking(tw.Source[str]):
    """Notes how many of its partitions are open at a time."""

    def __init__(self, partitions: int, at_a_time: int | None) -> None:
        self.count = partitions
        self.at_a_time = at_a_time
        self.open_now: list[int] = []
        self.most = [0]

    def partitions(self) -> range:
        return range(self.count)

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        self.open_now.append(0)
        self.most[0] = max(self.most[0], len(self.open_now))
        yield [str(partition)], 1
        yield tw.Pause(0.001)
        self.open_now.pop()


def test_each_source_has_its_limit_of_open_partitions() -> None:
    """Files are read one after the other, and all partitions of a topic together."""
    old, new = Blocking(4, 1), FakeBroker(3)
    with tw.run(flow_of(old.then(new.source())), engine="local") as job:
        for partition in range(3):
            new.send(partition, "new")
        run_until(job, lambda: len(captured(job)) == 7)
        new.end()
        job.wait(DEADLINE_S)
    assert old.most == [1]


@pytest.mark.parametrize(
    ("history", "live"),
    [
        (FakeBroker(1).source(), None),
        (FakeBroker(1).source(look_every_s=1), FakeBroker(1).source()),
        (tw.RecordSource([1]), FakeBroker(1).source()),
    ],
    ids=["live", "endless", "epochs"],
)
def test_sources_that_cannot_follow_each_other_are_refused(history: Any, live: Any) -> None:
    with raises(tw.GraphError):
        history.then(live)


class Awaiting(tw.Source[str]):
    async def partitions(self) -> list[str]:  # type: ignore[override]
        return ["a"]

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        yield ["a"], 1


def test_both_sources_are_checked_as_each_alone() -> None:
    """The error is about the source that the program has written."""
    for source in (Awaiting().then(Blocking(1, None)), Blocking(1, None).then(Awaiting())):
        with raises(tw.GraphError):
            flow_of(source)
