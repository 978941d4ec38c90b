"""Ray Datasets in and out of dataflows, on Ray."""

import datetime
import decimal
import gc
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import ray

import tidewheel as tw
from tests.kit.messages import raises
from tests.ray.leftovers import nothing_left, titled
from tests.ray.worker_killer import WorkerKiller
from tests.waiting import eventually
from tidewheel.connectors.datasets import DatasetError, dataset_source, from_dataset, to_dataset

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
DAY = datetime.date(2020, 1, 1)
TABLE = pa.table(
    {
        "id": pa.array(range(100), pa.int64()),
        "small": pa.array([n % 7 if n % 5 else None for n in range(100)], pa.int8()),
        "ratio": [n / 3 for n in range(100)],
        "name": ["é" * (n % 4) for n in range(100)],
        "category": pa.array([f"c{n % 3}" for n in range(100)]).dictionary_encode(),
        "raw": [bytes([n]) for n in range(100)],
        "on": [n % 2 == 0 for n in range(100)],
        "day": [DAY + datetime.timedelta(days=n) for n in range(100)],
        "at": pa.array([n * 10**15 for n in range(100)], pa.timestamp("ns", "UTC")),
        "price": [decimal.Decimal(n) / 4 for n in range(100)],
        "sizes": [[n] * (n % 3) for n in range(100)],
        "place": [{"x": n, "y": None} for n in range(100)],
    }
)


@pytest.fixture(scope="module", autouse=True)
def quiet(ray_cluster: str) -> Iterator[None]:
    """Let Ray Data draw no progress, and start what it keeps for as long as the cluster lasts."""
    assert ray_cluster
    ray_data = pytest.importorskip("ray.data", reason="needs the extra data: pip install 'tidewheel[data]'")
    context = ray_data.DataContext.get_current()
    before, context.enable_progress_bars = context.enable_progress_bars, False
    ray_data.range(1).materialize()
    yield
    context.enable_progress_bars = before


@pytest.fixture
def data() -> Any:
    """Return `ray.data`, which needs an extra."""
    import ray.data

    return ray.data


def rows_of(
    dataset: Any, *, workers: int = 2, time: str | None = None, engine: Any = "local"
) -> list[tuple[Any, dict[str, Any]]]:
    """Return the time and the row of each row that a job reads; the local engine starts faster."""
    flow = tw.Dataflow("reading")
    from_dataset(flow, "rows", dataset, time=time).capture("rows")
    with tw.run(flow, workers=workers, engine=engine) as job:
        job.wait(DEADLINE_S)
        return [(one.time, row) for one in job.captured("rows") for row in one.batch.to_pylist()]


def ids_of(dataset: Any) -> list[int]:
    return sorted(row["id"] for _, row in rows_of(dataset))


def there_and_back(dataset: Any, workers: int) -> Any:
    """Return a dataset of the rows of one that a job has read; nothing else of the job remains."""
    flow = tw.Dataflow("there and back")
    from_dataset(flow, "rows", dataset).capture("rows")
    with tw.run(flow, workers=workers) as job:
        del flow
        job.wait(DEADLINE_S)
        return to_dataset(job.captured("rows"), time=None)


@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=pytest.mark.long)])
def test_columns_of_all_types_come_in_and_go_out_as_they_are(data: Any, workers: int) -> None:
    """Each row comes once, with its values and types, and is in the dataset of the results, which outlives the job."""
    dataset = data.from_arrow([TABLE.slice(n, 10) for n in range(0, 100, 10)])
    with nothing_left(sockets=2):  # to the actors of Ray Data, which stay
        result = there_and_back(dataset, workers)
        gc.collect()
        assert eventually(lambda: not titled("ray::DealerActor"), DEADLINE_S), "the blocks are kept"
    assert result.schema().base_schema == TABLE.schema
    found = pa.concat_tables(map(ray.get, refs_of(result))).sort_by("id")
    assert found.to_pylist() == TABLE.to_pylist()


def refs_of(dataset: Any) -> list[Any]:
    return [reference for bundle in dataset.iter_internal_ref_bundles() for reference in bundle.block_refs]


def note(folder: str) -> Callable[[Any], Any]:
    """Return a function of batches that leaves a file for each of its calls."""

    def noted(batch: Any) -> Any:
        Path(folder, os.urandom(8).hex()).touch()
        return batch

    return noted


