"""A source of Iceberg has each snapshot as an epoch, over crashes, and refuses what it cannot say."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import LongType

import tidewheel as tw
from tests.kit.connectors.iceberg_catalog import NAME, make_table, opened, rows_in, settings, table_in
from tests.kit.messages import raises
from tests.kit.seeds import seed_of
from tests.waiting import eventually
from tidewheel.connectors.iceberg import IcebergError, IcebergSink, IcebergSource
from tidewheel.operators.sources.contract import Pause
from tidewheel.progress import GraphError
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.testing import check_source

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
TIDES = pa.schema([("hour", pa.int32()), ("tide", pa.large_string())])


def make(folder: Path, *batches: list[int]) -> Path:
    """Make a table, with a snapshot for each batch."""
    folder.mkdir(exist_ok=True)
    make_table(folder, TIDES)
    for hours in batches:
        append(folder, hours)
    return folder


def append(folder: Path, hours: list[int]) -> None:
    with table_in(folder) as table:
        table.append(pa.table({"hour": pa.array(hours, pa.int32()), "tide": ["low"] * len(hours)}))


def source_of(folder: Path, **more: Any) -> IcebergSource:
    return IcebergSource(settings(folder), NAME, **more)


def read(source: IcebergSource, place: Any = None) -> Iterator[Any]:
    """Yield what a source reads until it pauses."""
    for fetched in source.open("snapshots", place):
        if isinstance(fetched, Pause):
            return
        yield fetched


def last_place(source: IcebergSource) -> Any:
    return [fetched.position for fetched in read(source)][-1]


def hours_of(source: IcebergSource, place: Any = None) -> dict[int, list[int]]:
    """Return the hours of each epoch that has any."""
    found: dict[int, list[int]] = {}
    for fetched in read(source, place):
        if len(fetched.batch):
            found.setdefault(fetched.epoch, []).extend(fetched.batch.column("hour").to_pylist())
    return found


def test_it_keeps_the_contract_of_sources() -> None:
    """Crashes before and after each call; the source ends."""
    rows = [{"hour": hour, "tide": "low"} for hour in range(2)]
    check_source(lambda folder: source_of(make(folder, [0, 1]), bounded=True), {"snapshots": rows})


@pytest.mark.long
def test_it_keeps_the_contract_of_sources_while_snapshots_are_added() -> None:
    """The source has no end."""
    rows = [{"hour": hour, "tide": "low"} for hour in range(5)]

    def grow(folder: Path) -> None:
        append(folder, [3])
        append(folder, [4])

    check_source(lambda folder: source_of(make(folder, [0, 1], [2])), {"snapshots": rows}, grow=grow)


def test_each_snapshot_is_an_epoch(tmp_path: Path) -> None:
    """The first one has all rows of the table; or those that are appended behind a snapshot."""
    empty = source_of(make(tmp_path))
    assert hours_of(source_of(tmp_path, bounded=True)) == {}
    place = next(empty.open("snapshots", None), None)
    assert isinstance(place, Pause)
    append(tmp_path, [1])
    append(tmp_path, [2, 3])
    with table_in(tmp_path) as table:
        first = table.snapshots()[0].snapshot_id
    later, state, bounded = source_of(tmp_path, after=first), source_of(tmp_path), source_of(tmp_path, bounded=True)
    place = last_place(state)
    ended = next(read(bounded)).position
    append(tmp_path, [4])
    assert hours_of(later) == {2: [2, 3], 3: [4]}
    assert hours_of(state, place) == {3: [4]}
    assert sorted(hours_of(state)[3]) == [1, 2, 3, 4]
    assert 4 not in [hour for hours in hours_of(bounded, ended).values() for hour in hours]


def test_it_goes_on_inside_a_snapshot(tmp_path: Path) -> None:
    """From each place, each row comes once; files of a snapshot are read in the order of their names."""
    make(tmp_path, [1])
    with table_in(tmp_path) as table:
        first = table.snapshots()[0].snapshot_id
        with table.update_spec() as update:
            update.add_identity("hour")
    append(tmp_path, [*range(10, 15)])
    for source, count in ((source_of(tmp_path), 6), (source_of(tmp_path, after=first), 5)):
        places, seen = [None], [0]
        for fetched in read(source):
            places.append(fetched.position)
            seen.append(seen[-1] + len(fetched.batch))
        assert seen[-1] == count
        assert len(places) > count
        for place, before in zip(places, seen, strict=True):
            found = [hour for hours in hours_of(source, place).values() for hour in hours]
            assert len(found) == len(set(found)) == count - before


def test_rewritten_files_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that replaces files has no other rows. The library writes none, so the test has to help it."""
    monkeypatch.setattr("pyiceberg.table.update.snapshot.update_snapshot_summaries", lambda summary, **_: summary)
    make(tmp_path, [1])
    source = source_of(tmp_path)
    place = last_place(source)
    with table_in(tmp_path) as table, table.transaction() as transaction:
        rows = table.scan().to_arrow()
        with transaction.update_snapshot().fast_append() as update:
            update._operation = Operation.REPLACE
            for file in _dataframe_to_data_files(table.metadata, rows, table.io):
                update.append_data_file(file)
    append(tmp_path, [2])
    assert list(hours_of(source, place).values()) == [[2]]


