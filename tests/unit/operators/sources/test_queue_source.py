"""Sources that read from queues."""

import multiprocessing
import pickle
import queue
import threading
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S
from tests.kit.operators.sources import flow_of
from tests.waiting import eventually


def records_of(job: tw.types.Job) -> list[Any]:
    return [record for result in job.captured("results") for record in result.batch]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_put_in_before_comes_out(workers: int) -> None:
    """In order, as an epoch of what waited; worker 0 reads, the others have nothing to do."""
    source: tw.QueueSource[int] = tw.QueueSource(batch_size=2)
    for number in range(5):
        source.put(number)
    source.close()
    with tw.run(flow_of(source), workers=workers, engine="local") as job:
        job.wait(DEADLINE_S)
        results = [(result.time, result.batch) for result in job.captured("results")]
    assert results == [(0, [0, 1]), (1, [2, 3]), (2, [4])]


def test_who_puts_something_in_wakes_the_job_up() -> None:
    """It waits for the queue as long as that is open, and goes on at once: each epoch is complete without the next."""
    source: tw.QueueSource[int] = tw.QueueSource()
    may_go_on = threading.Semaphore(0)

    def produce() -> None:
        for number in range(10):
            source.put(number)
            assert may_go_on.acquire(timeout=DEADLINE_S)
        source.close()

    producer = threading.Thread(target=produce)
    with tw.run(flow_of(source), engine="local") as job:
        producer.start()
        for epoch in range(10):
            job.probe("read").wait_until(epoch + 1, DEADLINE_S)
            assert records_of(job) == list(range(epoch + 1))
            may_go_on.release()
        job.wait(DEADLINE_S)
        producer.join(DEADLINE_S)


def test_a_queue_that_nobody_fills_is_waited_for() -> None:
    """For as long as one likes; it is no mistake, since a thread may fill it yet."""
    with tw.run(flow_of(tw.QueueSource()), engine="local") as job:
        with raises(TimeoutError):
            job.wait(timeout_s=0.05)
        job.stop()


@pytest.mark.parametrize("make", [lambda: None, queue.SimpleQueue], ids=["own", "shared"])
def test_the_end_of_a_queue_is_the_end_of_the_source(make: Any) -> None:
    """What would come behind it is refused, and not lost; it may be said twice."""
    source: tw.QueueSource[int] = tw.QueueSource(make(), poll_s=0.001)
    source.put(1)
    source.close()
    source.close()
    with raises(tw.JobError):
        source.put(2)
    with tw.run(flow_of(source), engine="local") as job:
        job.wait(DEADLINE_S)
        assert records_of(job) == [1]


def test_a_queue_that_was_read_to_its_end_has_ended() -> None:
    """For the next job, too, which does not wait for what cannot come."""
    source: tw.QueueSource[int] = tw.QueueSource()
    source.put(1)
    source.close()
    for expected in ([1], []):
        with tw.run(flow_of(source), engine="local") as job:
            job.wait(DEADLINE_S)
            assert records_of(job) == expected


def producing(source: tw.QueueSource[int]) -> tuple[threading.Thread, list[tw.JobError]]:
    """Return a thread that has begun to fill a queue, and where its error comes."""
    errors: list[tw.JobError] = []

    def produce() -> None:
        try:
            for number in range(1000):
                source.put(number)
        except tw.JobError as error:
            errors.append(error)

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    return producer, errors


