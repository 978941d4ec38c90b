"""A sink of Iceberg stores each epoch once and whole, and says clearly what it cannot store."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import Table
from pyiceberg.types import StringType

import tidewheel as tw
from tests.kit.connectors.iceberg_catalog import NAME, make_table, rows_in, settings, table_in
from tests.kit.messages import raises
from tidewheel.connectors.iceberg import IcebergError, IcebergSink, IcebergSource
from tidewheel.progress import GraphError
from tidewheel.testing import check_sink

TIDES = pa.schema([pa.field("hour", pa.int32(), nullable=False), ("height", pa.float64()), ("epoch", pa.int64())])
_OPEN: list[IcebergSink] = []


@pytest.fixture(autouse=True)
def closed_sinks() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


def sink_in(folder: Path, name: str = "tides") -> IcebergSink:
    _OPEN.append(IcebergSink(settings(folder), NAME, name=name))
    return _OPEN[-1]


def store(sink: tw.Sink, epoch: int, *batches: Any) -> None:
    sink.commit(epoch, [sink.prepare(epoch, batch) for batch in batches])


def hours_in(folder: Path) -> list[int]:
    return [row["hour"] for row in rows_in(folder)]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_each_epoch_is_stored_once(workers: int) -> None:
    """Whichever call a crash precedes or follows."""

    def make(folder: Path) -> tw.Sink:
        make_table(folder, TIDES)
        return sink_in(folder)

    def read(folder: Path) -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = defaultdict(list)
        for row in rows_in(folder):
            found[row["epoch"]].append(row)
        return found

    epochs = [
        [{"hour": hour, "height": 0.5, "epoch": epoch} for hour in range(workers + 1 - epoch)]
        for epoch in range(workers)
    ]
    check_sink(make, read, epochs, workers=workers, workers_after=workers + 1)


def test_an_epoch_that_is_stored_changes_nothing(tmp_path: Path) -> None:
    """Nor does an earlier one, also behind snapshots of other programs."""
    make_table(tmp_path, TIDES)
    sink = sink_in(tmp_path)
    assert sink.last_committed() is None
    for epoch in (0, 1):
        store(sink, epoch, [{"hour": epoch}])
    with table_in(tmp_path) as table:
        for hour in (5, 6):
            table.append(pa.Table.from_pylist([{"hour": hour}], TIDES))
    for again in (sink, sink_in(tmp_path)):
        for epoch in (0, 1):
            store(again, epoch, [{"hour": 7}])
        assert again.last_committed() == 1
    assert sink_in(tmp_path, "other").last_committed() is None
    assert hours_in(tmp_path) == [0, 1, 5, 6]


def test_a_stale_worker_does_not_store_an_epoch_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the library would append to the new snapshot by itself, as it does not know epochs."""
    make_table(tmp_path, TIDES)
    seemed_dead, alive = sink_in(tmp_path), sink_in(tmp_path)
    part = seemed_dead.prepare(0, [{"hour": 1}])
    raced: list[bool] = []
    append = Table.append

    def race(table: Table, *given: Any, **more: Any) -> None:
        if not raced:
            raced.append(True)
            store(alive, 0, [{"hour": 1}])
        append(table, *given, **more)

    monkeypatch.setattr(Table, "append", race)
    seemed_dead.commit(0, [part])
    assert raced
    assert hours_in(tmp_path) == [1]