@pytest.mark.parametrize("change", ["delete", "overwrite"])
def test_removed_rows_are_refused(tmp_path: Path, change: str) -> None:
    """With the id of the snapshot, behind which a job can begin."""
    make(tmp_path, [1, 2])
    source = source_of(tmp_path)
    place = last_place(source)
    with table_in(tmp_path) as table:
        table.delete("hour = 1") if change == "delete" else table.overwrite(table.scan().to_arrow())
    with raises(IcebergError):
        list(read(source, place))
    with table_in(tmp_path) as table:
        snapshot = table.current_snapshot()
    assert snapshot is not None
    assert hours_of(source_of(tmp_path, after=snapshot.snapshot_id)) == {}


def test_new_columns_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a warning; a source that is made then reads them, with nulls before."""
    make(tmp_path, [1])
    source = source_of(tmp_path)
    place = last_place(source)
    with table_in(tmp_path) as table:
        with table.update_schema() as update:
            update.add_column("cm", LongType())
            update.rename_column("tide", "kind")
        table.append(pa.table({"hour": pa.array([2], pa.int32()), "kind": ["low"], "cm": [5]}))
    (rows,) = [fetched.batch.to_pylist() for fetched in read(source, place) if len(fetched.batch)]
    assert rows == [{"hour": 2, "tide": "low"}]
    assert "columns ['kind', 'cm'] of the table are new" in caplog.text
    later = [
        fetched.batch.to_pylist() for fetched in read(source_of(tmp_path, columns=["hour", "cm"])) if len(fetched.batch)
    ]
    assert sorted((row for rows in later for row in rows), key=str) == [{"hour": 1, "cm": None}, {"hour": 2, "cm": 5}]


def test_lost_and_changed_columns_are_refused(tmp_path: Path) -> None:
    """With their names."""
    changes: list[Callable[[Any], Any]] = [
        lambda update: update.delete_column("tide"),
        lambda update: update.update_column("hour", LongType()),
    ]
    for number, change in enumerate(changes):
        folder = make(tmp_path / str(number), [1])
        source = source_of(folder)
        place = last_place(source)
        with table_in(folder) as table, table.update_schema() as update:
            change(update)
        with raises(IcebergError):
            list(read(source, place))


def test_snapshots_that_are_gone_are_refused(tmp_path: Path) -> None:
    """They have expired, the table was rolled back, or made anew."""
    make(tmp_path, [1], [2], [3])
    source = source_of(tmp_path)
    with table_in(tmp_path) as table:
        first, second, _ = (one.snapshot_id for one in table.snapshots())
    place = last_place(source)
    with table_in(tmp_path) as table:
        table.manage_snapshots().rollback_to_snapshot(second).commit()
    with raises(IcebergError):
        list(read(source, place))
    append(tmp_path, [4])
    with raises(IcebergError):
        list(read(source, place))
    behind = place.__class__(place.table, behind=first)
    assert list(hours_of(source, behind).values()) == [[2], [4]]
    with table_in(tmp_path) as table:
        table.maintenance.expire_snapshots().by_id(first).commit()
    with raises(IcebergError):
        list(read(source, place.__class__(place.table)))
    with opened(tmp_path) as catalog:
        catalog.drop_table(NAME)
        catalog.create_table(NAME, TIDES)
    with raises(IcebergError):
        list(read(source, behind))


def test_files_that_are_gone_are_refused(tmp_path: Path) -> None:
    """Another program has removed them, with the snapshot that had them."""
    make(tmp_path, [1])
    for file in (tmp_path / "warehouse").rglob("*.parquet"):
        file.unlink()
    with raises(IcebergError):
        list(read(source_of(tmp_path)))


@pytest.mark.parametrize("more", [{"after": 7}, {"columns": ["cm"]}], ids=["snapshot", "column"])
def test_wrong_arguments_are_refused(tmp_path: Path, more: dict[str, Any]) -> None:
    """When the dataflow is described."""
    make(tmp_path, [1])
    with raises((IcebergError, GraphError)):
        source_of(tmp_path, **more)


def test_secrets_are_not_pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers read them."""
    make(tmp_path, [1])
    monkeypatch.setenv("TIDES_KEY", "sea-horse")
    source = IcebergSource({**settings(tmp_path), "s3.secret-access-key": tw.Secret("TIDES_KEY")}, NAME)
    assert hours_of(cloudpickle.loads(cloudpickle.dumps(source))) == {1: [1]}
    assert b"sea-horse" not in cloudpickle.dumps(source)


