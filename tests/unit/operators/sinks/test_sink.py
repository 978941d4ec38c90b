"""The sink operator: when epochs are prepared and committed, and what a run that begins leaves out."""

import pickle
import re
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S
from tests.kit.operators.sinks import Table
from tidewheel.batches.batches import Batch, records
from tidewheel.progress import Time
from tidewheel.runtime.messages.connector_numbers import of_sink
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder


class Log(tw.Sink):
    """Writes each call to a file, with what `note` says then; its last epoch is what it is made with."""

    def __init__(self, path: Path, last: Time = None, note: Callable[[], object] = str) -> None:
        self.path, self.last, self.note = path, last, note

    def prepare(self, epoch: Time, records: Batch) -> Any:
        self._write("prepare", epoch, records)
        return records

    def commit(self, epoch: Time, parts: list[Any]) -> None:
        self._write("commit", epoch, sorted(record for part in parts for record in records(part)))

    def last_committed(self) -> Time | None:
        return self.last

    def calls(self, name: str) -> list[list[Any]]:
        """Return the calls of one method: the epoch, the records, and the note."""
        with self.path.open("rb") as file:
            end = self.path.stat().st_size
            made = [pickle.load(file) for _ in iter(lambda: file.tell() < end, False)]
        return [call for kind, *call in made if kind == name]

    def _write(self, *call: Any) -> None:
        with self.path.open("ab") as file:
            pickle.dump((*call, self.note()), file)


def store(
    sink: tw.Sink, epochs: Iterable[list[int]], workers: int = 2, snapshots: tw.Snapshots | None = None, **options: Any
) -> list[Time]:
    """Store epochs, each record in a batch of its own; return the times that the operator sends."""
    flow = tw.Dataflow("test")
    flow.input("numbers").sink(sink, **options).capture("stored")
    with tw.run(flow, workers=workers, engine="local", snapshots=snapshots) as job:
        numbers = job.input("numbers")
        for epoch, part in enumerate(() if numbers.is_closed else epochs):
            numbers.advance_to(epoch)
            for number in part:
                numbers.send([number])
        numbers.close()
        job.wait(DEADLINE_S)
        return [time for captured in job.captured("stored") for time in captured.batch]


EPOCHS = [[3, 1], [], [5, 4, 6], [7]]
COMMITS = [[0, [1, 3], ""], [2, [4, 5, 6], ""], [3, [7], ""]]


@pytest.mark.parametrize("workers", [1, 3])
def test_each_epoch_is_committed_once_and_in_order(tmp_path: Path, workers: int) -> None:
    """One call has the parts of all workers; an epoch without records has none."""
    log = Log(tmp_path / "log")
    assert store(log, EPOCHS, workers) == [0, 2, 3]
    assert log.calls("commit") == COMMITS


def test_parts_that_come_out_of_order_are_committed_in_order(tmp_path: Path) -> None:
    """Each epoch is on another worker, and worker 0 has its own parts of later ones first."""
    log = Log(tmp_path / "log")
    store(log, [[n] for n in range(12)], workers=3)
    assert log.calls("commit") == [[n, [n], ""] for n in range(12)]


def test_what_is_committed_is_left_out(tmp_path: Path) -> None:
    """Nothing of it is prepared; those behind the sink receive the times all the same."""
    log = Log(tmp_path / "log", last=2)
    assert store(log, EPOCHS) == [0, 2, 3]
    assert log.calls("commit") == COMMITS[2:]
    assert [epoch for epoch, *_ in log.calls("prepare")] == [3]


def test_large_epochs_are_prepared_in_parts(tmp_path: Path) -> None:
    """A worker holds no more than so many bytes; all parts come to one commit."""
    log = Log(tmp_path / "log")
    store(log, [list(range(6))], part_bytes=1)
    assert sorted(numbers for _, numbers, _ in log.calls("prepare")) == [[n] for n in range(6)]
    assert log.calls("commit") == [[0, list(range(6)), ""]]


def test_an_epoch_is_committed_once_a_snapshot_has_it(tmp_path: Path) -> None:
    """Not before one is durable, and the job does not wait until one is due. Each epoch can be committed at once."""
    folder = tmp_path / "snapshots"

    def saved() -> bool:
        return bool(SnapshotFolder(folder).stored_snapshots())

    for visible in ("snapshot", "epoch"):
        log = Log(tmp_path / visible, note=saved)
        assert store(log, EPOCHS[:1], snapshots=tw.Snapshots(folder, every_s=1e9), visible=visible) == [0]
        assert log.calls("prepare")[0][2] is False
        assert log.calls("commit") == [[0, [1, 3], visible == "snapshot"]]
        folder = tmp_path / "others"