def test_a_lazy_dataset_is_computed_once_for_all_workers(data: Any, tmp_path: Path) -> None:
    """Not before a job reads it, and once by each job; the second one of a dataflow has all rows again."""
    dataset = data.range(60, override_num_blocks=6).map_batches(note(str(tmp_path)), batch_size=None)
    flow = tw.Dataflow("twice")
    from_dataset(flow, "rows", dataset).capture("rows")
    assert not list(tmp_path.iterdir())
    for job_number in (1, 2):
        with tw.run(flow, workers=3) as job:
            job.wait(DEADLINE_S)
            found = [row["id"] for one in job.captured("rows") for row in one.batch.to_pylist()]
        assert sorted(found) == list(range(60))
        assert len(list(tmp_path.iterdir())) == 6 * job_number


def between(least: int, end: int) -> Callable[[Any], Any]:
    """Return a function of batches that keeps the rows with these numbers."""
    return lambda batch: {"id": batch["id"][(batch["id"] >= least) & (batch["id"] < end)]}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda data: data.range(40, override_num_blocks=8).map_batches(between(10, 13)), [10, 11, 12]),
        (lambda data: data.range(40, override_num_blocks=2).map_batches(between(50, 60)), []),
        (lambda data: data.range(40, override_num_blocks=3).limit(17), list(range(17))),
        (lambda data: data.range(40, override_num_blocks=3).materialize(), list(range(40))),
        (lambda data: data.range(300_000, override_num_blocks=1), list(range(300_000))),
        (lambda data: data.from_pandas(TABLE.select(["id"]).to_pandas()), list(range(100))),
    ],
    ids=["empty blocks", "no rows", "limit", "materialized", "many batches", "pandas"],
)
def test_blocks_of_all_kinds_are_read(data: Any, make: Any, expected: list[int]) -> None:
    """Empty ones, none, parts of blocks, those that are there already, large ones, and those of pandas."""
    assert ids_of(make(data)) == expected


class Tide:
    """An object that Arrow has no type for."""

    def __init__(self, height: int) -> None:
        self.height = height


@pytest.mark.long
def test_tensors_dicts_and_objects_are_values_of_rows(data: Any) -> None:
    """A tensor is a NumPy array, a dict a dict, another object itself; a plain value has the column of Ray Data."""
    (_, row), *_ = rows_of(data.from_numpy(np.arange(24.0).reshape(2, 3, 4)), workers=1)
    assert row["data"].shape == (3, 4)
    assert row["data"].tolist() == np.arange(12.0).reshape(3, 4).tolist()
    assert rows_of(data.from_items([{"a": {"x": 1}}]), workers=1) == [(0, {"a": {"x": 1}})]
    assert sorted(row["item"] for _, row in rows_of(data.from_items([3, 4]))) == [3, 4]
    ((_, row),) = rows_of(data.from_items([{"tide": Tide(7)}]), workers=1)
    assert row["tide"].height == 7


def test_tensors_go_to_another_worker_and_out(data: Any) -> None:
    """Rows that are exchanged by a key keep their arrays, as tables and as dicts."""
    flow = tw.Dataflow("tensors")
    rows = from_dataset(flow, "rows", data.range_tensor(8, shape=(2, 2), override_num_blocks=4))
    numbered = rows.map(lambda row: {"id": int(row["data"][0][0]), "data": row["data"].tolist()})
    rows.rebalance().capture("tables")
    numbered.exchange("id").capture("dicts")
    with tw.run(flow, workers=2) as job:
        job.wait(DEADLINE_S)
        tables = to_dataset(job.captured("tables"), time=None)
        dicts = to_dataset(job.captured("dicts"), time="at")
        assert sorted(row["data"].tolist() for row in tables.take_all()) == [[[n, n], [n, n]] for n in range(8)]
        assert [row["at"] for row in dicts.take_all()] == [0] * 8


def above_five(batch: Any) -> Any:
    if (batch["id"] > 5).any():
        raise ValueError("no number is above 5")
    return batch


def test_an_error_of_a_function_says_what_and_where(data: Any) -> None:
    """The job fails with the operator of the dataset, the error, its file and line, and the dataset's name."""
    dataset = data.range(10, override_num_blocks=5).map_batches(above_five)
    where = r"dataset 'rows' cannot be computed behind its first 3 blocks, in ReadRange->MapBatches\(above_five\)"
    what = r"ValueError: no number is above 5 \(line \d+ of \S+/test_datasets\.py, in above_five\)"
    with pytest.raises(tw.JobError, match=f"{where}: {what}"):
        rows_of(dataset, engine="ray")


