"""The map_actors operator on the local engine: what the batches are, when results come out, and what fails."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.calls import call_threads, within_deadline
from tests.kit.runtime.one_operator import DEADLINE_S, Results, captured, feed, settle
from tests.waiting import eventually
from tidewheel.batches.batches import length, records
from tidewheel.operators.pools.members import MOST_BYTES, MOST_CALLS, SURE_CALLS


class Models:
    """Makes models that square numbers of any kind once they are let go, and notes their batches.

    Attributes:
        batches: what models were called with, in this order.
        most: the greatest number of calls at one model at a time.
    """

    def __init__(self, *, are_let_go: bool = True) -> None:
        self._gate = threading.Event()
        self.batches: list[Any] = []
        self.made = 0
        self.most = 0
        self.threads: set[str] = set()
        if are_let_go:
            self._gate.set()

    def let_go(self) -> None:
        self._gate.set()

    def __call__(self) -> Callable[[Any], Any]:
        self.made += 1
        under_way: list[Any] = []

        def square(batch: Any) -> Any:
            under_way.append(batch)
            self.most = max(self.most, len(under_way))
            self.threads.add(threading.current_thread().name)
            self.batches.append(batch)
            assert self._gate.wait(DEADLINE_S)
            under_way.pop()
            if isinstance(batch, list):
                return [number if isinstance(number, bytes) else number**2 for number in batch]
            return batch**2 if isinstance(batch, np.ndarray) else pa.table({"n": np.square(batch["n"].to_numpy())})

        return square


@pytest.fixture
def models() -> Iterator[Models]:
    """Return what makes models, and see that no thread is left."""
    made = Models(are_let_go=False)
    yield made
    made.let_go()
    ours = ("tidewheel-map_actors", "tidewheel-async-")
    assert eventually(lambda: not any(thread.name.startswith(ours) for thread in threading.enumerate()))


def inferring(make: Any, **options: Any) -> tw.Dataflow:
    flow = tw.Dataflow("test")
    flow.input("numbers").map_actors(make, **{"replicas": 2, **options}).probe("done").capture("results")
    return flow


def run_to_end(make: Any, *epochs: Any, workers: int = 1, **options: Any) -> Results:
    with tw.run(inferring(make, **options), workers=workers, engine="local") as job:
        feed(job, *epochs)
        job.wait(DEADLINE_S)
        return captured(job)


def numbers_of(results: Results) -> list[tuple[Any, Any]]:
    return [(time, number) for time, batch in results for number in records(batch)]


# ------------------------------------------------------------------ batches and their results


@pytest.mark.parametrize(
    "make",
    [
        list,
        lambda numbers: pa.table({"n": list(numbers)}),
        lambda numbers: pa.record_batch({"n": list(numbers)}),
        lambda numbers: np.array(list(numbers)),
    ],
)
def test_a_model_gets_batches_as_they_arrive(make: Callable[[Any], Any]) -> None:
    """At most so many records, of several messages and epochs; each result is at the time of its record."""
    models = Models()
    found = run_to_end(models, make(range(7)), make(range(7, 9)), batch_size=3, ordered=True, replicas=1)
    plain = [(time, one["n"] if isinstance(one, dict) else one) for time, one in numbers_of(found)]
    assert plain == [(int(n >= 7), n * n) for n in range(9)]
    assert all(length(batch) <= 3 for batch in models.batches)
    kind = type(make(range(3)))
    assert {type(batch) for batch in models.batches} == {pa.Table if kind is pa.RecordBatch else kind}


def test_a_batch_waits_to_become_full() -> None:
    """As soon as it is full it goes, and otherwise after so long."""
    models = Models()
    with tw.run(inferring(models, batch_size=4, within_ms=3_600_000), engine="local") as job:
        numbers = job.input("numbers")
        numbers.send([0, 1, 2, 3])
        assert within_deadline(job, lambda: len(captured(job)) == 1)  # from now on calls begin at once
        for number in range(4, 8):
            assert not eventually(lambda: len(models.batches) > 1, 0.02)
            numbers.send([number])
            settle(job)
        assert within_deadline(job, lambda: len(captured(job)) == 5)
        job.stop()
    assert models.batches == [[0, 1, 2, 3], [4, 5, 6, 7]]
    soon = Models()
    assert len(numbers_of(run_to_end(soon, [1], [2], [3], batch_size=100, within_ms=20))) == 3
    assert sum(map(len, soon.batches)) == 3


def test_batches_fill_while_all_actors_are_busy(models: Models) -> None:
    """Records that come then wait together, and not each in a call of its own."""
    with tw.run(inferring(models, replicas=1), engine="local") as job:
        for number in range(8):
            job.input("numbers").send([number])
            settle(job)
            assert not eventually(lambda: len(models.batches) > 1, 0.01)
        models.let_go()
        job.input("numbers").close()
        job.wait(DEADLINE_S)
    assert [number for batch in models.batches for number in batch] == list(range(8))
    assert len(models.batches) <= 3


def test_a_batch_has_records_of_one_kind() -> None:
    """Tables of one schema are joined, other batches are apart."""
    models = Models(are_let_go=False)
    table, wide = pa.table({"n": [1, 2]}), pa.table({"n": [3], "m": [4]})
    with tw.run(inferring(models, replicas=1, ordered=True), engine="local") as job:
        feed(job, [0], [0], [0], table, table, wide, [5])
        assert within_deadline(job, lambda: len(models.batches) == 1)
        models.let_go()
        job.wait(DEADLINE_S)
    assert [length(batch) for batch in models.batches if not isinstance(batch, list)] == [4, 1]


def test_a_time_completes_with_its_last_result(models: Models) -> None:
    """No token is given up before."""
    with tw.run(inferring(models, batch_size=1), workers=2, engine="local") as job:
        feed(job, [1, 2, 3], [4])
        assert within_deadline(job, lambda: len(models.batches) == 2)
        assert list(job.probe("done").frontier) == [0]
        models.let_go()
        job.wait(DEADLINE_S)
        assert sorted(numbers_of(captured(job))) == [(0, 1), (0, 4), (0, 9), (1, 16)]


@pytest.mark.parametrize(
    ("record", "read"), [(3, 2 * MOST_CALLS), (b"n" * MOST_BYTES, 2 * SURE_CALLS)], ids=["small", "large"]
)
def test_so_many_calls_an_actor_and_no_more(models: Models, record: Any, read: int) -> None:
    """Each model has one at a time, on its own thread; what there is no room for is not even read."""
    config = tw.RuntimeConfig(bytes_in_flight=1 << 30)
    with tw.run(inferring(models, batch_size=2), engine="local", config=config) as job:
        feed(job, *([record, record] for _ in range(40)))
        assert within_deadline(job, lambda: len(models.batches) == 2)
        assert job.statistics().operators["map_actors"].messages_in == read
        models.let_go()
        job.wait(DEADLINE_S)
        assert len(numbers_of(captured(job))) == 80
    assert (models.made, models.most, len(models.threads)) == (2, 1, 2)


def test_workers_share_the_pool() -> None:
    """It is one for the job."""
    models = Models()
    run_to_end(models, *([n] for n in range(8)), workers=4, replicas=3)
    assert models.made == 3


def test_a_snapshot_has_the_calls_in_progress(tmp_path: Path, models: Models) -> None:
    """They are made again, also on another number of workers; each record has one result."""

    def begin(models: Models, workers: int) -> tw.types.Job:
        snapshots = tw.Snapshots(tmp_path, every_s=1000)
        return tw.run(inferring(models, batch_size=2), workers=workers, engine="local", snapshots=snapshots)

    tables = [pa.table({"n": [1, 2, 3]}), pa.table({"n": [4]})]
    with begin(models, 1) as job:
        feed(job, *tables)
        assert within_deadline(job, lambda: len(models.batches) == 2)
        job.snapshot()
        job.stop()
    with begin(Models(), 2) as job:
        job.wait(DEADLINE_S)
        found = [(time, row["n"]) for time, row in numbers_of(captured(job))]
    assert sorted(found) == [(0, 1), (0, 4), (0, 9), (1, 16)]


# ------------------------------------------------------------------ what fails


class Picky:
    """Refuses batches that have a 3; for an odd start it does so only at first."""

    refused: list[Any]

    def __init__(self, refusals: float = float("inf")) -> None:
        self._left = refusals

    def __call__(self, batch: Any) -> Any:
        if any(3 in (record, record["n"] if isinstance(record, dict) else None) for record in records(batch)):
            self._left -= 1
            if self._left >= 0:
                raise ValueError("a three")
        return batch


def failure_of(make: Any, *epochs: Any, **options: Any) -> tw.JobError:
    with pytest.raises(tw.JobError) as caught:
        run_to_end(make, *epochs, **options)
    assert call_threads() == []
    return caught.value


def test_what_a_model_raises_fails_the_job() -> None:
    """The error names operator, worker and time, and has the traceback of the model."""
    failure = failure_of(Picky, [1], [2, 3], batch_size=1)
    assert (failure.operator, failure.worker, failure.time) == ("map_actors", 0, 1)
    assert "ValueError: a three" in str(failure)
    assert "in __call__" in failure.traceback_text


def test_a_batch_is_tried_again() -> None:
    """As `tw.Retry` says."""
    retry = tw.Retry(attempts=3, first_pause_s=0)
    assert run_to_end(partial(Picky, 2), [3], replicas=1, retry=retry) == [(0, [3])]
    assert (
        "This was attempt 2, the last"
        in failure_of(Picky, [3], retry=tw.Retry(attempts=2, first_pause_s=0)).traceback_text
    )


def test_what_fails_for_good_is_set_aside() -> None:
    """Each record of a list by itself, of a table the part that has arrived together."""
    flow = tw.Dataflow("test")
    letters = flow.dead_letters()
    numbers = flow.input("numbers")
    numbers.map_actors(Picky, replicas=1, batch_size=2, dead_letters=letters).capture("results")
    letters.capture("letters")
    table = pa.table({"n": [3, 4]})
    with tw.run(flow, engine="local") as job:
        feed(job, [1, 2, 3, 4], table)
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, [1, 2])]
        found = [(entry.time, one.record, one.error) for entry in job.captured("letters") for one in entry.batch]
    assert sorted(found[:-1]) == [(0, 3, "ValueError"), (0, 4, "ValueError")]
    assert found[-1] == (1, table, "ValueError")


@pytest.mark.parametrize("result", [[1], 3, None, {"n": [1, 2]}, pa.table({"n": [1, 2, 3]})])
def test_a_result_for_each_record(result: Any) -> None:
    """Otherwise it is not known which record a result belongs to."""
    assert "TypeError: map_actors calls a model that returns" in str(failure_of(lambda: lambda batch: result, [1, 2]))


def refuse() -> Any:
    raise OSError("no weights")


async def wait(batch: Any) -> Any:
    return batch


@pytest.mark.parametrize(
    ("make", "said"),
    [(refuse, "OSError: no weights"), (lambda: 3, "TypeError"), (lambda: wait, "TypeError")],
    ids=["raises", "not callable", "async"],
)
def test_a_model_that_cannot_be_made_fails_the_start(make: Any, said: str) -> None:
    """Before any record is read."""
    with raises(tw.JobError) as caught:
        tw.run(inferring(make), engine="local")
    assert said in str(caught.value)
    assert caught.value.operator == "map_actors"


@pytest.mark.parametrize(
    "options",
    [
        {"replicas": 0},
        {"batch_size": 0},
        {"within_ms": -1},
        {"within_ms": True},
        {"resources": {"GPU": -1}},
        {"resources": ["GPU"]},
        {"retry": 3},
        {"model": 3},
        {"model": Picky()},
        {"model": lambda path: path},
    ],
    ids=lambda options: " ".join(f"{name}={value}" for name, value in options.items()).partition(" at 0x")[0],
)
def test_wrong_options_are_refused_at_once(options: Any) -> None:
    """When the dataflow is described."""
    with raises(tw.GraphError):
        tw.Dataflow("test").input("numbers").map_actors(**{"model": Picky, "replicas": 1, **options})


# ------------------------------------------------------------------ models of strangers


def stop_iteration(numbers: list[int]) -> list[int]:
    return [next(iter(())) for _ in numbers]


def test_a_model_that_raises_stop_iteration_fails_the_job() -> None:
    """No future can raise it, so the call would never end."""
    with raises(tw.JobError):
        run_to_end(lambda: stop_iteration, [1, 2])


class Reusing:
    """Returns the same array again and again."""

    def __init__(self) -> None:
        self._found = np.zeros(2)

    def __call__(self, numbers: Any) -> Any:
        np.square(numbers, out=self._found)
        return self._found


def test_a_model_may_use_its_array_again() -> None:
    """Each result is what it was when the model returned it."""
    found = run_to_end(Reusing, np.arange(6.0), batch_size=2, replicas=1, ordered=True)
    assert [number for _, number in numbers_of(found)] == [number**2 for number in range(6)]


def double_in_place(numbers: Any) -> Any:
    numbers *= 2
    return numbers


def test_arrays_are_read_only_as_on_ray() -> None:
    """So a model that works here works there."""
    with raises(tw.JobError):
        run_to_end(lambda: double_in_place, np.arange(6.0))


HANGING = """
import threading
import tidewheel as tw

flow = tw.Dataflow("hanging")
numbers = flow.source("numbers", tw.IterableSource([[(0, [1])]]))
numbers.map_actors(lambda: lambda batch: threading.Event().wait(), replicas=1).capture("results")
try:
    with tw.run(flow, engine="local") as job:
        job.wait(0.1)
except TimeoutError:
    print("timeout")
"""


def test_a_model_that_never_returns_lets_the_program_end() -> None:
    """Python waits at its exit for threads that are no daemons."""
    ended = subprocess.run(
        [sys.executable, "-c", HANGING], check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert (ended.returncode, ended.stdout) == (0, "timeout\n")
