"""Sources of the contract in a job: epochs, back-pressure, errors, and when a position is saved."""

import logging
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.waiting import WITHIN_S as DEADLINE_S
from tests.waiting import eventually
from tidewheel.operators.sources import readings
from tidewheel.testing import FakeBroker
from tidewheel.testing.fake_broker import FakeBrokerSource

QUICK = tw.Retry(attempts=3, first_pause_s=0.001, on=ConnectionError)


class Given(tw.Source[int]):
    """Yields what it was given, for each partition."""

    def __init__(self, **partitions: Iterable[Any]) -> None:
        self.given = {name: list(yielded) for name, yielded in partitions.items()}

    def partitions(self) -> list[str]:
        return list(self.given)

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        for number, yielded in enumerate(self.given[str(partition)]):
            if position is None or number >= position:
                yield yielded if isinstance(yielded, tw.Fetched | tw.Pause) else (yielded, number + 1)


class ManyEpochs(Given):
    """Says its epochs."""

    says_epochs = True


def flow_of(source: tw.Source[Any], **options: Any) -> tw.Dataflow:
    flow = tw.Dataflow("test")
    flow.source("numbers", source, **options).probe("read").capture("results")
    return flow


def epochs_of(source: tw.Source[Any], workers: int = 1, **options: Any) -> dict[int, list[int]]:
    """Return the records of each epoch, sorted."""
    with tw.run(flow_of(source, **options), workers=workers, engine="local") as job:
        job.wait(DEADLINE_S)
        found: dict[int, list[int]] = {}
        for captured in job.captured("results"):
            found.setdefault(captured.time, []).extend(captured.batch)
    return {time: sorted(batch) for time, batch in sorted(found.items())}


@pytest.mark.parametrize("workers", [1, 2])
def test_only_records_are_counted(workers: int) -> None:
    """Not what the workers say to each other of partitions and epochs."""
    source = Given(high=[[1, 2], [3]], low=[[4]])
    with tw.run(flow_of(source), workers=workers, engine="local") as job:
        job.wait(DEADLINE_S)
        counted = job.statistics().operators["numbers"]
    assert (counted.records_out, counted.messages_out) == (4, 3)


def run_until(job: tw.types.Job, condition: Any) -> None:
    """Run a local job, whose source has no end, until a condition holds."""

    def holds() -> bool:
        job.run_round()  # type: ignore[attr-defined]
        return bool(condition())

    assert eventually(holds)


# ---------------------------------------------------------------------- epochs


def test_each_batch_is_an_epoch_by_default() -> None:
    """It is complete as soon as it is read."""
    assert epochs_of(Given(a=[[1, 2], [3], [], [4]])) == {0: [1, 2], 1: [3], 2: [4]}


def test_a_unit_is_never_divided() -> None:
    """A transaction of several batches is in one epoch, whatever its size."""
    unit: list[Any] = [tw.Fetched([1], 1, is_whole=False), tw.Fetched([2], 2, is_whole=False), tw.Fetched([3], 3)]
    assert epochs_of(Given(a=[*unit, [4]])) == {0: [1, 2, 3], 1: [4]}
    assert epochs_of(Given(a=[*unit, [4]]), epoch_records=2) == {0: [1, 2, 3], 1: [4]}


@pytest.mark.parametrize("workers", [1, 2])
def test_epochs_by_records(workers: int) -> None:
    """A partition ends its epoch with the unit that brings it to the number."""
    assert epochs_of(Given(a=[[1], [2], [3], [4], [5]]), workers, epoch_records=2) == {0: [1, 2], 1: [3, 4], 2: [5]}


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_an_idle_partition_goes_along(workers: int) -> None:
    """It holds back no epoch that another has begun, on whichever worker it is."""
    broker = FakeBroker(3)
    with tw.run(flow_of(broker.source(look_every_s=0.01)), workers=workers, engine="local") as job:
        for number in range(5):
            broker.send(1, number)
            run_until(job, lambda number=number: job.probe("read").has_completed(number))
        job.stop()


def test_a_new_partition_begins_at_the_present_epoch() -> None:
    """And holds back none that is complete."""
    broker = FakeBroker(1)
    with tw.run(flow_of(broker.source(look_every_s=0.01)), workers=2, engine="local") as job:
        broker.send(0, "a")
        run_until(job, lambda: job.probe("read").has_completed(0))
        broker.add("new")
        broker.send("new", "b")
        run_until(job, lambda: len(job.captured("results")) == 2)
        assert max(captured.time for captured in job.captured("results")) >= 1
        run_until(job, lambda: job.probe("read").has_completed(1))
        job.stop()


