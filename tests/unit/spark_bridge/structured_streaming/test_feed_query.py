"""A query and the job that it feeds: whichever ends first ends the other. The query is one without Spark."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.waiting import eventually
from tidewheel.runtime.inputs.fed_job import FedJob
from tidewheel.spark_bridge.structured_streaming import feed_query
from tidewheel.spark_bridge.structured_streaming.feed_query import StreamingFeed

DEADLINE_S = 30.0


class FakeQuery:
    """A query whose micro-batches a test delivers one by one, on a thread of the query's as in Spark."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.take: Callable[[Any, int], None] = lambda df, batch_id: None
        self.was_stopped = threading.Event()
        self._calls: list[threading.Thread] = []
        self._ended = threading.Event()
        self._error: Exception | None = None
        self.spark_is_stopped = False
        self.on_look: Callable[[], None] = lambda: None
        self.is_to_tell = threading.Event()
        self.is_to_tell.set()

    # what is used of DataStreamWriter

    def foreachBatch(self, take: Callable[[Any, int], None]) -> "FakeQuery":  # noqa: N802
        self.take = take
        return self

    def start(self) -> "FakeQuery":
        return self

    # what is used of StreamingQuery

    def awaitTermination(self, timeout_s: float) -> bool:  # noqa: N802
        has_ended = self._ended.wait(timeout_s)
        assert self.is_to_tell.wait(DEADLINE_S)
        if has_ended and self._error is not None:
            raise self._error
        return has_ended

    def exception(self) -> Exception | None:
        return self._error

    def stop(self) -> None:
        self.was_stopped.set()
        for call in self._calls:  # as Spark does, which cannot interrupt a callback
            call.join(DEADLINE_S)
            assert not call.is_alive()
        self._ended.set()

    @property
    def _jsq(self) -> Any:
        if self.spark_is_stopped:
            self.on_look()
        context = SimpleNamespace(isStopped=lambda: self.spark_is_stopped)
        return SimpleNamespace(sparkSession=lambda: SimpleNamespace(sparkContext=lambda: context))

    # what tests do

    def end(self, error: Exception | None = None) -> None:
        self._error = error
        self._ended.set()

    def begin(self, batch_id: int, *numbers: int) -> threading.Thread:
        """Deliver a micro-batch; the query fails if that does."""

        def call() -> None:
            try:
                self.take(pa.table({"n": pa.array(numbers, pa.int64())}), batch_id)
            except Exception as error:  # noqa: BLE001 - as PySpark does
                self.end(RuntimeError(f"Java says: {error}"))

        thread = threading.Thread(target=call, daemon=True)
        self._calls.append(thread)
        thread.start()
        return thread

    def run(self, batch_id: int, *numbers: int) -> None:
        thread = self.begin(batch_id, *numbers)
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


@pytest.fixture
def job() -> Iterator[tw.types.Job]:
    """A job that keeps its input; it may fail."""
    flow = tw.Dataflow("fed")
    flow.input("rows").capture("rows").probe("done")
    job = tw.run(flow, engine="local", config=tw.RuntimeConfig(bytes_in_flight=2000))
    yield job
    job.stop()


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> FakeQuery:
    return FakeQuery(monkeypatch)


def begun(
    job: tw.types.Job, query: FakeQuery, wait_until: Any = None, rows_of: Any = lambda df, name: df
) -> StreamingFeed:
    writer: Any = query
    query.patch.setattr(feed_query, "rows_of", rows_of)
    progress = None if wait_until is None else SimpleNamespace(wait_until=wait_until)
    return StreamingFeed(job.input("rows"), writer, "the/checkpoint", progress)


def never(time: int, timeout_s: float) -> None:
    """Let no epoch pass."""
    raise TimeoutError


def captured(job: tw.types.Job) -> list[tuple[int, list[int]]]:
    return [(one.time, one.batch["n"].to_pylist()) for one in job.captured("rows")]


def test_a_query_that_ends_closes_the_input(job: tw.types.Job, query: FakeQuery) -> None:
    """All there was has been sent, so the job can come to its end."""
    feeding = begun(job, query)
    query.run(0, 1, 2)
    query.run(2, 3)
    query.end()
    feeding.wait(DEADLINE_S)
    job.wait(DEADLINE_S)
    assert captured(job) == [(0, [1, 2]), (2, [3])]


def test_waiting_has_a_deadline(job: tw.types.Job, query: FakeQuery) -> None:
    """The error says where the query is."""
    feeding = begun(job, query)
    query.run(4, 1)
    with raises(TimeoutError):
        feeding.wait(0)
    assert not job.input("rows").is_closed


def test_a_query_is_stopped(job: tw.types.Job, query: FakeQuery) -> None:
    """The input is closed; once is enough, and the block does so at its end."""
    with begun(job, query) as feeding:
        query.run(0, 1)
        feeding.stop()
        assert query.was_stopped.is_set()
        assert job.input("rows").is_closed
    job.wait(DEADLINE_S)
    assert captured(job) == [(0, [1])]


