"""The blocks of a dataset cut into batches and epochs, with a stand-in for Ray's object store and the dealer."""

import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.connectors.datasets import DatasetError, dataset_source, from_dataset, to_dataset
from tidewheel.connectors.datasets.block_dealer import Block
from tidewheel.connectors.datasets.dataset_source import DatasetSource
from tidewheel.host import extras


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an object be its own reference."""
    monkeypatch.setattr(ray, "get", lambda reference: reference)
    monkeypatch.setattr(ray, "wait", lambda references, timeout: (references, []))


class Remote:
    """A method of an actor that is here."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.remote = method


class Dealt:
    """A dealer that has all blocks."""

    def __init__(self, tables: list[pa.Table]) -> None:
        starts = [sum(table.num_rows for table in tables[:number]) for number in range(len(tables))]
        blocks = [Block(table, 0, table.num_rows, start) for table, start in zip(tables, starts, strict=True)]
        self.opened: list[str] = []
        self.open = Remote(lambda reader, readers, position, opening: self.opened.append(opening))
        self.block = Remote(lambda reader, number: blocks[number] if number < len(blocks) else None)
        self.closed: list[str] = []
        self.close = Remote(lambda reader, readers, opening: self.closed.append(opening))


def source(*tables: Any, time: str | None = "day") -> DatasetSource:
    return DatasetSource("rows", Dealt(list(tables)), time)


def read(source: DatasetSource, worker: int = 0, workers: int = 1, position: Any = None) -> list[Any]:
    """Return what a worker reads; nothing has to be waited for."""
    return list(source.open(source.partitions_of(workers)[worker], position))


@pytest.mark.parametrize(
    "tables",
    [
        [pa.table({"day": [3, 3, 2]})],
        [pa.table({"day": [1, 3]}), pa.table({"day": [2]})],
        [pa.table({"day": ["Monday"]})],
        [pa.table({"day": [1, None]})],
        [pa.table({"day": [-1]})],
        [pa.table({"hour": [1], "tide": [2]})],
    ],
    ids=["decreasing", "decreasing blocks", "strings", "nulls", "negative", "none"],
)
def test_other_epochs_are_refused(tables: list[Any]) -> None:
    """The error names the block, the column and what to do; the dealer learns that the reader has ended."""
    one = source(*tables)
    with raises(DatasetError):
        read(one)
    assert one.dealer.closed == one.dealer.opened
    assert len(one.dealer.opened) == 1


def test_each_opening_has_an_id() -> None:
    """By which the dealer tells whose end it learns of, though one began after the other."""
    one = source(pa.table({"day": [1]}))
    first, second = (one.open(one.partitions_of(1)[0], None) for _ in range(2))
    for reader in (first, second):
        next(reader)
    assert len(set(one.dealer.opened)) == 2
    for reader in (second, first):
        list(reader)
    assert one.dealer.closed == one.dealer.opened[::-1]


@given(
    sizes=st.lists(st.integers(1, 30), max_size=8),
    workers=st.integers(1, 3),
    cut=st.integers(0, 100),
    has_days=st.booleans(),
)
def test_a_reader_goes_on_behind_each_position(sizes: list[int], workers: int, cut: int, has_days: bool) -> None:
    """Read up to any batch and again from its position, each row comes once, at its epoch, in batches of a few rows."""
    ids = iter(range(1000))
    tables = [pa.table({"id": [next(ids) for _ in range(size)]}) for size in sizes]
    tables = [table.append_column("day", [[n // 7 for n in table["id"].to_pylist()]]) for table in tables]
    one = source(*tables, time="day" if has_days else None)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset_source, "BATCH_ROWS", 4)
        for worker in range(workers):
            whole = read(one, worker, workers)
            some = whole[: cut % (len(whole) + 1)]
            rest = read(one, worker, workers, some[-1].position) if some else whole
            assert [(batch.epoch, batch.batch.to_pylist()) for batch in whole] == [
                (batch.epoch, batch.batch.to_pylist()) for batch in [*some, *rest]
            ]
            assert [batch.position for batch in whole] == [batch.position for batch in [*some, *rest]]
            assert all(0 < batch.batch.num_rows <= 4 for batch in whole)
            found += [(batch.epoch, row) for batch in whole for row in batch.batch.to_pylist()]
    assert sorted(row["id"] for _, row in found) == list(range(sum(sizes)))
    assert all(epoch == (row["day"] if has_days else 0) for epoch, row in found)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Ray or Ray Data is touched, with the command that installs it."""
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "pandas" else name)
    monkeypatch.setitem(sys.modules, "ray", None)
    dataset: Any = object()
    with raises(DatasetError):
        from_dataset(tw.Dataflow("rows"), "rows", dataset)
    with raises(DatasetError):
        to_dataset([])