@pytest.mark.parametrize("workers", [1, 2])
def test_epochs_by_seconds(workers: int) -> None:
    """A clock begins them for all partitions, also where nothing comes."""
    broker = FakeBroker(2)
    flow = flow_of(broker.source(look_every_s=0.01), epoch_every_s=0.02)
    with tw.run(flow, workers=workers, engine="local") as job:
        broker.send(0, "a")
        run_until(job, lambda: job.probe("read").has_completed(3))
        broker.send(1, "b")
        run_until(job, lambda: len(job.captured("results")) == 2)
        first, second = sorted(captured.time for captured in job.captured("results"))
        assert first < 3 < second
        job.stop()


def test_sources_of_one_name_have_epochs_of_their_own() -> None:
    """One that is idle does not follow another source, whose epochs mean something else."""
    busy, idle = FakeBroker(1), FakeBroker(1)
    flow = tw.Dataflow("test")
    flow.source("numbers", busy.source(look_every_s=0.01)).probe("busy").capture("busy")
    flow.source("numbers", idle.source(look_every_s=0.01)).capture("idle")
    with tw.run(flow, engine="local") as job:
        busy.send(0, 1)
        run_until(job, lambda: job.probe("busy").has_completed(0))
        idle.send(0, 2)
        run_until(job, lambda: job.captured("idle"))
        assert [(one.time, one.batch) for one in job.captured("idle")] == [(0, [2])]
        job.stop()


def test_epochs_by_seconds_end_with_the_partitions() -> None:
    """Where no more come."""
    assert sum(map(len, epochs_of(Given(a=[[1], [2]], b=[[3]]), 2, epoch_every_s=0.01).values())) == 3


def test_a_source_that_says_its_epochs() -> None:
    """Each batch is in the epoch that it says."""
    epochs: list[Any] = [
        tw.Fetched([1], 1, epoch=3),
        tw.Fetched([2], 2, epoch=3),
        tw.Fetched([], 3, epoch=5),
        tw.Fetched([4], 4, 8),
    ]
    other: list[Any] = [tw.Fetched([5], 1, epoch=4)]
    assert epochs_of(ManyEpochs(a=epochs, b=other), 2) == {3: [1, 2], 4: [5], 8: [4]}


def test_a_probe_paces_it() -> None:
    """No partition begins an epoch before the one before has completed there."""
    flow = tw.Dataflow("test")
    seen: list[int] = []
    numbers = flow.source("numbers", Given(a=[[number] for number in range(20)]), paced_by="done", epochs_ahead=2)
    numbers.inspect(seen.append).probe("done").capture("results")
    with tw.run(flow, engine="local") as job:
        ahead = 0
        while not job.is_complete:
            if not job.run_round():  # type: ignore[attr-defined]
                continue
            frontier = min(job.probe("done").frontier, default=20)
            ahead = max(ahead, len(seen) - frontier)
        assert len(seen) == 20
        assert ahead <= 2


# ---------------------------------------------------------------------- beside the loop


class Blocks(Given):
    """One partition blocks until the test lets it go on."""

    go_on = threading.Event()

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        if partition == "slow":
            assert self.go_on.wait(DEADLINE_S)
        yield from super().open(partition, position)


def test_a_reader_that_blocks_holds_up_nothing_else() -> None:
    """The worker has what the other partition has, and takes a snapshot meanwhile."""
    Blocks.go_on.clear()
    with tw.run(flow_of(Blocks(slow=[[1]], quick=[[2], [3]])), engine="local") as job:
        run_until(job, lambda: sum(len(captured.batch) for captured in job.captured("results")) == 2)
        Blocks.go_on.set()
        job.wait(DEADLINE_S)
        assert sum(len(captured.batch) for captured in job.captured("results")) == 3


class Counts(tw.Source[bytes]):
    """Counts the batches that it has yielded, of a megabyte each."""

    yielded = 0

    def partitions(self) -> list[int]:
        return [0]

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        for number in range(position or 0, 100):
            type(self).yielded += 1
            yield [bytes(1 << 20)], number + 1


def test_it_reads_no_more_than_fits() -> None:
    """While the loop does not take what was read, memory is bounded."""
    Counts.yielded = 0
    read = readings.Readings(Counts(), "test", lambda: None, most_bytes=5 << 20)
    try:
        read.begin(0, None)
        assert eventually(lambda: Counts.yielded > 4)
        for taken in range(10):
            assert Counts.yielded <= 6 + taken
            assert eventually(lambda: read.take(0) is not None)
    finally:
        read.close()