@contextmanager
def stopping_while_it_computes(job: tw.types.Job, query: FakeQuery, timeout_s: float) -> Iterator[None]:
    """Stop a query from another thread while it computes its first micro-batch, which goes on after the block."""
    computing, may_go_on = threading.Event(), threading.Event()

    def slow(df: Any, name: str) -> Any:
        computing.set()
        assert may_go_on.wait(DEADLINE_S)
        return df

    feeding = begun(job, query, rows_of=slow)
    call = query.begin(0, 1)
    assert computing.wait(DEADLINE_S)
    stopping = threading.Thread(target=feeding.stop, args=[timeout_s])
    stopping.start()
    yield
    may_go_on.set()
    stopping.join(DEADLINE_S)
    call.join(DEADLINE_S)


def test_what_comes_while_the_query_is_stopped_is_left_to_the_next_run(job: tw.types.Job, query: FakeQuery) -> None:
    """A micro-batch that is being computed then is not sent, and Spark does not commit it."""
    with stopping_while_it_computes(job, query, 0):
        assert query.was_stopped.wait(DEADLINE_S)
    job.wait(DEADLINE_S)
    assert captured(job) == []
    assert isinstance(query._error, RuntimeError), "which is how Spark knows that it is not to commit"


def test_stopping_waits_for_the_micro_batch_that_is_under_way(job: tw.types.Job, query: FakeQuery) -> None:
    """It is sent whole, and Spark may commit it, so that it does not come again."""
    with stopping_while_it_computes(job, query, DEADLINE_S):
        assert not query.was_stopped.wait(0.05)
    job.wait(DEADLINE_S)
    assert captured(job) == [(0, [1])]
    assert query._error is None


def test_a_query_that_fails_fails_the_job(job: tw.types.Job, query: FakeQuery) -> None:
    """Both say in which micro-batch, what it was, that nothing of it was sent, and how to go on."""

    def fails(df: Any, name: str) -> Any:
        raise ValueError("no number: 'x'")

    feeding = begun(job, query, rows_of=fails)
    query.run(7, 1)
    for wait in (feeding.wait, job.wait, feeding.stop):
        with pytest.raises(tw.JobError) as raised:
            wait()
        assert "input 'rows' cannot be fed any more" in str(raised.value)
        assert "failed in micro-batch 7: ValueError: no number: 'x'. Nothing of it was sent" in str(raised.value)
        assert "the same checkpoint (the/checkpoint)" in str(raised.value)
        assert isinstance(raised.value.__cause__, ValueError)


def test_a_query_may_fail_between_two_micro_batches(job: tw.types.Job, query: FakeQuery) -> None:
    """Then it is Spark's reason that both give."""
    feeding = begun(job, query)
    query.run(0, 1)
    query.end(RuntimeError("the files are gone"))
    for wait in (feeding.wait, job.wait):
        with raises(tw.JobError):
            wait()


@pytest.mark.parametrize("where", ["in a micro-batch", "between two"])
def test_a_query_that_fails_while_it_is_stopped_fails_the_job(job: tw.types.Job, query: FakeQuery, where: str) -> None:
    """Though its end is not told before it is stopped: rows are missing that nobody has left to the next run."""

    def fails(df: Any, name: str) -> Any:
        raise ValueError("no number: 'x'")

    feeding = begun(job, query, rows_of=fails)
    query.is_to_tell.clear()
    if where == "in a micro-batch":
        query.run(0, 1)
    else:
        query.end(ValueError("no number: 'x'"))
    errors: list[BaseException] = []

    def stop() -> None:
        with pytest.raises(tw.JobError) as raised:
            feeding.stop()
        errors.append(raised.value)

    stopping = threading.Thread(target=stop)
    stopping.start()
    assert query.was_stopped.wait(DEADLINE_S)
    query.is_to_tell.set()
    stopping.join(DEADLINE_S)
    assert "ValueError: no number: 'x'" in str(errors[0])
    with raises(tw.JobError):
        job.wait(DEADLINE_S)


def test_a_spark_that_is_stopped_fails_the_job(job: tw.types.Job, query: FakeQuery) -> None:
    """An idle query takes no notice of that, and what it had to send is missing."""
    feeding = begun(job, query)
    query.run(0, 1)
    query.spark_is_stopped = True
    for wait in (feeding.wait, job.wait, feeding.stop):
        with raises(tw.JobError):
            wait(DEADLINE_S)
    assert query.was_stopped.wait(DEADLINE_S)


