"""Sources of records, how they are cut into batches and epochs and shared among workers; and sources that tick."""

import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S, KINDS, Kind, operator_settings
from tests.kit.operators.sources import bag, bags_of, flow_of, read


@operator_settings()
@given(
    st.lists(st.integers(-9, 30), max_size=20),
    st.sampled_from(KINDS),
    st.integers(1, 6),
    st.none() | st.integers(1, 3),
    st.integers(1, 3),
)
def test_epochs_do_not_depend_on_workers(
    numbers: list[int], kind: Kind, batch_size: int, epoch_every: int | None, workers: int
) -> None:
    """Record ``i`` is in the epoch of its batch, however many workers share the batches."""
    expected: dict[int, Counter[int]] = {}
    for index, number in enumerate(numbers):
        epoch = 0 if epoch_every is None else index // batch_size // epoch_every
        expected.setdefault(epoch, Counter())[number] += 1
    source = tw.RecordSource(kind.make(numbers), batch_size=batch_size, epoch_every=epoch_every)
    results = read(source, workers)
    assert bags_of(source, workers) == expected
    assert all(type(result.batch) is type(kind.make([1])) and len(result.batch) <= batch_size for result in results)


@pytest.mark.parametrize("records", [range(5), (0, 1, 2, 3, 4)])
def test_sequences_become_lists(records: Any) -> None:
    """A batch of a range or a tuple is a list."""
    results = read(tw.RecordSource(records, batch_size=2))
    assert [result.batch for result in results] == [[0, 1], [2, 3], [4]]


def test_any_iterable_will_do() -> None:
    """One without length is read by worker 0 alone, once, and no further than it is sent."""
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(7):
            taken.append(number)
            yield number

    flow = tw.Dataflow("test")
    flow.source("numbers", tw.RecordSource(numbers(), batch_size=2, epoch_every=2)).capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        assert taken == []
        job.run_round()  # type: ignore[attr-defined]
        assert taken == [0, 1]
        job.wait()
        assert [(result.time, result.batch) for result in job.captured("results")] == [
            (0, [0, 1]),
            (0, [2, 3]),
            (1, [4, 5]),
            (1, [6]),
        ]


@pytest.mark.parametrize("records", [deque([0, 1, 2]), {0: "a", 1: "b", 2: "c"}, {0, 1, 2}])
def test_an_iterable_may_be_read_again(records: Any) -> None:
    """By each job anew, from its beginning; one that has a length need not be one that can be cut."""
    source = tw.RecordSource(records, batch_size=2)
    for workers in (1, 2):
        assert [result.batch for result in read(source, workers)] == [[0, 1], [2]]


def test_an_iterator_is_read_once() -> None:
    """A second job would find nothing there, and so would a second stream; it is told what to do."""
    source = tw.RecordSource(number for number in range(3))
    assert bags_of(source, 2) == {0: bag(0, 1, 2)}
    message = "RuntimeError: RecordSource: .* was read before, .* Give a list, or a function"
    with pytest.raises(tw.JobError, match=message):
        read(source)
    flow = tw.Dataflow("test")
    shared = tw.RecordSource(iter([1, 2, 3]))
    flow.source("first", shared)
    flow.source("second", shared)
    with pytest.raises(tw.JobError, match=f"operator '(first|second)' .*{message}"):
        tw.run(flow, engine="local").wait()


@pytest.mark.parametrize(
    "made", [pa.table({"n": [1, 2, 3]}), pa.record_batch({"n": [1, 2, 3]}), np.arange(3), [1, 2, 3]]
)
def test_what_a_function_returns_is_cut_as_what_is_given(made: Any) -> None:
    """Rows of a table are records wherever it comes from, and stay Arrow."""
    results = read(tw.RecordSource(lambda worker, workers: made, batch_size=2))
    assert [len(result.batch) for result in results] == [2, 1]
    assert all(type(result.batch) is type(made) for result in results)
    assert bags_of(tw.RecordSource(lambda worker, workers: made)) == bags_of(tw.RecordSource(made))


def test_a_function_gives_each_worker_its_records() -> None:
    """It is told who asks; batches and epochs are counted on each worker."""

    def numbers(worker: int, workers: int) -> Iterator[tuple[int, int]]:
        for number in range(worker, 6, workers):
            yield worker, number

    source = tw.RecordSource(numbers, batch_size=1, epoch_every=1)
    assert bags_of(source, 2) == {
        0: bag((0, 0), (1, 1)),
        1: bag((0, 2), (1, 3)),
        2: bag((0, 4), (1, 5)),
    }