def test_a_column_of_epochs(data: Any) -> None:
    """Each row has its epoch as time, across the ends of blocks, and epochs are complete in time."""
    flow = tw.Dataflow("epochs")
    rows = data.from_items([{"id": n, "day": n // 10} for n in range(60)], override_num_blocks=7)
    stream = from_dataset(flow, "rows", rows, time="day")
    stream.group_by("day").aggregate(total=("id", "sum")).capture("totals")
    with tw.run(flow, workers=3, engine="local") as job:
        job.wait(DEADLINE_S)
        totals = [(one.time, row) for one in job.captured("totals") for row in one.batch.to_pylist()]
    found = sorted((time, row["day"], row["total"]) for time, row in totals)
    assert found == [(day, day, sum(range(10 * day, 10 * day + 10))) for day in range(6)]


def test_what_is_no_dataset_is_refused() -> None:
    """Before a job is started."""
    other: Any = [1, 2]
    with raises(DatasetError):
        from_dataset(tw.Dataflow("none"), "list", other)


# ------------------------------------------------------------------ without CPUs


@ray.remote
class Holder:
    """Has a CPU of the cluster."""


@pytest.mark.long
def test_a_job_waits_for_cpus_and_says_so(
    data: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its workers need none, so it goes on once there are some; until then it warns."""
    monkeypatch.setattr(dataset_source, "WARNS_AFTER_S", 0.2)
    # Spark's executors have some of the CPUs. A holder that waits for one receives the next that is free.
    cpus = int(ray.cluster_resources()["CPU"])
    holders: list[Any] = [Holder.options(num_cpus=1).remote() for _ in range(cpus)]  # type: ignore[attr-defined]
    assert eventually(lambda: not ray.available_resources().get("CPU"), DEADLINE_S)
    found: list[int] = []
    dataset = data.range(10)
    thread = threading.Thread(target=lambda: found.extend(ids_of(dataset)))
    with caplog.at_level(logging.WARNING):
        thread.start()
        assert eventually(lambda: "0 of the 4 CPUs of the cluster are free" in caplog.text, DEADLINE_S)
        for holder in holders:
            ray.kill(holder)
        thread.join(DEADLINE_S)
    assert found == list(range(10))


# ------------------------------------------------------------------ crashes and snapshots


def gated(gate: str, first: int) -> Callable[[Any], Any]:
    """Return a function of batches that adds days, and waits for a file before it returns rows behind the first."""

    def passed(batch: Any) -> Any:
        if batch["id"][0] >= first:
            assert eventually(Path(gate).exists, DEADLINE_S)
        return {**batch, "day": batch["id"] // 10}

    return passed


def numbered(data: Any, gate: Path, blocks: int = 20) -> Any:
    """Return a dataset of 200 numbers on 20 days, the second half of which is computed once there is a file."""
    plain = data.range(200, override_num_blocks=blocks)
    return plain.map_batches(gated(str(gate), 100), batch_size=None)


def reading(dataset: Any, time: str | None = "day") -> tw.Dataflow:
    flow = tw.Dataflow("numbers")
    from_dataset(flow, "rows", dataset, time=time).probe("done").capture("rows")
    return flow


def captured(job: Any) -> list[int]:
    return sorted(row["id"] for one in job.captured("rows") for row in one.batch.to_pylist())


def read_half(job: Any) -> None:
    """Wait until the job has read the first days, and no more than the first half."""
    job.probe("done").wait_until(6, timeout_s=DEADLINE_S)
    assert len(captured(job)) in range(70, 101)


@contextmanager
def running(flow: tw.Dataflow, folder: Path, *, workers: int = 2, engine: Any = "local") -> Iterator[Any]:
    """Run a job that takes snapshots when it is asked to, and when it is stopped."""
    with tw.run(flow, workers=workers, engine=engine, snapshots=tw.Snapshots(folder, every_s=1000)) as job:
        yield job


def half_read(flow: tw.Dataflow, folder: Path, engine: Any = "local") -> None:
    """Run a job up to a snapshot that has some of the rows."""
    with running(flow, folder, engine=engine) as job:
        read_half(job)
        job.snapshot()
        job.stop()


@pytest.mark.parametrize(
    ("engine", "workers"),
    [pytest.param("ray", 3, marks=pytest.mark.long), pytest.param("local", 2, marks=pytest.mark.long), ("local", 1)],
)
def test_another_process_goes_on_from_a_snapshot(data: Any, tmp_path: Path, engine: str, workers: int) -> None:
    """It computes the dataset again, and each row comes once, also with another number of workers."""
    half_read(reading(numbered(data, tmp_path / "gate")), tmp_path / "s", engine)
    (tmp_path / "gate").touch()
    again = reading(numbered(data, tmp_path / "gate"))
    with running(again, tmp_path / "s", workers=workers, engine=engine) as job:
        job.wait(DEADLINE_S)
        assert captured(job) == list(range(200))


@pytest.mark.long
def test_the_same_dataflow_goes_on_with_the_blocks_that_are_kept(data: Any, tmp_path: Path) -> None:
    """Nothing is computed twice, so a dataset that depends on chance may be read with recovery."""
    dataset = numbered(data, tmp_path / "gate").map_batches(note(str(tmp_path / "calls")), batch_size=None)
    (tmp_path / "calls").mkdir()
    flow = reading(dataset)
    half_read(flow, tmp_path / "s")
    (tmp_path / "gate").touch()
    with running(flow, tmp_path / "s") as job:
        job.wait(DEADLINE_S)
        assert captured(job) == list(range(200))
    assert len(list((tmp_path / "calls").iterdir())) == 20


@pytest.mark.long
def test_another_dataset_is_refused(data: Any, tmp_path: Path) -> None:
    """A block of it has other rows than the snapshot says: going on would lose or repeat some."""
    half_read(reading(numbered(data, tmp_path / "gate")), tmp_path / "s")
    (tmp_path / "gate").touch()
    said = r"dataset 'rows' is not the one of the snapshot: block \d has the rows .* now, and had the rows"
    other = reading(numbered(data, tmp_path / "gate", blocks=13))
    with pytest.raises(tw.JobError, match=said), running(other, tmp_path / "s") as job:
        job.wait(DEADLINE_S)


def test_a_worker_that_is_killed_costs_no_row(data: Any, tmp_path: Path) -> None:
    """The job goes back to its last snapshot, and its workers to the blocks that are kept since."""
    flow = reading(numbered(data, tmp_path / "gate"))
    killer = WorkerKiller(Random(0))
    snapshots = tw.Snapshots(tmp_path / "s", every_s=0.3)
    with nothing_left(sockets=2), tw.run(flow, workers=2, snapshots=snapshots) as job:
        read_half(job)
        killer.strike()
        (tmp_path / "gate").touch()
        job.wait(DEADLINE_S)
        assert captured(job) == list(range(200))


def lose_dealer(job: Any, others: list[Any]) -> None:
    """Kill the dealer of a job that waits for it, and wait for the job."""
    read_half(job)
    (dealer,) = [process for process in titled("ray::DealerActor") if process not in others]
    dealer.kill()
    job.wait(DEADLINE_S)


def test_a_lost_dealer_fails_the_job(data: Any, tmp_path: Path) -> None:
    """Its blocks are gone with it; the error says to begin anew."""
    others, flow = titled("ray::DealerActor"), reading(numbered(data, tmp_path / "gate"))
    said = "the process that has it computed is gone, with all blocks"
    with pytest.raises(tw.JobError, match=said), tw.run(flow, engine="local") as job:
        lose_dealer(job, others)


# ------------------------------------------------------------------ out


def results(*batches: Any) -> Any:
    """Return a job's captured batches, one for each epoch."""
    flow = tw.Dataflow("results")
    flow.source("rows", tw.IterableSource([list(enumerate(batches))])).capture("rows")
    with tw.run(flow, engine="local") as job:
        job.wait()
        return job.captured("rows")


def test_results_of_a_job_that_has_ended(data: Any) -> None:
    """They pass this process, with a warning where they were on workers."""
    assert to_dataset(results([{"a": 1}], [{"a": 2}, {"a": None}])).take_all() == [
        {"a": 1, "time": 0},
        {"a": 2, "time": 1},
        {"a": None, "time": 1},
    ]


def test_no_results_have_the_columns_of_a_schema(data: Any) -> None:
    """Without one there is an error, as Ray Data has to know the columns."""
    schema = pa.schema([("a", pa.int64())])
    empty = to_dataset(results(), schema=schema, time="at")
    assert (empty.count(), empty.schema().names) == (0, ["a", "at"])
    with raises(DatasetError):
        to_dataset(results())


@pytest.mark.parametrize(
    "batches",
    [
        ([{"a": 1}], [{"b": 1}]),
        ([{"time": 1}],),
        ([1, 2],),
        (np.arange(3),),
        (pa.table([[1], [2]], names=["a", "a"]),),
    ],
    ids=["other columns", "a column of that name", "numbers", "an array", "one name twice"],
)
def test_results_that_are_no_rows_are_refused(data: Any, batches: Any) -> None:
    """The error says which batch, and what to send."""
    with raises(DatasetError):
        to_dataset(results(*batches))


def test_workers_say_why_they_can_make_no_dataset(data: Any) -> None:
    """The error of a worker comes as it is."""
    flow = tw.Dataflow("numbers")
    flow.source("rows", tw.RecordSource(range(4), batch_size=1)).capture("rows")
    with tw.run(flow, workers=2) as job:
        job.wait(DEADLINE_S)
        with raises(DatasetError):
            to_dataset(job.captured("rows"))