@pytest.mark.parametrize("workers", [1, 3])
def test_reports_say_what_is_committed_and_what_waits(tmp_path: Path, workers: int) -> None:
    """An epoch waits from its first record on until it is committed, and counts once however many workers have it."""

    def numbers_of(job: tw.types.Job) -> dict[str, Any]:
        reports: Any = job._reports()
        return of_sink([report.connectors["sink"] for report in reports])

    flow = tw.Dataflow("test")
    flow.input("numbers").sink(Log(tmp_path / "log")).probe("stored")
    snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=1e9)
    with tw.run(flow, workers=workers, engine="local", snapshots=snapshots) as job:
        numbers = job.input("numbers")
        for number in range(6):
            numbers.send([number])
        while job.run_round():  # type: ignore[attr-defined]
            pass
        assert numbers_of(job) == {"records": 0, "epochs": 0, "waiting": 1}
        before = time.time()
        for epoch in (1, 2):
            numbers.advance_to(epoch)
            numbers.send([epoch])
        job.probe("stored").wait_until(2, DEADLINE_S)
        found = numbers_of(job)
        assert before <= found.pop("committed") <= time.time()
        assert found == {"records": 7, "epochs": 2, "waiting": 1}
        numbers.close()
        job.wait(DEADLINE_S)


class Picky(Log):
    """Takes no multiples of five."""

    def refused(self, records: Batch) -> dict[int, Exception]:
        return {place: ValueError(f"not {n}") for place, n in enumerate(records) if n % 5 == 0}


def picky_flow(sink: tw.Sink, **options: Any) -> tw.Dataflow:
    flow = tw.Dataflow("test")
    letters = flow.dead_letters("letters", **options)
    flow.input("numbers").sink(sink, dead_letters=letters, name="store").capture("stored")
    letters.capture("letters")
    return flow


def letters_of(job: tw.types.Job) -> list[Any]:
    return sorted(
        (captured.time, one.record, one.error, one.message, one.where)
        for captured in job.captured("letters")
        for one in captured.batch
    )


REFUSED = [(0, 10, "ValueError", "not 10", "store"), (1, 5, "ValueError", "not 5", "store")]


@pytest.mark.parametrize("workers", [1, 3])
def test_refused_records_are_letters(tmp_path: Path, workers: int) -> None:
    """All others are stored; an epoch of which nothing is left is not committed."""
    log = Picky(tmp_path / "log")
    with tw.run(picky_flow(log), workers=workers, engine="local") as job:
        with job.input("numbers") as numbers:
            for epoch, part in enumerate([[10, 1, 2], [5], [3]]):
                numbers.advance_to(epoch)
                for number in part:
                    numbers.send([number])
        job.wait(DEADLINE_S)
        assert letters_of(job) == REFUSED
        assert [time for captured in job.captured("stored") for time in captured.batch] == [0, 1, 2]
    assert log.calls("commit") == [[0, [1, 2], ""], [2, [3], ""]]