def test_a_spark_that_is_stopped_in_a_micro_batch_fails_the_job(job: tw.types.Job, query: FakeQuery) -> None:
    """What Spark says of the micro-batch is only what came of that."""

    def cancelled(df: Any, name: str) -> Any:
        query.spark_is_stopped = True
        raise RuntimeError("job 7 cancelled")

    feeding = begun(job, query, rows_of=cancelled)
    query.run(3, 1)
    for wait in (feeding.wait, job.wait):
        with raises(tw.JobError):
            wait(DEADLINE_S)


def test_a_spark_that_is_stopped_between_micro_batches_fails_the_job(job: tw.types.Job, query: FakeQuery) -> None:
    """Spark may fail the query at once when it plans the next one, and says then only what came of that."""
    feeding = begun(job, query)
    query.run(0, 1)
    query.spark_is_stopped = True
    query.end(RuntimeError("job 8 cancelled"))
    for wait in (feeding.wait, job.wait):
        with raises(tw.JobError):
            wait(DEADLINE_S)


def test_a_spark_may_be_stopped_when_its_query_has_ended(job: tw.types.Job, query: FakeQuery) -> None:
    """Whatever is noticed first, all there was has been sent."""
    query.on_look = query.end
    feeding = begun(job, query)
    query.run(0, 1)
    query.spark_is_stopped = True
    feeding.wait(DEADLINE_S)
    job.wait(DEADLINE_S)
    assert captured(job) == [(0, [1])]


def test_a_job_that_fails_stops_the_query(job: tw.types.Job, query: FakeQuery) -> None:
    """Also where no micro-batch comes; and whoever waits for the query gets the job's error."""
    feeding = begun(job, query)
    FedJob(job.input("rows")).fail("somebody else has failed")
    assert query.was_stopped.wait(DEADLINE_S)
    with raises(tw.JobError):
        feeding.wait(DEADLINE_S)


def test_a_job_that_is_left_stops_the_query(job: tw.types.Job, query: FakeQuery) -> None:
    """That is no failure, but there is no end of the query to wait for."""
    with begun(job, query) as feeding:
        job.stop()
        assert query.was_stopped.wait(DEADLINE_S)
        with raises(tw.JobError):
            feeding.wait(DEADLINE_S)


def test_a_micro_batch_that_waits_for_the_dataflow_ends_with_it(job: tw.types.Job, query: FakeQuery) -> None:
    """Nothing hangs: the query gets the job's error, and is stopped."""
    feeding = begun(job, query, wait_until=never)
    call = query.begin(0, 1)
    assert eventually(lambda: job.input("rows").time == 1)
    FedJob(job.input("rows")).fail("an operator has failed")
    call.join(DEADLINE_S)
    assert not call.is_alive()
    with raises(tw.JobError):
        feeding.wait(DEADLINE_S)


def test_spark_commits_when_the_dataflow_is_done(job: tw.types.Job, query: FakeQuery) -> None:
    """Until then the micro-batch is not over, though it was sent."""
    is_done = threading.Event()

    def wait_until(time: int, timeout_s: float) -> None:
        if not is_done.wait(0.01):
            raise TimeoutError

    feeding = begun(job, query, wait_until)
    call = query.begin(0, 1)
    assert eventually(lambda: job.input("rows").time == 1)
    call.join(0.05)
    assert call.is_alive()
    is_done.set()
    call.join(DEADLINE_S)
    query.end()
    feeding.wait(DEADLINE_S)


def test_a_query_is_stopped_while_the_dataflow_is_not_done(job: tw.types.Job, query: FakeQuery) -> None:
    """What was sent stays sent, Spark does not commit it, and the input is closed."""
    feeding = begun(job, query, wait_until=never)
    query.begin(0, 1)
    assert eventually(lambda: job.input("rows").time == 1)
    feeding.stop(timeout_s=0)
    job.wait(DEADLINE_S)
    assert captured(job) == [(0, [1])]
    assert isinstance(query._error, RuntimeError)


def test_a_block_that_is_left_by_an_error_fails_the_job(job: tw.types.Job, query: FakeQuery) -> None:
    """What it had to send is missing, so its times must not complete."""
    with pytest.raises(KeyError), begun(job, query):
        raise KeyError("customer")
    assert query.was_stopped.is_set()
    with raises(tw.JobError):
        job.wait(DEADLINE_S)


def test_a_block_whose_input_was_closed_by_hand_is_left_by_an_error(job: tw.types.Job, query: FakeQuery) -> None:
    """The job misses nothing, and the idle query, which it does not stop, is stopped all the same."""
    leaving = threading.Thread(target=leave_by_an_error, args=[job, query], daemon=True)
    leaving.start()
    leaving.join(DEADLINE_S)
    assert not leaving.is_alive()
    assert query.was_stopped.is_set()
    job.wait(DEADLINE_S)
    assert captured(job) == [(0, [1])]


def leave_by_an_error(job: tw.types.Job, query: FakeQuery) -> None:
    feeding = begun(job, query)
    query.run(0, 1)
    job.input("rows").close()
    with pytest.raises(KeyError), feeding:
        raise KeyError("customer")
