"""A sink of Delta Lake stores each epoch once and whole, and says clearly what it cannot store."""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.stores.s3_fixtures import bucket, s3_endpoint, s3_environment, s3_port
from tidewheel.connectors.delta import DeltaError, DeltaSink, DeltaSource
from tidewheel.progress import GraphError
from tidewheel.testing import check_sink

__all__ = ["bucket", "s3_endpoint", "s3_environment", "s3_port"]

TIDES = pa.schema([pa.field("hour", pa.int32(), nullable=False), ("height", pa.float64()), ("epoch", pa.int64())])


def table_at(folder: Path, schema: pa.Schema = TIDES) -> str:
    path = str(folder / "tides")
    DeltaTable.create(path, schema)
    return path


def stored(path: str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(path, **options).to_pyarrow_table().to_pylist()
    return sorted(rows, key=str)


def store(sink: tw.Sink, epoch: int, *batches: Any) -> None:
    sink.commit(epoch, [sink.prepare(epoch, batch) for batch in batches])


def epochs_in(path: str) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    if DeltaTable.is_deltatable(path):
        for row in stored(path):
            found[row["epoch"]].append(row)
    return found


@pytest.mark.parametrize("exists", [True, False], ids=["there", "new"])
def test_each_epoch_is_stored_once(exists: bool) -> None:
    """Whichever call a crash precedes or follows."""

    def make(folder: Path) -> tw.Sink:
        path = table_at(folder) if exists else str(folder / "tides")
        return DeltaSink(path, name="tides")

    rows = [
        {"hour": hour, "height": hour / 2, "epoch": epoch}
        for epoch, hours in ((0, (1, 2)), (2, (3,)))
        for hour in hours
    ]
    epochs = [[row for row in rows if row["epoch"] == epoch] for epoch in range(3)]
    check_sink(make, lambda folder: epochs_in(str(folder / "tides")), epochs)


def test_an_epoch_that_is_stored_changes_nothing(tmp_path: Path) -> None:
    """Nor does an earlier one, though the library itself appends a repeated version again."""
    path = table_at(tmp_path)
    sink = DeltaSink(path, name="tides")
    assert sink.last_committed() is None
    for epoch in (0, 1):
        store(sink, epoch, [{"hour": epoch}])
    for again in (sink, DeltaSink(path, name="tides")):
        for epoch in (0, 1):
            store(again, epoch, [{"hour": 7}])
        assert again.last_committed() == 1
    assert [row["hour"] for row in stored(path)] == [0, 1]


def test_a_stale_worker_does_not_store_an_epoch_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that seemed dead has looked, the new one stores the epoch, and the first one goes on to write."""
    path = table_at(tmp_path)
    seemed_dead, alive = (DeltaSink(path, name="tides") for _ in range(2))
    part = seemed_dead.prepare(0, [{"hour": 1}])
    raced: list[bool] = []

    def write(table: DeltaTable, rows: pa.Table, **more: Any) -> None:
        if not raced:
            raced.append(True)
            store(alive, 0, [{"hour": 1}])
        write_deltalake(table, rows, **more)

    monkeypatch.setattr("deltalake.write_deltalake", write)
    seemed_dead.commit(0, [part])
    assert raced
    assert [row["hour"] for row in stored(path)] == [1]


def test_an_unknown_outcome_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """The store has the commit, and its answer was lost: the next attempt sees the epoch."""
    path = table_at(tmp_path)
    sink = DeltaSink(path, name="tides")
    lost = iter([True])

    def write(*given: Any, **more: Any) -> None:
        write_deltalake(*given, **more)
        if next(lost, False):
            raise OSError("the answer was lost")

    monkeypatch.setattr("deltalake.write_deltalake", write)
    store(sink, 0, [{"hour": 1}])
    assert len(stored(path)) == 1
    assert "the answer was lost" in caplog.text


def test_other_writers_may_commit_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Rows, which fit, and a change of the table, after which the sink tries again with the new columns."""
    path = table_at(tmp_path)
    sink = DeltaSink(path, name="tides")
    sink.last_committed()
    part = sink.prepare(0, [{"hour": 1}])
    tide = Field("tide", PrimitiveType("string"))
    others: Iterator[Callable[[], Any]] = iter(
        [
            lambda: DeltaTable(path).alter.add_columns([tide]),
            lambda: write_deltalake(
                path, pa.table({"hour": pa.array([2], pa.int32())}), mode="append", schema_mode="merge"
            ),
        ]
    )

    def write(*given: Any, **more: Any) -> None:
        next(others, lambda: None)()
        write_deltalake(*given, **more)

    monkeypatch.setattr("deltalake.write_deltalake", write)
    sink.commit(0, [part])
    assert [(row["hour"], row["tide"]) for row in stored(path)] == [(1, None), (2, None)]
    assert "tries again, after attempt 1" in caplog.text
    store(sink, 1, [{"hour": 3, "tide": "low"}])
    assert stored(path)[-1]["tide"] == "low"


def test_the_last_epoch_does_not_expire(tmp_path: Path) -> None:
    """Though the table lets transactions of applications expire at once."""
    properties = {"delta.setTransactionRetentionDuration": "interval 0 seconds"}
    DeltaTable.create(tmp_path / "tides", TIDES, configuration=properties)
    store(DeltaSink(tmp_path / "tides", name="tides"), 0, [{"hour": 1}])
    assert DeltaSink(tmp_path / "tides", name="tides").last_committed() == 0


def test_sinks_of_one_table_have_names(tmp_path: Path) -> None:
    """Each has its own last epoch."""
    path = table_at(tmp_path)
    one, other = (DeltaSink(path, name=name) for name in ("one", "other"))
    store(one, 3, [{"hour": 1}])
    assert (one.last_committed(), other.last_committed()) == (3, None)


class Tide(NamedTuple):
    hour: int
    height: float


def test_records_become_rows(tmp_path: Path) -> None:
    """Of Arrow, dicts and named tuples; columns that they lack are null, and numbers may have other types."""
    path = table_at(tmp_path)
    sink = DeltaSink(path, name="tides")
    arrow = pa.table({"height": pa.array([1, 2], pa.int8()), "hour": [1, 2]})
    store(sink, 0, arrow, arrow.to_batches()[0].slice(1), [{"hour": 3}], [Tide(4, 0.5)])
    found = [(row["hour"], row["height"]) for row in stored(path)]
    assert found == [(1, 1.0), (2, 2.0), (2, 2.0), (3, None), (4, 0.5)]


def test_a_new_table_has_the_columns_of_the_first_epoch(tmp_path: Path) -> None:
    """Or those of schema=, and is divided as partition_by= says."""
    rows = [{"day": date(2026, 6, 1), "cents": Decimal("1.5")}, {"day": date(2026, 6, 2), "cents": None}]
    first = DeltaSink(tmp_path / "first", name="tides", partition_by="day")
    store(first, 0, rows[:1], rows[1:])
    assert stored(str(tmp_path / "first")) == rows
    assert DeltaTable(tmp_path / "first").metadata().partition_columns == ["day"]
    schema = pa.schema([("day", pa.date32()), ("cents", pa.decimal128(10, 2)), ("name", pa.string())])
    store(DeltaSink(tmp_path / "second", name="tides", schema=schema), 0, rows)
    assert pa.schema(DeltaTable(tmp_path / "second").schema().to_arrow()) == schema


@pytest.mark.parametrize(
    "record",
    [{"hour": 1, "tide": "low"}, {"height": 0.5}, {"hour": "one"}, {"hour": 0.5}, {"hour": 1 << 40}, 7, None],
    ids=["column", "null", "type", "fraction", "large", "number", "none"],
)
def test_a_record_that_does_not_fit_is_refused(tmp_path: Path, record: Any) -> None:
    """With the name of the column; nothing of the epoch is stored. The library itself would cut the fraction off."""
    path = table_at(tmp_path)
    sink = DeltaSink(path, name="tides")
    with raises(DeltaError):
        store(sink, 0, [{"hour": 7}], [record])
    assert stored(path) == []
    assert sink.last_committed() is None


def test_a_table_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Before the first epoch: it is divided in another way."""
    with raises(DeltaError):
        DeltaSink(table_at(tmp_path), name="tides", partition_by=["hour"]).last_committed()


@pytest.mark.parametrize(("town", "empty"), [("Oslo", ""), (b"Oslo", b"")], ids=["text", "bytes"])
@pytest.mark.parametrize("exists", [True, False], ids=["there", "new"])
def test_an_empty_value_of_a_partition_is_refused(tmp_path: Path, exists: bool, town: Any, empty: Any) -> None:
    """It would be null for readers. Null itself is stored, and empty text in other columns."""
    sink = DeltaSink(tmp_path / "tides", name="tides", partition_by="town")
    allowed = [{"town": town, "tide": ""}, {"town": None, "tide": ""}]
    if exists:
        store(sink, 0, allowed)
    with raises(DeltaError):
        store(sink, 1, [*allowed, {"town": empty, "tide": "low"}])
    found = stored(str(tmp_path / "tides"))
    assert [row["tide"] for row in found] == [""] * len(found)
    assert len(found) == (2 if exists else 0)


def test_a_new_table_needs_types(tmp_path: Path) -> None:
    """Nulls alone have none."""
    with raises(DeltaError):
        store(DeltaSink(tmp_path / "tides", name="tides"), 0, [{"hour": None}])


@pytest.mark.parametrize("epoch", [-1, True, (0, 1), "noon"], ids=repr)
def test_an_epoch_is_an_integer(tmp_path: Path, epoch: Any) -> None:
    """As the log notes integers."""
    with raises(DeltaError):
        store(DeltaSink(tmp_path / "tides", name="tides"), epoch, [{"hour": 1}])


@pytest.mark.parametrize(
    ("table", "more"),
    [
        ("s3://me:sea-horse@tides/prices", {}),
        ("abfss://tides?sig=sea-horse", {}),
        ("s3://tides", {"storage_options": {"AWS_SECRET_ACCESS_KEY": "sea-horse"}}),
        ("s3://tides", {"storage_options": {"azure_storage_account_key": "sea-horse"}}),
        ("s3://tides", {"storage_options": {"proxy_url": "http://me:sea-horse@proxy"}}),
    ],
)
def test_a_password_in_clear_is_refused(table: str, more: Any) -> None:
    """It would be pickled; the error does not have it."""
    with raises(GraphError) as refused:
        DeltaSink(table, name="tides", **more)
    assert "sea-horse" not in str(refused.value)


@pytest.mark.parametrize(
    ("table", "name"), [("", "tides"), (7, "tides"), ("tides", "")], ids=["empty", "number", "name"]
)
def test_wrong_arguments_are_refused(table: Any, name: str) -> None:
    """When the dataflow is described."""
    with raises(GraphError):
        DeltaSink(table, name=name)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it, when the dataflow is described."""
    monkeypatch.setattr("tidewheel.host.extras.find_spec", lambda _: None)
    for kind in (DeltaSource, lambda table: DeltaSink(table, name="tides")):
        with raises(DeltaError):
            kind("tides")


def test_a_store_that_is_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """With a log line for each attempt, and an end."""
    options = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "sea",
        "max_retries": "0",
    }
    sink = DeltaSink("s3://tides/prices", name="tides", storage_options={**options, "AWS_SKIP_SIGNATURE": "true"})
    sink.retry = tw.Retry(attempts=2, first_pause_s=0.001, on=OSError)
    with pytest.raises(DeltaError, match="no success after 2 attempts"):
        sink.last_committed()
    assert "tries again" in caplog.text


def test_it_stores_in_s3(s3_endpoint: str, bucket: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """With a secret that is read where a worker connects, and is in no pickle, name or log line."""
    monkeypatch.setenv("TIDES_KEY", "sea-horse")
    options = {
        "AWS_ENDPOINT_URL": s3_endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "tides",
        "AWS_REGION": "us-east-1",
    }
    sink = DeltaSink(
        f"{bucket}/tides", name="tides", storage_options={**options, "AWS_SECRET_ACCESS_KEY": tw.Secret("TIDES_KEY")}
    )
    for epoch in range(2):
        store(sink, epoch, [{"hour": epoch}])
    copied = pickle.loads(cloudpickle.dumps(sink))
    store(copied, 1, [{"hour": 7}])
    assert copied.last_committed() == 1
    found = stored(f"{bucket}/tides", storage_options={**options, "AWS_SECRET_ACCESS_KEY": "sea-horse"})
    assert [row["hour"] for row in found] == [0, 1]
    for text in (cloudpickle.dumps(sink), cloudpickle.dumps(copied), repr(sink).encode(), caplog.text.encode()):
        assert b"sea-horse" not in text