class Dawdles(tw.Source[int]):
    """Has as many partitions as wanted, and notes how many are open at a time."""

    at_a_time = 3

    def __init__(self) -> None:
        self.open_now: list[int] = []
        self.most: list[int] = [0]

    def partitions(self) -> range:
        return range(20)

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        self.open_now.append(0)
        self.most[0] = max(self.most[0], len(self.open_now))
        yield [int(partition)], 1
        self.open_now.pop()


def test_a_worker_reads_some_partitions_at_a_time() -> None:
    """So that a folder of files needs few threads."""
    source = Dawdles()
    assert sorted(number for batch in epochs_of(source).values() for number in batch) == list(range(20))
    assert source.most[0] <= 3


@pytest.mark.parametrize("keeps", [False, True])
def test_partitions_that_wait_for_their_turn_are_read_and_saved(tmp_path: Path, keeps: bool) -> None:
    """Those that were read before them are saved meanwhile."""
    broker = FakeBroker(7)
    for partition in range(7):
        broker.send(partition, partition)
    broker.end()
    source = broker.source()
    source.at_a_time = 2
    snapshots = tw.Snapshots(tmp_path, every_s=1e9) if keeps else None
    with tw.run(flow_of(source), workers=2, engine="local", snapshots=snapshots) as job:
        job.wait(DEADLINE_S)
        assert sorted(number for one in job.captured("results") for number in one.batch) == list(range(7))
    assert broker.committed == dict.fromkeys(range(7), 1)


# ---------------------------------------------------------------------- errors


class Fails(Given):
    """Raises some errors where it is opened, or behind the first batch."""

    retry = QUICK

    def __init__(self, errors: list[Exception], *, at_first: bool = True, **partitions: Iterable[Any]) -> None:
        super().__init__(**partitions)
        self.errors = errors
        self.at_first = at_first

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        if self.at_first and self.errors:
            raise self.errors.pop()
        for yielded in super().open(partition, position):
            yield yielded
            if self.errors:
                raise self.errors.pop()


@pytest.mark.parametrize("at_first", [False, True])
def test_a_partition_is_opened_again_at_its_position(at_first: bool, caplog: pytest.LogCaptureFixture) -> None:
    """After an error of the other end, each record comes once; a warning says what was wrong."""
    with caplog.at_level(logging.WARNING):
        errors: list[Exception] = [ConnectionError("gone"), ConnectionError("gone")]
        assert epochs_of(Fails(errors, at_first=at_first, a=[[1], [2], [3]])) == {0: [1], 1: [2], 2: [3]}
    assert sum("is opened again" in message for message in caplog.messages) == 2


def test_the_last_attempt_fails_the_job() -> None:
    """The error names the source, the partition and the cause."""
    with raises(tw.JobError) as caught:
        epochs_of(Fails([ConnectionError("gone")] * 9, tides=[[1]]))
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert caught.value.operator == "numbers"
    assert "partition 'tides'" in str(caught.value)


def test_another_error_fails_the_job_at_once() -> None:
    """Trying again would not help."""
    with raises(tw.JobError) as caught:
        epochs_of(Fails([KeyError("no such column")], a=[[1]]))
    assert isinstance(caught.value.__cause__, KeyError)


class Exits(Given):
    """Calls sys.exit, as a library for programs may."""

    def partitions(self) -> list[str]:
        raise SystemExit(1)


def test_an_exit_fails_the_job() -> None:
    """A thread that ends silently would leave the job waiting."""
    with raises(tw.JobError):
        epochs_of(Exits())


def test_listing_is_tried_again() -> None:
    """The broker may be away for a moment."""
    broker = FakeBroker(1)
    broker.send(0, 1, 2)
    broker.end()
    broker.fail(2)
    assert epochs_of(broker.source(batch_size=1)) == {0: [1], 1: [2]}


class Yields(tw.Source[int]):
    """Yields what it was given, as it is."""

    def __init__(self, *yielded: Any, says_epochs: bool = False) -> None:
        self.yielded = yielded
        self.says_epochs = says_epochs

    def partitions(self) -> list[str]:
        return ["a"]

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        yield from self.yielded