@pytest.mark.parametrize("fails", [True, False])
def test_who_fills_a_queue_does_not_wait_for_a_job_that_has_ended(fails: bool) -> None:
    """Whether it has failed or was stopped: who waits for room is woken, and who comes later gets the error at once."""
    source: tw.QueueSource[int] = tw.QueueSource(capacity=2, batch_size=1)
    flow = tw.Dataflow("test")
    flow.source("numbers", source).map(lambda number: number // (0 if fails else 1)).probe("read")
    job = tw.run(flow, engine="local")
    producer, errors = producing(source)
    assert eventually(lambda: len(source._queue._items) == 2)  # type: ignore[attr-defined]
    if fails:
        with raises(tw.JobError):
            job.wait(DEADLINE_S)
    else:
        job.stop()
    producer.join(DEADLINE_S)
    assert not producer.is_alive()
    with raises(tw.JobError) as caught:
        source.put(0)
    assert [str(error) for error in errors] == [str(caught.value)]
    source.close()


def test_who_waits_for_room_is_told_of_the_end() -> None:
    """A record is not put behind the end by one who has waited since before that."""
    source: tw.QueueSource[int] = tw.QueueSource(capacity=1)
    producer, errors = producing(source)
    assert eventually(lambda: len(source._queue._items) == 1)  # type: ignore[attr-defined]
    source.close()
    producer.join(DEADLINE_S)
    assert "this QueueSource was closed" in str(errors)
    with tw.run(flow_of(source), engine="local") as job:
        job.wait(DEADLINE_S)
        assert records_of(job) == [0]


def test_a_full_queue_says_so() -> None:
    """Who cannot wait gets an error, and nothing was put in; there is room again when the job has run."""
    source: tw.QueueSource[int] = tw.QueueSource(capacity=2, batch_size=1)
    source.put(1)
    source.put(2)
    with raises(tw.errors.WouldBlock):
        source.put(3, timeout_s=0)
    with tw.run(flow_of(source), engine="local") as job:
        job.probe("read").wait_until(1, DEADLINE_S)
        source.put(4, timeout_s=0)
        job.probe("read").wait_until(2, DEADLINE_S)
        source.close(timeout_s=0)
        job.wait(DEADLINE_S)
        assert records_of(job) == [1, 2, 4]


def test_a_dataflow_that_is_held_up_holds_the_queue_up() -> None:
    """Back-pressure reaches who fills it: the source takes nothing out while too much is in flight."""
    source: tw.QueueSource[list[int]] = tw.QueueSource(batch_size=1)
    for number in range(1000):
        source.put([number] * 100)
    source.close()
    kept: list[Any] = []

    def build(context: tw.OperatorContext) -> Any:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            context.expect_activation()
            if kept:
                for _ in input:
                    pass

        return schedule

    flow = tw.Dataflow("test")
    flow.source("numbers", source).flat_map(lambda numbers: numbers).unary(build, name="stuck")
    with tw.run(flow, engine="local", config=tw.RuntimeConfig(bytes_in_flight=64 << 10)) as job:
        while job.run_round():  # type: ignore[attr-defined]
            pass
        assert 900 < len(source._queue._items) < 1000  # type: ignore[attr-defined]
        job.stop()


def test_a_queue_that_others_fill_is_polled() -> None:
    """Any object with put and get_nowait is a queue; the source need not be told."""
    shared: queue.SimpleQueue[Any] = queue.SimpleQueue()
    source: tw.QueueSource[int] = tw.QueueSource(shared, poll_s=0.001)
    with tw.run(flow_of(source), engine="local") as job:
        for number in range(3):
            shared.put(number)
            job.probe("read").wait_until(number + 1, DEADLINE_S)
        source.close()
        job.wait(DEADLINE_S)
        assert records_of(job) == [0, 1, 2]


def test_a_queue_of_processes_ends_from_anywhere() -> None:
    """The end goes through the queue."""
    shared = multiprocessing.get_context("spawn").Queue()
    source: tw.QueueSource[int] = tw.QueueSource(shared, poll_s=0.001)
    for number in range(3):
        source.put(number)
    source.close()
    with tw.run(flow_of(source), engine="local") as job:
        job.wait(DEADLINE_S)
        assert records_of(job) == [0, 1, 2]
    shared.close()
    shared.join_thread()


class Shared:
    """A queue that can be pickled, as one in an actor can."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self.items.append(item)

    def get_nowait(self) -> Any:
        if not self.items:
            raise queue.Empty
        return self.items.pop(0)


def test_the_end_needs_room_in_a_queue_that_is_shared() -> None:
    """It waits as a record does; if there is no room in time, the source is not closed."""
    shared: queue.Queue[Any] = queue.Queue(1)
    source: tw.QueueSource[int] = tw.QueueSource(shared)
    source.put(1)
    with pytest.raises(tw.errors.WouldBlock):
        source.close(timeout_s=0.01)
    shared.get()
    source.put(2)
    shared.get()
    source.close(timeout_s=0)
    assert not shared.empty()


def test_only_a_queue_that_processes_share_goes_to_workers() -> None:
    """The error says what to use instead."""
    source: tw.QueueSource[int] = tw.QueueSource(Shared(), batch_size=7, poll_s=0.001)
    source.put(1)
    source.close()
    copy = pickle.loads(pickle.dumps(source))
    with tw.run(flow_of(copy), engine="local") as job:
        job.wait(DEADLINE_S)
        assert records_of(job) == [1]
    with raises(TypeError):
        pickle.dumps(tw.QueueSource())


def test_a_source_may_be_used_again() -> None:
    """By the next job, as in a notebook; who fills the queue wakes the one that runs, and no other."""
    source: tw.QueueSource[int] = tw.QueueSource()
    for number in range(3):
        with tw.run(flow_of(source), engine="local") as job:
            source.put(number)
            job.probe("read").wait_until(1, DEADLINE_S)
            assert records_of(job) == [number]
            job.stop()
        assert source._queue._readers == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "QueueSource: capacity is a whole number, 1 or more, not 0"),
        ({"batch_size": 0}, "QueueSource: batch_size is a whole number, 1 or more, not 0"),
        ({"poll_s": 0}, "QueueSource: poll_s is a number of seconds above 0, not 0"),
        ({"queue": [1]}, r"QueueSource: a queue has put\(\) and get_nowait\(\), unlike \[1\]"),
    ],
)
def test_wrong_options_are_refused(options: Any, message: str) -> None:
    """When the source is made."""
    with pytest.raises(tw.GraphError, match=message):
        tw.QueueSource(**options)


@pytest.mark.parametrize(("make", "expected"), [(lambda: None, [0, 1, 2]), (queue.SimpleQueue, [0, 2])])
def test_what_was_read_since_a_snapshot(tmp_path: Path, make: Any, expected: list[int]) -> None:
    """It comes again from a queue of the source's own, and is missing from any other, which has each record once."""
    source: tw.QueueSource[int] = tw.QueueSource(make(), poll_s=0.001)
    snapshots = tw.Snapshots(tmp_path, every_s=1000)
    with tw.run(flow_of(source), engine="local", snapshots=snapshots) as job:
        source.put(0)
        job.probe("read").wait_until(1, DEADLINE_S)
        job.snapshot()
        source.put(1)
        job.probe("read").wait_until(2, DEADLINE_S)
        job.stop()
    with tw.run(flow_of(source), engine="local", snapshots=snapshots) as job:
        source.put(2)
        source.close()
        job.wait(DEADLINE_S)
        assert records_of(job) == expected


def test_a_job_that_goes_on_says_that_records_are_missing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those that were read since the snapshot do not come again."""
    source: tw.QueueSource[int] = tw.QueueSource(queue.SimpleQueue(), poll_s=0.001)
    for _ in range(2):
        assert "records that it had read since are missing" not in caplog.text
        with tw.run(flow_of(source), engine="local", snapshots=tw.Snapshots(tmp_path)) as job:
            source.put(1)
            job.probe("read").wait_until(1, DEADLINE_S)
            job.stop(snapshot=True)
    assert "a QueueSource goes on from a snapshot: the records that it had read since are missing" in caplog.text
