"""The blocks of a DataFrame shared among workers and cut into epochs, with a stand-in for Ray's object store."""

import pickle
from typing import Any

import pyarrow as pa
import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.spark.sources import arriving, part_of
from tidewheel.spark_bridge.cached_rdd import CachedRdd
from tidewheel.spark_bridge.dataframe_blocks import DataFrameBlocks
from tidewheel.spark_bridge.dataframe_source import DataFrameSource
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.testing import check_source

EPOCHS = st.lists(st.integers(0, 4) | st.integers(2**31 - 3, 2**31 - 1), max_size=40)
TYPES = st.sampled_from([pa.int32(), pa.int64()])
SCHEMA = pa.schema([("row", pa.int64()), ("epoch", pa.int64())])


def stream(table: Any) -> bytes:
    """Return what an executor stores for one partition: a stream of small batches, with metadata."""
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, table.schema.with_metadata({"made": "by Spark"})) as writer:
        writer.write_table(table, max_chunksize=3)
    return bytes(buffer.getvalue())


def source(epochs: list[int], block_rows: int, time: str | None, places: str = "") -> DataFrameSource:
    """Return a source of numbered rows with these epochs, whose references are the blocks themselves."""
    table = pa.table([range(len(epochs)), epochs], schema=SCHEMA)
    blocks: Any = [stream(table.slice(start, block_rows)) for start in range(0, len(epochs), block_rows)]
    rdd = CachedRdd(holders=tuple(places), nodes={place: place for place in places})
    return DataFrameSource("numbers", DataFrameBlocks(SCHEMA, rdd, tuple(blocks)), time)


@pytest.fixture(autouse=True, scope="module")
def store() -> Any:
    """Let a block be its own reference."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray, "get", lambda reference: reference)
        patch.setattr(ray, "wait", lambda references, timeout: (references, []))
        yield


@given(
    epochs=st.lists(st.integers(0, 6), max_size=60).map(sorted),
    block_rows=st.integers(1, 20),
    workers=st.integers(1, 5),
)
def test_each_row_is_read_once_at_its_epoch(epochs: list[int], block_rows: int, workers: int) -> None:
    """Over all workers every row comes once, at its own epoch, and on each worker epochs never decrease."""
    shared = source(epochs, block_rows, "epoch")
    seen = []
    for worker in range(workers):
        batches = list(arriving(part_of(shared, worker, workers)))
        assert [time for time, _ in batches] == sorted(time for time, _ in batches)
        assert all(batch.num_rows for _, batch in batches)
        assert all(set(batch["epoch"].to_pylist()) == {time} for time, batch in batches)
        seen += [row for _, batch in batches for row in batch["row"].to_pylist()]
    assert sorted(seen) == list(range(len(epochs)))


@given(rows=st.integers(0, 30), workers=st.integers(1, 4))
def test_without_an_epoch_column_all_is_at_time_zero(rows: int, workers: int) -> None:
    """A table without time is one epoch, a batch for each block, in the order of the blocks."""
    shared = source([5] * rows, 4, None)
    for worker in range(workers):
        batches = list(arriving(part_of(shared, worker, workers)))
        assert {time for time, _ in batches} <= {0}
        expected = [list(range(rows))[start : start + 4] for start in range(4 * worker, rows, 4 * workers)]
        assert [batch["row"].to_pylist() for _, batch in batches] == expected


@pytest.mark.parametrize(
    ("time", "read"), [(None, [[0, 1, 4], [2, 3, 5]]), ("epoch", [[0, 3, 4], [1, 2, 5]])], ids=["at once", "in epochs"]
)
def test_workers_read_what_is_on_their_nodes(time: str | None, read: list[list[int]]) -> None:
    """As far as each reads as much; with epochs each has one of the first two blocks, and of the next two."""
    shared = source(list(range(6)), 1, time, places="aabbab")
    for worker, expected in enumerate(read):
        near = part_of(shared.on_nodes(["a", "b"]), worker, 2)
        assert [row for _, batch in arriving(near) for row in batch["row"].to_pylist()] == expected
    anywhere = arriving(part_of(shared.on_nodes(["", ""]), 0, 2))
    assert list(anywhere) == list(arriving(part_of(shared, 0, 2)))


@pytest.mark.parametrize("time", [None, "epoch"])
def test_each_row_is_there_once_whichever_call_a_crash_follows(time: str | None) -> None:
    """The source keeps the contract of sources: as long as the blocks are there, a job reads each row once."""
    epochs = [0, 0, 1, 1, 3]
    rows = [{"row": row, "epoch": epoch} for row, epoch in enumerate(epochs)]
    check_source(lambda _: source(epochs, 2, time), {"0/1": rows}, seed=7)


def test_a_partition_in_the_cache_is_where_its_executor_is() -> None:
    """Where that, or which executor has it, is not known, its place is not; workers are told what the driver knew."""
    actors = {"0": "1f", "1": "2f", "2": "3f"}
    rdd = CachedRdd(7, "{}", "", ("1", "0", None, "2", "3"), actors, {"0": "a", "1": "b", "2": ""})
    assert rdd.places == ("b", "a", "", "", "")
    blocks = DataFrameBlocks(SCHEMA, rdd)
    sent = pickle.loads(pickle.dumps(blocks))
    assert (sent.places, sent.rdd, len(sent)) == (rdd.places, rdd, 5)
    assert blocks.is_read
    assert sent.is_read


def test_a_source_can_be_read_again() -> None:
    """A dataflow is a description: running it twice reads the same rows twice."""
    shared = source([0, 1, 1, 2], 3, "epoch")
    first, second = ([(time, batch.to_pylist()) for time, batch in arriving(part_of(shared, 0, 1))] for _ in range(2))
    assert first == second


def test_tables_are_plain() -> None:
    """A block is one chunk without Spark's metadata, so slices of it are cheap and concatenate with others."""
    ((_, table),) = arriving(part_of(source([0] * 10, 10, None), 0, 1))
    assert table.schema.metadata is None
    assert table["row"].num_chunks == 1


def test_the_source_is_what_a_dataflow_takes() -> None:
    """It keeps the contract of sources, and goes to the workers pickled."""
    shared = source([0, 1], 1, "epoch")
    assert isinstance(shared, tw.Source)
    sent = pickle.loads(pickle.dumps(shared))
    assert (sent.name, sent.time, sent.blocks.schema) == (shared.name, shared.time, shared.blocks.schema)
    assert sent.blocks.stored == shared.blocks.stored


def test_a_lost_block_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which block of which DataFrame is gone, why, and what to do."""

    def lose(_reference: Any) -> Any:
        raise ray.exceptions.ObjectLostError("0" * 56, None, "")

    monkeypatch.setattr(ray, "get", lose)
    partition = part_of(source([0, 1, 2], 1, "epoch"), 1, 2)
    with raises(BridgeError):
        next(partition)