@pytest.mark.parametrize(
    "source",
    [
        Yields(7),
        Yields(([1], 1, 2)),
        Yields(([1], None)),
        Yields(tw.Fetched([1], 1, epoch=4)),
        Yields(([1], 1), says_epochs=True),
        Yields(tw.Fetched([1], 1, epoch=4), tw.Fetched([1], 1, epoch=3), says_epochs=True),
        Yields(tw.Fetched([1], 1, epoch=-1), says_epochs=True),
    ],
    ids=["number", "three", "no position", "epoch", "no epoch", "back", "no time"],
)
def test_what_a_partition_must_not_yield(source: Yields) -> None:
    """The error says what it yields instead."""
    with raises(tw.JobError):
        epochs_of(source)


class Unpicklable(Given):
    """Yields a position that no snapshot could have."""

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        yield [1], threading.Lock()


def test_a_position_can_be_pickled() -> None:
    """Also in a job without snapshots, so that the error comes early."""
    with pytest.raises(tw.JobError, match="the position"):
        epochs_of(Unpicklable(a=[]))


class Async(Given):
    """Has a coroutine for a method."""

    async def saved(self, partition: str | int, position: Any) -> None:  # type: ignore[override]
        """Do nothing."""


class Lacks(Given):
    """Takes no position."""

    def open(self, partition: str | int) -> Iterator[Any]:  # type: ignore[override]
        return super().open(partition, None)


class Locked(Given):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_what_is_no_source() -> None:
    """The error comes where the dataflow is described."""
    for source in (Async(), Lacks(), Locked()):
        with raises(tw.GraphError):
            flow_of(source)
    for options in ({"epoch_every_s": 0}, {"epoch_records": 0}, {"epoch_every_s": 1, "epoch_records": 1}):
        with raises(tw.GraphError):
            flow_of(Given(), **options)
    with raises(tw.GraphError):
        flow_of(ManyEpochs(), epoch_every_s=1)
    with raises(tw.GraphError):
        tw.Dataflow("test", tw.progress.ProductDomain(tw.progress.IntegerDomain(), tw.progress.IntegerDomain())).source(
            "numbers", Given()
        )


# ---------------------------------------------------------------------- saved positions


def test_a_position_is_saved_once_a_snapshot_has_it(tmp_path: Path) -> None:
    """And not before, however far it is read."""
    broker = FakeBroker(2)
    snapshots = tw.Snapshots(tmp_path, every_s=1e9)
    flow = flow_of(broker.source(look_every_s=0.01))
    with tw.run(flow, workers=2, engine="local", snapshots=snapshots) as job:
        broker.send(0, "a", "b")
        run_until(job, lambda: job.probe("read").has_completed(0))
        assert broker.committed == {0: 0, 1: 0}
        job.snapshot(DEADLINE_S)
        run_until(job, lambda: broker.committed[0] == 2)
        broker.send(0, "c")
        run_until(job, lambda: job.probe("read").has_completed(1))
        assert broker.committed == {0: 2, 1: 0}
        job.stop()


def test_without_snapshots_it_is_saved_once_its_epoch_is_processed() -> None:
    """Everywhere, so that a crash loses no record that an operator still holds."""
    broker = FakeBroker(1)
    flow, release = tw.Dataflow("test"), threading.Event()

    def build(context: tw.OperatorContext) -> Any:
        held: list[Any] = []

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            held.extend((lent.retain(), batch) for lent, batch in input)
            if not release.is_set():
                context.activator.after(0.005)
                return
            while held:
                token, batch = held.pop()
                with token:
                    output.send(token, batch)

        return schedule

    flow.source("numbers", broker.source(look_every_s=0.01)).probe("read").unary(build, name="hold").capture("results")
    with tw.run(flow, engine="local") as job:
        broker.send(0, "a")
        run_until(job, lambda: job.probe("read").has_completed(0))
        assert broker.committed == {0: 0}
        release.set()
        run_until(job, lambda: broker.committed == {0: 1})
        job.stop()


class Skips(FakeBrokerSource):
    """Leaves out all records, as one that looks for others does."""

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        for fetched in super().open(partition, position):
            yield fetched if isinstance(fetched, tw.Pause) else tw.Fetched([], fetched.position)


def test_a_position_without_records_is_saved_at_once() -> None:
    """It waits for no epoch, which may not end for a long time."""
    broker = FakeBroker(1)
    with tw.run(flow_of(Skips(broker, 100, 0.01, 0.01)), engine="local") as job:
        broker.send(0, "a")
        run_until(job, lambda: broker.committed == {0: 1})
        assert not job.probe("read").has_completed(0)
        job.stop()