@pytest.mark.parametrize("cuts", [3, pytest.param(20, marks=pytest.mark.long)])
def test_a_pipeline_that_is_cut_off_equals_a_batch(tmp_path: Path, cuts: int) -> None:
    """From one table into another one: each row counts once, on changing numbers of workers."""
    random = Random(SEED)
    tides, totals = make(tmp_path / "tides"), tmp_path / "totals"
    totals.mkdir()
    make_table(totals, pa.schema([("hour", pa.int64()), ("twice", pa.int64())]))
    hours = iter(range(1, 10_000))

    def begin(workers: int) -> LocalJob:
        flow = tw.Dataflow("tides")
        doubled = flow.source("tides", source_of(tides)).map(
            lambda row: {"hour": row["hour"], "twice": 2 * row["hour"]}
        )
        doubled.sink(IcebergSink(settings(totals), NAME, name="totals"))
        snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=0.02)
        job = tw.run(flow, workers=workers, engine="local", snapshots=snapshots)
        assert isinstance(job, LocalJob)
        return job

    try:
        for _ in range(cuts):
            with begin(random.randint(1, 3)) as job:
                for _ in range(random.randrange(60)):
                    if random.random() < 0.1:
                        append(tides, [next(hours) for _ in range(random.randrange(1, 5))])
                    job.run_round()
                job.stop()
        append(tides, [next(hours)])
        with begin(2) as job:
            assert eventually(lambda: job.run_round() is not None and len(rows_in(totals)) >= len(rows_in(tides)))
            job.stop(snapshot=True)
        found = sorted(row["hour"] for row in rows_in(tides))
        assert sorted((row["hour"], row["twice"]) for row in rows_in(totals)) == [(hour, 2 * hour) for hour in found]
    except BaseException as error:
        error.add_note(f"TIDEWHEEL_KILLS_SEED={SEED}")
        raise