def test_arrow_and_numpy_are_cut_without_copies() -> None:
    """Batches share the memory of what was given."""
    array = np.arange(10)
    assert all(np.shares_memory(result.batch, array) for result in read(tw.RecordSource(array, batch_size=3)))
    table = pa.table({"n": range(10)})
    results = read(tw.RecordSource(table, batch_size=3))
    assert pa.concat_tables(result.batch for result in results) == table
    first = table.column("n").chunk(0).buffers()[1].address
    assert {result.batch.column("n").chunk(0).buffers()[1].address for result in results} == {first}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"records": 3}, "RecordSource: records are iterable, or come from a function, unlike 3"),
        (
            {"records": pd.DataFrame({"n": [1]})},
            r"RecordSource: the rows of a DataFrame .* give pyarrow\.Table\.from_pandas\(frame\)",
        ),
        ({"records": pa.array([1])}, "RecordSource: a Int64Array of Arrow is a column, and not records: give"),
        ({"records": pa.chunked_array([[1]])}, r"RecordSource: a ChunkedArray of Arrow .* or column\.to_pylist\(\)"),
        ({"records": [1], "batch_size": 0}, "RecordSource: batch_size is a whole number, 1 or more, not 0"),
        ({"records": [1], "epoch_every": 0.5}, r"RecordSource: epoch_every is a whole number, 1 or more, not 0\.5"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: Any, message: str) -> None:
    """When the source is made."""
    with pytest.raises(tw.GraphError, match=message):
        tw.RecordSource(**arguments)


@pytest.mark.parametrize("made", [3, pd.DataFrame({"n": [1]}), pa.array([1])])
def test_what_a_function_returns_is_looked_at(made: Any) -> None:
    """It is refused as if it had been given, when the source is opened."""
    with raises(tw.JobError):
        read(tw.RecordSource(lambda worker, workers: made))


@pytest.mark.parametrize("workers", [1, 2])
def test_each_tick_is_an_epoch(workers: int) -> None:
    """There is one of each number, whatever the number of workers."""
    results = read(tw.TickSource(0.001, count=4), workers)
    assert [(result.time, result.batch) for result in results] == [(n, [n]) for n in range(4)]


def test_ticks_come_when_it_is_time() -> None:
    """The first at once, and none early; waiting for one waits for the clock."""
    with tw.run(flow_of(tw.TickSource(0.05, count=3)), engine="local") as job:
        began = time.monotonic()
        for tick in range(3):
            job.probe("read").wait_until(tick + 1, DEADLINE_S)
            assert time.monotonic() - began >= tick * 0.05
            assert [result.batch for result in job.captured("results")] == [[n] for n in range(tick + 1)]
        job.wait(DEADLINE_S)


def test_an_epoch_is_complete_once_its_tick_was_sent() -> None:
    """And not when the next one comes, which here is in an hour."""
    with tw.run(flow_of(tw.TickSource(3600)), engine="local") as job:
        job.probe("read").wait_until(1, DEADLINE_S)
        with pytest.raises(TimeoutError):
            job.probe("read").wait_until(2, 0.05)
        job.stop()


def test_no_tick_is_left_out() -> None:
    """Those that are late, since the job was not run, come one after the other."""
    with tw.run(flow_of(tw.TickSource(1e-9, count=100)), engine="local") as job:
        job.wait(DEADLINE_S)
        assert [result.time for result in job.captured("results")] == list(range(100))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "TickSource: every_s is a number of seconds above 0, not 0"),
        (("1",), "TickSource: every_s is a number of seconds above 0, not '1'"),
        ((float("nan"),), "TickSource: every_s is a number of seconds above 0, not nan"),
    ],
)
def test_wrong_times_are_refused(arguments: Any, message: str) -> None:
    """When the source is made."""
    with pytest.raises(tw.GraphError, match=message):
        tw.TickSource(*arguments)
    with raises(tw.GraphError):
        tw.TickSource(1, count=0)


def test_ticks_go_on_without_waiting_for_those_before() -> None:
    """A source of ticks that has sent many does not wait for their time again, but for the next one."""
    ticks = tw.TickSource(3600.0).open(0, 2000)
    assert next(ticks) == tw.Fetched([1000], 2001, 1000)
    assert next(ticks) == tw.Fetched([], 2002, 1001)
    pause: Any = next(ticks)
    assert isinstance(pause, tw.Pause)
    assert 0 < pause.seconds <= 3600