@pytest.mark.parametrize("keeps", [False, True])
def test_the_last_position_is_saved_before_the_job_ends(tmp_path: Path, keeps: bool) -> None:
    """A job that is complete leaves nothing to be delivered again."""
    broker = FakeBroker(3)
    for partition in range(3):
        broker.send(partition, *range(partition))
    broker.end()
    snapshots = tw.Snapshots(tmp_path, every_s=1e9) if keeps else None
    with tw.run(flow_of(broker.source()), workers=2, engine="local", snapshots=snapshots) as job:
        job.wait(DEADLINE_S)
    assert broker.committed == {0: 0, 1: 1, 2: 2}


class Deaf(FakeBrokerSource):
    """Does not reach the broker to save."""

    retry = tw.Retry(within_s=60, first_pause_s=0.01, factor=1, on=ConnectionError)
    is_deaf = True

    def saved(self, partition: str | int, position: Any) -> None:
        if self.is_deaf:
            raise ConnectionError
        super().saved(partition, position)


def test_what_a_run_could_not_save_the_next_one_does(tmp_path: Path) -> None:
    """Though nothing new comes: the snapshot from which it goes on has the position."""
    broker, snapshots = FakeBroker(1), tw.Snapshots(tmp_path, every_s=1e9)
    broker.send(0, "a")
    source = Deaf(broker, 100, 0.01, 0.01)
    with tw.run(flow_of(source), engine="local", snapshots=snapshots) as job:
        run_until(job, lambda: job.probe("read").has_completed(0))
        job.stop(snapshot=True)
    assert broker.committed == {0: 0}
    source.is_deaf = False
    with tw.run(flow_of(source), workers=2, engine="local", snapshots=snapshots) as job:
        run_until(job, lambda: broker.committed == {0: 1})
        job.stop()


def test_other_workers_share_the_partitions(tmp_path: Path) -> None:
    """Each reads its part of them, as if the job had begun with them."""
    broker, snapshots = FakeBroker(6), tw.Snapshots(tmp_path, every_s=1e9)
    for workers in (1, 3, 2):
        flow = flow_of(broker.source(look_every_s=0.01))
        with tw.run(flow, workers=workers, engine="local", snapshots=snapshots) as job:
            for partition in range(6):
                broker.send(partition, workers)
            run_until(job, lambda job=job: sum(sent(job).values()) == 6)
            assert set(sent(job).values()) == {6 // workers}
            job.stop(snapshot=True)


def sent(job: tw.types.Job) -> dict[int, int]:
    """Return how many records each worker has read in this run."""
    return {one.worker: one.operators["capture results"].records_in for one in job.statistics().workers}


def test_saving_is_tried_again_and_may_fail_the_job(tmp_path: Path) -> None:
    """An error that does not pass is no reason to read on for ever."""
    broker = FakeBroker(1)
    source = broker.source(look_every_s=1e9, pause_s=1e9)
    source.retry = QUICK
    with raises(tw.JobError) as caught, tw.run(flow_of(source), engine="local") as job:
        broker.send(0, "a")
        run_until(job, lambda: job.probe("read").has_completed(0))
        broker.fail(9)
        job.wait(DEADLINE_S)
    assert isinstance(caught.value.__cause__, ConnectionError)


class Closes(Given):
    """Notes that it was closed."""

    closed: ClassVar[list[str]] = []

    def open(self, partition: str | int, position: Any) -> Iterator[Any]:
        try:
            yield from super().open(partition, position)
            while True:
                yield tw.Pause(1e9)
        finally:
            self.closed.append(str(partition))

    def close(self) -> None:
        self.closed.append("source")


def test_what_is_open_is_closed_with_the_job() -> None:
    """Each iterator, and then the source, on each worker; no thread is left."""
    Closes.closed.clear()
    with tw.run(flow_of(Closes(a=[[1]], b=[[2]])), workers=2, engine="local") as job:
        run_until(job, lambda: len(job.captured("results")) == 2)
        job.stop()
    assert sorted(Closes.closed) == ["a", "b", "source", "source"]
    assert not [one.name for one in threading.enumerate() if one.name.startswith("tidewheel-numbers")]


def test_partitions_that_wait_hold_no_epoch() -> None:
    """A source that reads one partition after the other: an epoch is complete long before the last is opened."""

    class OneByOne(Given):
        at_a_time = 1

    names = [f"p{number}" for number in range(20)]
    source = OneByOne(**{name: [[number]] for number, name in enumerate(names)})
    with tw.run(flow_of(source), engine="local") as job:
        run_until(job, lambda: not job.probe("read").frontier.less_equal(0))
        assert len(job.captured("results")) < 10
        job.wait(DEADLINE_S)
        assert sorted(n for captured in job.captured("results") for n in captured.batch) == list(range(20))
