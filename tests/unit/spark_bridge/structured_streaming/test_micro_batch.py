"""Micro-batches as epochs: what is sent, and when, whatever Spark replays or skips."""

import random
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.seeds import seed_of
from tidewheel.spark_bridge.structured_streaming import micro_batch
from tidewheel.spark_bridge.structured_streaming.micro_batch import ROWS_PER_SLICE, MissingMicroBatches

SEED = seed_of("TIDEWHEEL_EPOCHS_SEED")


class ListInput:
    """An input of two workers that keeps what it gets; it has gone past ``time`` and cannot go back."""

    name = "rows"

    def __init__(self, time: int = 0, workers: int = 2) -> None:
        self.time = time
        self.workers = workers
        self.sent: list[tuple[int, int, list[int]]] = []

    def send(self, batch: pa.Table, *, worker: int) -> None:
        self.sent.append((self.time, worker, batch["n"].to_pylist()))

    def advance_to(self, time: int) -> None:
        assert time >= self.time
        self.time = time

    @property
    def position(self) -> tw.types.InputPosition:
        sent = [rows for time, _, rows in self.sent if time == self.time]
        return tw.types.InputPosition(self.time, len(self.sent), sum(map(len, sent)), batches_at_time=len(sent))

    @property
    def rows(self) -> list[tuple[int, int]]:
        return [(time, row) for time, _, rows in self.sent for row in rows]


def deliver(batch_id: int, rows: Callable[[], pa.Table], input: Any) -> bool:
    """Deliver to an input that stands in for a handle."""
    return micro_batch.deliver(batch_id, rows, input)


def check(input: Any, uncommitted: int, *, keeps_snapshots: bool) -> None:
    """Check an input that stands in for a handle."""
    job: Any = SimpleNamespace(keeps_snapshots=keeps_snapshots)
    micro_batch.check_has_committed(input, job, uncommitted, "the/checkpoint")


def rows(*numbers: int) -> Callable[[], pa.Table]:
    return lambda: pa.table({"n": pa.array(numbers, pa.int64())})


def never() -> pa.Table:
    pytest.fail("a micro-batch that was delivered before is computed again")


def test_the_id_is_the_time() -> None:
    """Rows are sent at the time of the id, which is complete then."""
    input = ListInput()
    assert deliver(0, rows(1, 2), input)
    assert deliver(1, rows(3), input)
    assert input.rows == [(0, 1), (0, 2), (1, 3)]
    assert input.time == 2


def test_a_replay_is_dropped() -> None:
    """Spark does not even have to compute it."""
    input = ListInput()
    deliver(0, rows(1), input)
    deliver(1, rows(2), input)
    assert not deliver(1, never, input)
    assert not deliver(0, never, input)
    assert (input.rows, input.time) == ([(0, 1), (1, 2)], 2)


def test_a_job_that_goes_on_in_the_middle_of_a_micro_batch_lacks_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot may fall between two slices: those that it has are not sent again."""
    monkeypatch.setattr(micro_batch, "ROWS_PER_SLICE", 2)
    whole, resumed = ListInput(), ListInput(time=3)
    deliver(3, rows(1, 2, 3, 4, 5), whole)
    resumed.sent = whole.sent[:1]
    deliver(3, rows(1, 2, 3, 4, 5), resumed)
    assert (resumed.sent, resumed.time) == (whole.sent, 4)


def test_skipped_ids_are_passed() -> None:
    """A new job that begins at id 17, and a query that leaves ids out, make nobody wait for those."""
    input = ListInput()
    deliver(17, rows(1), input)
    deliver(20, rows(2), input)
    assert (input.rows, input.time) == ([(17, 1), (20, 2)], 21)


def test_a_micro_batch_without_rows_completes_its_time() -> None:
    """Nothing is sent, and nobody waits."""
    input = ListInput()
    assert deliver(0, rows(), input)
    assert (input.sent, input.time) == ([], 1)


@pytest.mark.parametrize(("time", "uncommitted", "misses"), [(0, 0, 0), (5, 4, 0), (5, 5, 0), (5, 6, 1), (0, 9, 1)])
def test_a_job_with_snapshots_misses_what_spark_has_committed(time: int, uncommitted: int, misses: int) -> None:
    """Spark does not deliver it again. A job without snapshots begins where Spark is."""
    check(ListInput(time), uncommitted, keeps_snapshots=False)
    with raises(MissingMicroBatches) if misses else nullcontext():
        check(ListInput(time), uncommitted, keeps_snapshots=True)


def test_what_cannot_be_computed_leaves_nothing_behind() -> None:
    """The same id may come again, from a query that was started again, and has its place still."""
    input = ListInput()

    def fails() -> pa.Table:
        raise ValueError("Spark has failed midway")

    with pytest.raises(ValueError, match="midway"):
        deliver(3, fails, input)
    assert (input.sent, input.time) == ([], 0)
    assert deliver(3, rows(1), input)


def test_a_large_micro_batch_is_shared_by_the_workers() -> None:
    """Slices go round, beginning with another worker for each id, and in the order of the rows."""
    input, numbers = ListInput(), range(2 * ROWS_PER_SLICE + 5)
    deliver(1, rows(*numbers), input)
    assert [(worker, len(sent)) for _, worker, sent in input.sent] == [
        (1, ROWS_PER_SLICE),
        (0, ROWS_PER_SLICE),
        (1, 5),
    ]
    assert [row for _, row in input.rows] == list(numbers)


@pytest.mark.parametrize("run", range(20))
def test_each_row_once_whatever_happens(run: int) -> None:
    """Queries that fail anywhere and replay, in a job that lives: every micro-batch once, and whole."""
    choices = random.Random(f"{SEED} {run}")
    say = f"seed {SEED}, run {run}"
    input, committed, expected = ListInput(workers=3), 0, []
    while committed < 30:
        batch_id = committed  # Spark goes on behind what it has committed
        numbers = [batch_id * 10 + n for n in range(choices.randrange(4))]
        if batch_id >= input.time and choices.random() < 0.2:
            with pytest.raises(ZeroDivisionError):
                deliver(batch_id, lambda: 1 // 0, input)
            continue
        if deliver(batch_id, rows(*numbers), input):
            expected += [(batch_id, number) for number in numbers]
        if choices.random() < 0.6:  # else it dies before it commits, and the same id comes again
            committed += choices.choice([1, 1, 1, 2])
    assert input.rows == expected, say
    assert [time for time, _, _ in input.sent] == sorted({time for time, _, _ in input.sent}), say


@pytest.mark.parametrize("run", range(10))
def test_a_program_that_is_started_again_deals_out_as_before(run: int) -> None:
    """A log knows what it has by place: a replay after a restart sends the same slices to the same workers."""
    choices = random.Random(f"{SEED} {run}")
    sizes = [choices.choice([0, 3, ROWS_PER_SLICE, ROWS_PER_SLICE + 1]) for _ in range(6)]
    begin = choices.randrange(6)
    first, again = ListInput(workers=3), ListInput(workers=3)
    for batch_id, size in enumerate(sizes):
        deliver(batch_id, rows(*range(size)), first)
    for batch_id in range(begin, 6):
        deliver(batch_id, rows(*range(sizes[batch_id])), again)
    assert again.sent == [one for one in first.sent if one[0] >= begin], f"seed {SEED}, run {run}"