class Answering(Log):
    """Answers all the same."""

    answer: ClassVar[Any] = None

    def refused(self, records: Batch) -> Any:
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [None, [0], {0: "too long"}, {-1: ValueError()}, {3: ValueError()}, {"0": ValueError()}],
    ids=["none", "places", "text", "from the end", "behind the end", "name"],
)
def test_what_is_refused_are_places_with_errors(answer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that is counted from the end would be stored and a letter, too."""
    monkeypatch.setattr(Answering, "answer", answer)
    log = Answering(tmp_path / "log")
    with raises(tw.JobError) as caught, tw.run(picky_flow(log), engine="local") as job:
        with job.input("numbers") as numbers:
            numbers.send([1, 2, 3])
        job.wait(DEADLINE_S)
    assert isinstance(caught.value.__cause__, TypeError)
    assert not (tmp_path / "log").exists()


def test_an_error_that_is_not_caught_fails_the_job(tmp_path: Path) -> None:
    """With its operator."""
    flow = picky_flow(Picky(tmp_path / "log"), catch=LookupError)
    with raises(tw.JobError) as caught, tw.run(flow, engine="local") as job:
        with job.input("numbers") as numbers:
            numbers.send([10])
        job.wait(DEADLINE_S)
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.operator == "store"


@pytest.mark.parametrize("workers_after", [1, 3])
def test_a_snapshot_has_a_record_or_its_letter(tmp_path: Path, workers_after: int) -> None:
    """It is cut when a part is prepared before its epoch is complete: the letters wait with the part."""
    log, snapshots = Picky(tmp_path / "log"), tw.Snapshots(tmp_path / "snapshots", every_s=1e9)

    def begin(workers: int) -> tw.types.Job:
        flow = tw.Dataflow("test")
        letters = flow.dead_letters("letters")
        flow.input("numbers").sink(log, dead_letters=letters, part_bytes=1, name="store").ignore()
        letters.capture("letters")
        return tw.run(flow, workers=workers, engine="local", snapshots=snapshots)

    with begin(2) as job:
        for batch in ([10, 1], [20]):  # one for each worker
            job.input("numbers").send(batch)
        while job.run_round():  # type: ignore[attr-defined]
            pass
        job.snapshot(DEADLINE_S)
        assert not letters_of(job)
        job.stop()
    with begin(workers_after) as job:
        with job.input("numbers") as numbers:
            numbers.send([2])
            numbers.advance_to(1)
            numbers.send([5])
        job.wait(DEADLINE_S)
        assert letters_of(job) == [REFUSED[0], (0, 20, "ValueError", "not 20", "store"), REFUSED[1]]
    assert log.calls("commit") == [[0, [1, 2], ""]]


class Fails(Log):
    """Its commits fail."""

    def commit(self, epoch: Time, parts: list[Any]) -> None:
        raise OSError("no space left")


@pytest.mark.parametrize("workers_after", [1, 2, 3])
def test_what_a_snapshot_has_prepared_is_committed_later(tmp_path: Path, workers_after: int) -> None:
    """The job fails at the commit, and goes on with as many workers or others; nothing is prepared again."""
    snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=1e9)
    with raises(tw.JobError):
        store(Fails(tmp_path / "log"), EPOCHS[:1], 2, snapshots)
    log = Log(tmp_path / "log")
    assert store(log, EPOCHS[:1], workers_after, snapshots) == [0]
    assert len(log.calls("prepare")) == 2
    assert log.calls("commit") == COMMITS[:1]


@pytest.mark.parametrize("last", ["2026-01-01", (0, 1), -1])
def test_a_last_epoch_that_is_no_time_is_an_error(tmp_path: Path, last: Any) -> None:
    """It names the sink, what its method has returned, and what times are."""
    expected = re.escape(f"Log.last_committed() returned {last!r}, which is no time of this stream")
    with pytest.raises(tw.JobError, match=expected):
        store(Log(tmp_path / "log", last), EPOCHS)
    assert not (tmp_path / "log").exists()


class Waits(Log):
    """Its commits are never awaited."""

    async def commit(self, epoch: Time, parts: list[Any]) -> None:  # type: ignore[override]
        super().commit(epoch, parts)


class Yields(Log):
    """It gives its parts one by one."""

    def prepare(self, epoch: Time, records: Batch) -> Any:
        yield records


class Narrow(Log):
    """Its commit knows no parts."""

    def commit(self, epoch: Time) -> None:  # type: ignore[override]
        pass


class Nothing(Log):
    """It has no commit, and hides that."""

    commit = None  # type: ignore[assignment]


class Connected(Log):
    """It keeps its connection."""

    def __init__(self) -> None:
        super().__init__(Path("db"))
        self.database = sqlite3.connect(":memory:")


def letters_of_any_sink(numbers: tw.Stream[int]) -> object:
    return numbers.sink(Log(Path()), dead_letters=numbers.flow.dead_letters())


def two_sinks(numbers: tw.Stream[int]) -> object:
    return numbers.sink(Table("db")), numbers.map(abs).sink(Table("other")), numbers.map(abs).sink(Table("db"))


def loop_with_sink(numbers: tw.Stream[int]) -> object:
    return numbers.iterate(lambda left: (left.sink(Table("db")), left))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda numbers: numbers.sink("bills.db"), "sink: it is an object of a subclass of tw.Sink, not of str"),
        (lambda numbers: numbers.sink(Table("db"), visible="soon"), "visible is 'snapshot' or 'epoch', not 'soon'"),
        (lambda numbers: numbers.sink(Table("db"), part_bytes=0), "part_bytes is a whole number, 1 or more, not 0"),
        (
            lambda numbers: numbers.sink(Waits(Path("db"))),
            r"Waits\.commit is async or yields, and the worker awaits nothing",
        ),
        (lambda numbers: numbers.sink(Yields(Path("db"))), r"Yields\.prepare is async or yields"),
        (
            lambda numbers: numbers.sink(Narrow(Path("db"))),
            r"Narrow\.commit is called with \(epoch, parts\), and cannot be: too many positional arguments",
        ),
        (lambda numbers: numbers.sink(Nothing(Path("db"))), r"Nothing\.commit .* cannot be: None is not a callable"),
        (lambda numbers: numbers.sink(Connected()), "cannot be pickled: .*connect in its methods"),
        (letters_of_any_sink, r"a Log has no method refused\(records\)"),
        (two_sinks, "dataflow 'test' stores into an equal Table already: give each stream a place of its own"),
        (loop_with_sink, "inside a loop, or at pairs, times are in no order"),
    ],
)
def test_wrong_arguments_are_refused_at_once(build: Any, message: str) -> None:
    """When the dataflow is described."""
    with pytest.raises(tw.GraphError, match=message):
        build(tw.Dataflow("test").input("numbers"))
