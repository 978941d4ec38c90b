"""A source of Delta Lake has each version as an epoch, over crashes, and refuses what it cannot say."""

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.seeds import seed_of
from tests.waiting import eventually
from tidewheel.connectors.delta import DeltaError, DeltaSink, DeltaSource
from tidewheel.operators.sources.contract import Fetched, Pause
from tidewheel.progress import GraphError
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.testing import check_source

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
FEED = {"delta.enableChangeDataFeed": "true"}


def table_at(folder: Path, *batches: list[int], **more: Any) -> str:
    """Create a table, with a version for each batch from version 1 on."""
    path = str(folder / "tides")
    schema = pa.schema([("hour", pa.int64()), ("tide", pa.string())])
    DeltaTable.create(path, schema, **more)
    for hours in batches:
        append(path, hours)
    return path


def append(path: str, hours: list[int], tide: str = "low", **more: Any) -> None:
    write_deltalake(path, pa.table({"hour": hours, "tide": [tide] * len(hours)}), mode="append", **more)


def read(source: DeltaSource, place: Any = None) -> Iterator[Any]:
    """Yield what a source reads until it pauses."""
    for fetched in source.open("versions", place):
        if isinstance(fetched, Pause):
            return
        assert isinstance(fetched, Fetched)
        yield fetched


def rows_of(source: DeltaSource, place: Any = None) -> dict[int, list[Any]]:
    """Return the rows of each version that has any."""
    found: dict[int, list[Any]] = {}
    for fetched in read(source, place):
        if len(fetched.batch):
            some = fetched.batch if isinstance(fetched.batch, list) else fetched.batch.to_pylist()
            found.setdefault(fetched.epoch, []).extend(some)
    return found


def hours_of(source: DeltaSource, place: Any = None) -> dict[int, list[int]]:
    return {epoch: sorted(row["hour"] for row in rows) for epoch, rows in rows_of(source, place).items()}


@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "endless"])
def test_it_keeps_the_contract_of_sources(bounded: bool) -> None:
    """Crashes before and after each call, while versions are added."""
    rows = [{"hour": hour, "tide": "low"} for hour in range(6)]

    def make(folder: Path) -> DeltaSource:
        return DeltaSource(table_at(folder, [0, 1], [2]), bounded=bounded, version=0)

    def grow(folder: Path) -> None:
        append(str(folder / "tides"), [3, 4])
        append(str(folder / "tides"), [5])

    if bounded:
        check_source(make, {"versions": rows[:3]})
    else:
        check_source(make, {"versions": rows}, grow=grow)


def test_the_change_feed_keeps_the_contract_of_sources() -> None:
    """A version at a time."""

    def make(folder: Path) -> DeltaSource:
        return DeltaSource(table_at(folder, [0, 1, 2], configuration=FEED), key="hour", version=0)

    def grow(folder: Path) -> None:
        DeltaTable(folder / "tides").delete("hour = 1")
        append(str(folder / "tides"), [3], "high")

    pairs = [*((hour, (hour, "low")) for hour in range(3)), (1, None), (3, (3, "high"))]
    check_source(make, {"versions": pairs}, grow=grow)


def test_each_version_is_an_epoch(tmp_path: Path) -> None:
    """The first one has all rows of the table; or those that are appended from a version on."""
    path = table_at(tmp_path, [1], [2, 3])
    state, later, all_of = DeltaSource(path), DeltaSource(path, version=3), DeltaSource(path, version=0)
    append(path, [4])
    assert hours_of(all_of) == {1: [1], 2: [2, 3], 3: [4]}
    assert hours_of(later) == {3: [4]}
    assert hours_of(state) == {3: [1, 2, 3, 4]}
    assert hours_of(DeltaSource(path, bounded=True)) == {3: [1, 2, 3, 4]}


@pytest.mark.parametrize("version", [None, 0], ids=["state", "versions"])
@pytest.mark.parametrize("key", ["", "hour"], ids=["rows", "pairs"])
@pytest.mark.parametrize("divided", [[], ["hour"]], ids=["large files", "small files"])
def test_it_goes_on_inside_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int | None, key: str, divided: list[str]
) -> None:
    """From each place, each row comes once."""
    for limit in ("_MOST_ROWS", "_MOST_PAIRS"):
        monkeypatch.setattr(f"tidewheel.connectors.delta.delta_source.{limit}", 2)
    path = table_at(tmp_path, partition_by=divided, configuration=FEED)
    for first in (0, 10):
        append(path, [*range(first, first + 5)])
    source = DeltaSource(path, version=version, key=key or ())
    places, seen = [None], [0]
    for fetched in read(source):
        places.append(fetched.position)
        seen.append(seen[-1] + len(fetched.batch))
    assert seen[-1] == 10
    assert len(places) > 6
    for place, before in zip(places, seen, strict=True):
        rows = [row for rows in rows_of(source, place).values() for row in rows]
        assert len({str(row) for row in rows}) == len(rows) == 10 - before