def test_other_writers_may_commit_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """The sink tries again, also with a column that is new."""
    make_table(tmp_path, TIDES)
    sink = sink_in(tmp_path)
    part = sink.prepare(0, [{"hour": 1}])
    others = iter([True])
    append = Table.append

    def race(table: Table, *given: Any, **more: Any) -> None:
        if next(others, False):
            with table_in(tmp_path) as other:
                append(other, pa.Table.from_pylist([{"hour": 2}], TIDES))
                with other.update_schema() as update:
                    update.add_column("tide", StringType())
        append(table, *given, **more)

    monkeypatch.setattr(Table, "append", race)
    sink.commit(0, [part])
    assert hours_in(tmp_path) == [1, 2]
    assert "tries again, after attempt 1" in caplog.text
    store(sink, 1, [{"hour": 3, "tide": "low"}])
    assert rows_in(tmp_path)[-1]["tide"] == "low"


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "lost"])
def test_an_unknown_outcome_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stored: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The catalog has the commit or not, and its answer was lost: the next attempt sees which."""
    make_table(tmp_path, TIDES)
    sink = sink_in(tmp_path)
    lost = iter([True])
    append = Table.append

    def lose(table: Table, *given: Any, **more: Any) -> None:
        is_lost = next(lost, False)
        if not is_lost or is_stored:
            append(table, *given, **more)
        if is_lost:
            raise CommitStateUnknownException("the answer was lost")

    monkeypatch.setattr(Table, "append", lose)
    store(sink, 0, [{"hour": 1}])
    assert hours_in(tmp_path) == [1]
    assert "CommitStateUnknownException: the answer was lost" in caplog.text


@pytest.mark.parametrize(
    "record",
    [{"hour": 1, "tide": "low"}, {"height": 0.5}, {"hour": "one"}, {"hour": 0.5}],
    ids=["column", "null", "type", "fraction"],
)
def test_a_record_that_does_not_fit_is_refused(tmp_path: Path, record: Any) -> None:
    """With the name of the column; nothing of the epoch is stored."""
    make_table(tmp_path, TIDES)
    with raises(IcebergError):
        store(sink_in(tmp_path), 0, [{"hour": 7}], [record])
    assert rows_in(tmp_path) == []


def test_a_table_has_to_be_there(tmp_path: Path) -> None:
    """The sink creates none; a table of version 1 has no numbers of snapshots."""
    make_table(tmp_path, TIDES, **{"format-version": "1"})
    with raises(IcebergError):
        sink_in(tmp_path).last_committed()
    _OPEN.append(IcebergSink(settings(tmp_path), "sea.waves", name="tides"))
    with raises(IcebergError):
        _OPEN[-1].last_committed()


def test_an_epoch_is_an_integer(tmp_path: Path) -> None:
    """As a property of a snapshot is compared."""
    with raises(IcebergError):
        sink_in(tmp_path).commit("noon", [])


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it, when the dataflow is described."""
    monkeypatch.setattr("tidewheel.host.extras.find_spec", lambda _: None)
    for kind in (IcebergSource, lambda catalog, table: IcebergSink(catalog, table, name="tides")):
        with raises(IcebergError):
            kind("sea", NAME)


def test_a_catalog_that_is_away_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a log line for each attempt, and an end."""
    _OPEN.append(IcebergSink({"type": "rest", "uri": "http://127.0.0.1:1"}, NAME, name="tides"))
    sink = _OPEN[-1]
    sink.retry = tw.Retry(attempts=2, first_pause_s=0.001, on=OSError)
    with pytest.raises(IcebergError, match="no success after 2 attempts"):
        sink.last_committed()
    assert "tries again" in caplog.text


@pytest.mark.parametrize(
    ("catalog", "table", "name"),
    [
        ({"uri": "postgresql://me:sea-horse@db/catalog"}, NAME, "tides"),
        ({"credential": "me:sea-horse"}, NAME, "tides"),
        ({"s3.secret-access-key": "sea-horse"}, NAME, "tides"),
        ({"adls.account-key": "sea-horse"}, NAME, "tides"),
        ("sea", "tides", "tides"),
        ("sea", NAME, ""),
    ],
    ids=["url", "credential", "s3", "adls", "namespace", "name"],
)
def test_wrong_arguments_are_refused(catalog: Any, table: str, name: str) -> None:
    """When the dataflow is described; a password in clear would be pickled."""
    with raises(GraphError) as refused:
        IcebergSink(catalog, table, name=name)
    assert "sea-horse" not in str(refused.value)


def test_secrets_are_not_pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers read them."""
    make_table(tmp_path, TIDES)
    monkeypatch.setenv("CATALOG_URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("TIDES_KEY", "sea-horse")
    catalog = {**settings(tmp_path), "uri": tw.Secret("CATALOG_URI"), "s3.secret-access-key": tw.Secret("TIDES_KEY")}
    _OPEN.append(IcebergSink(catalog, NAME, name="tides"))
    store(_OPEN[-1], 0, [{"hour": 1}])
    for text in (cloudpickle.dumps(_OPEN[-1]), repr(_OPEN[-1]).encode()):
        assert b"sea-horse" not in text
        assert b"catalog.db" not in text
    _OPEN.append(cloudpickle.loads(cloudpickle.dumps(_OPEN[-1])))
    assert _OPEN[-1].last_committed() == 0