def test_values_of_partitions_have_their_types(tmp_path: Path) -> None:
    """The log has them as text, and the files leave them out."""
    table = pa.table(
        {
            "n": [1, 2],
            "day": [date(2026, 6, 1), None],
            "text": ["a b/c=d%é", None],
            "cents": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
            "flag": [True, None],
            "at": pa.array([datetime(2026, 6, 1, 12, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
            "local": pa.array([datetime(2026, 6, 1, 12), None], pa.timestamp("us")),  # noqa: DTZ001
            "ratio": [0.5, None],
        }
    )
    path = str(tmp_path / "tides")
    write_deltalake(path, table, partition_by=table.column_names[1:])
    (rows,) = rows_of(DeltaSource(path, version=0)).values()
    assert sorted(rows, key=lambda row: row["n"]) == table.to_pylist()
    assert sorted(rows_of(DeltaSource(path))[0], key=lambda row: row["n"]) == table.to_pylist()


def test_bytes_in_partitions_are_refused(tmp_path: Path) -> None:
    """Their log has them escaped, and deltalake reads them so; other columns can be read."""
    path = str(tmp_path / "tides")
    write_deltalake(path, pa.table({"n": [1], "day": [b"a"], "raw": [b"b"]}), partition_by=["day"])
    with raises(DeltaError):
        DeltaSource(path)
    for version in (None, 0):
        assert rows_of(DeltaSource(path, columns=["n", "raw"], version=version)) == {0: [{"n": 1, "raw": b"b"}]}


def test_compaction_and_vacuum_are_passed_over(tmp_path: Path) -> None:
    """They change no rows."""
    path = table_at(tmp_path, [1], [2])
    source, fed = DeltaSource(path, version=0), Path(tmp_path, "fed")
    DeltaTable(path).optimize.compact()
    DeltaTable(path).vacuum(retention_hours=200, dry_run=False)
    append(path, [3])
    assert list(hours_of(source).values()) == [[1], [2], [3]]
    path = table_at(fed, [1], [2], configuration=FEED)
    source = DeltaSource(path, version=0, key="hour")
    DeltaTable(path).optimize.compact()
    append(path, [3])
    assert [len(pairs) for pairs in rows_of(source).values()] == [1, 1, 1]


@pytest.mark.parametrize("change", ["delete", "overwrite", "update"])
def test_removed_rows_are_refused_among_appended_ones(tmp_path: Path, change: str) -> None:
    """With the number of the version, from which on a job can begin."""
    path = table_at(tmp_path, [1, 2])
    source = DeltaSource(path)
    place = [fetched.position for fetched in read(source)][-1]
    changes: dict[str, Callable[[], Any]] = {
        "delete": lambda: DeltaTable(path).delete("hour = 1"),
        "update": lambda: DeltaTable(path).update({"tide": "'high'"}),
        "overwrite": lambda: write_deltalake(path, pa.table({"hour": [7], "tide": ["low"]}), mode="overwrite"),
    }
    changes[change]()
    with raises(DeltaError):
        list(read(source, place))


def test_changes_make_the_table(tmp_path: Path) -> None:
    """A collection of inserts, updates also of keys, deletes, a merge and an overwrite equals the table."""
    path = table_at(tmp_path, [1, 2, 3], configuration=FEED)
    flow = tw.Dataflow("tides")
    source = DeltaSource(path, key="hour")
    steps: list[Callable[[], Any]] = [
        lambda: DeltaTable(path).update({"tide": "'high'"}, predicate="hour = 1"),
        lambda: DeltaTable(path).update({"hour": "20"}, predicate="hour = 2"),
        lambda: DeltaTable(path).delete("hour = 3"),
        lambda: (
            DeltaTable(path)
            .merge(
                pa.table({"hour": [1, 4], "tide": ["m", "m"]}), "s.hour = t.hour", source_alias="s", target_alias="t"
            )
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        ),
        lambda: append(path, [5]),
        lambda: write_deltalake(path, pa.table({"hour": [5, 6], "tide": ["o", "o"]}), mode="overwrite"),
    ]
    flow.source("tides", source).as_collection(upserts=True).changes().capture("changes")
    expected = {}
    with tw.run(flow, workers=2, engine="local") as job:
        assert isinstance(job, LocalJob)

        def state() -> dict[int, Any]:
            found: dict[Any, int] = {}
            for captured in job.captured("changes"):
                for record, by in captured.batch:
                    found[record] = found.get(record, 0) + by
            assert set(found.values()) <= {0, 1}
            return {key: row for (key, row), count in found.items() if count}

        for step in [lambda: None, *steps]:
            step()
            expected = {row["hour"]: tuple(row.values()) for row in DeltaTable(path).to_pyarrow_table().to_pylist()}
            assert eventually(lambda: job.run_round() is not None and state() == expected)  # noqa: B023 - it is called now
        job.stop()
    assert expected == {5: (5, "o"), 6: (6, "o")}


def test_a_key_of_two_rows_is_refused(tmp_path: Path) -> None:
    """A collection would keep one of them."""
    source = DeltaSource(table_at(tmp_path, [1, 2, 1], configuration=FEED), key="hour", version=0)
    with raises(DeltaError):
        list(read(source))


def test_new_columns_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a warning; a source that is made then reads them, with nulls before."""
    path = table_at(tmp_path, [1])
    source = DeltaSource(path)
    write_deltalake(path, pa.table({"hour": [2], "tide": ["low"], "cm": [5]}), mode="append", schema_mode="merge")
    append(path, [3], schema_mode="merge")
    assert {tuple(row) for rows in rows_of(source).values() for row in rows} == {("hour", "tide")}
    rest = DeltaSource(path, version=0, columns=["cm", "hour"])
    assert list(rows_of(rest).values()) == [
        [{"cm": None, "hour": 1}],
        [{"cm": 5, "hour": 2}],
        [{"cm": None, "hour": 3}],
    ]
    assert rows_of(DeltaSource(path, version=1, columns=["hour"]))[1] == [{"hour": 1}]
    source = DeltaSource(path)
    place = [fetched.position for fetched in read(source)][-1]
    wind = Field("wind", PrimitiveType("string"))
    DeltaTable(path).alter.add_columns([wind])
    list(read(source, place))
    assert "['wind'] are new in version 4" in caplog.text


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    """And one that is lost."""
    path = table_at(tmp_path, [1])
    source = DeltaSource(path)
    place = [fetched.position for fetched in read(source)][-1]
    write_deltalake(path, pa.table({"hour": ["one"], "tide": ["low"]}), mode="overwrite", schema_mode="overwrite")
    with raises(DeltaError):
        list(read(source, place))
    write_deltalake(path, pa.table({"hour": [1]}), mode="overwrite", schema_mode="overwrite")
    with raises(DeltaError):
        list(read(source, place.__class__(place.table, 3)))


def test_a_version_that_is_gone_is_refused(tmp_path: Path) -> None:
    """Its files by VACUUM, its entry of the log by age, its table by another one at its place."""
    path = table_at(tmp_path, [1], [2])
    source = DeltaSource(path, version=0)
    place = next(read(source)).position
    DeltaTable(path).optimize.compact()
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with raises(DeltaError):
        list(read(source, place))
    DeltaTable(path).create_checkpoint()
    for version in range(2):
        Path(path, "_delta_log", f"{version:020}.json").unlink()
    with raises(DeltaError):
        list(read(source, place))
    with raises(DeltaError):
        list(read(source, place.__class__(place.table, 99)))
    with raises(DeltaError):
        list(read(source, place.__class__("another", 1)))


@pytest.mark.parametrize("last", [4, 2, 1, 0, None], ids=["more", "as many", "fewer", "one", "none"])
def test_another_table_at_its_place_is_refused(
    tmp_path: Path, last: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the source reads: at its first new version, or after some time without one."""
    if last != 4:
        monkeypatch.setattr("tidewheel.connectors.delta.delta_source._CHECKS_EVERY_S", 0.0)
    source = DeltaSource(table_at(tmp_path, [1], [2]), version=0)
    reader = source.open("versions", None)
    while not isinstance(next(reader), Pause):
        pass
    shutil.rmtree(tmp_path / "tides")
    if last is not None:
        table_at(tmp_path, *([100 + number] for number in range(last)))
    with raises(DeltaError):
        for _ in range(5):
            assert isinstance(next(reader), Pause)


def test_a_table_that_is_restored_from_a_copy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the source reads: the next version would be another one of the same number."""
    monkeypatch.setattr("tidewheel.connectors.delta.delta_source._CHECKS_EVERY_S", 0.0)
    source = DeltaSource(table_at(tmp_path, [1], [2]), version=0)
    reader = source.open("versions", None)
    while not isinstance(next(reader), Pause):
        pass
    for version in (1, 2):
        Path(tmp_path, "tides", "_delta_log", f"{version:020}.json").unlink()
    with raises(DeltaError):
        next(reader)


def test_a_feed_whose_files_are_gone_is_refused(tmp_path: Path) -> None:
    """As its rows cannot be read any more."""
    path = table_at(tmp_path, [1], [2], configuration=FEED)
    source = DeltaSource(path, version=0, key="hour")
    DeltaTable(path).optimize.compact()
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with raises(DeltaError):
        list(read(source))


@pytest.mark.parametrize(
    "more",
    [{"key": "hour"}, {"version": 9}, {"version": -1}, {"columns": ["cm"]}, {"columns": ["tide"], "key": "hour"}],
    ids=["feed", "later", "negative", "column", "key"],
)
def test_wrong_arguments_are_refused(tmp_path: Path, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """When the dataflow is described."""
    table_at(tmp_path, [1], configuration=FEED if "columns" in more else {})
    monkeypatch.chdir(tmp_path)
    with raises((DeltaError, GraphError)):
        DeltaSource("tides", **more)


def test_a_table_has_to_be_there(tmp_path: Path) -> None:
    """When the source is made."""
    with raises(DeltaError):
        DeltaSource(tmp_path / "tides")


def test_secrets_are_not_pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers read them."""
    monkeypatch.setenv("TIDES_KEY", "sea-horse")
    options = {"AWS_SECRET_ACCESS_KEY": tw.Secret("TIDES_KEY")}
    source = DeltaSource(table_at(tmp_path, [1]), storage_options=options)
    assert hours_of(source) == {1: [1]}
    assert b"sea-horse" not in cloudpickle.dumps(source)
    assert "sea-horse" not in repr(source)
    with raises(GraphError):
        DeltaSource(tmp_path / "tides", storage_options={"AWS_SECRET_ACCESS_KEY": "sea-horse"})


@pytest.mark.parametrize("cuts", [3, pytest.param(30, marks=pytest.mark.long)])
def test_a_pipeline_that_is_cut_off_equals_a_batch(tmp_path: Path, cuts: int) -> None:
    """From one table into another one: each row counts once, on changing numbers of workers."""
    random = Random(SEED)
    path, result = table_at(tmp_path), str(tmp_path / "totals")
    hours = iter(range(1, 10_000))

    def begin(workers: int) -> LocalJob:
        flow = tw.Dataflow("tides")
        tides = flow.source("tides", DeltaSource(path, version=0))
        totals = tides.map(lambda row: {"hour": row["hour"], "twice": 2 * row["hour"]})
        totals.sink(DeltaSink(result, name="totals"))
        snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=0.02)
        job = tw.run(flow, workers=workers, engine="local", snapshots=snapshots)
        assert isinstance(job, LocalJob)
        return job

    def found(table: str, column: str) -> list[int]:
        if not DeltaTable.is_deltatable(table):
            return []
        return sorted(DeltaTable(table).to_pyarrow_table().column(column).to_pylist())

    try:
        for _ in range(cuts):
            with begin(random.randint(1, 3)) as job:
                for _ in range(random.randrange(60)):
                    if random.random() < 0.1:
                        append(path, [next(hours) for _ in range(random.randrange(1, 5))])
                    job.run_round()
                job.stop()
            assert set(found(result, "hour")) <= set(found(path, "hour"))
        append(path, [next(hours)])
        with begin(2) as job:
            assert eventually(
                lambda: job.run_round() is not None and len(found(result, "hour")) >= len(found(path, "hour"))
            )
            job.stop(snapshot=True)
        assert found(result, "hour") == found(path, "hour")
        assert found(result, "twice") == [2 * hour for hour in found(path, "hour")]
    except BaseException as error:
        error.add_note(f"TIDEWHEEL_KILLS_SEED={SEED}")
        raise
