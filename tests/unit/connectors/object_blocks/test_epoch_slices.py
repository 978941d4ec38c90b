"""The rows of each epoch in a table."""

from itertools import groupby
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.connectors.object_blocks.epoch_slices import epoch_slices

EPOCHS = st.lists(st.integers(0, 4) | st.integers(2**31 - 3, 2**31 - 1), max_size=40)
TYPES = st.sampled_from([pa.int32(), pa.int64()])


def chunked(values: list[int], sizes: list[int], kind: Any) -> Any:
    """Return a column of ``values`` in chunks of about these sizes, empty ones among them."""
    chunks, rest = [], list(values)
    for size in sizes:
        chunks.append(pa.array(rest[:size], kind))
        rest = rest[size:]
    return pa.chunked_array([*chunks, pa.array(rest, kind)], kind)


@given(EPOCHS, st.lists(st.integers(0, 5), max_size=5), TYPES)
def test_slices_are_the_runs_of_equal_epochs(epochs: list[int], sizes: list[int], kind: Any) -> None:
    """What is found on the whole column at once is what reading row by row finds, however the column is chunked."""
    rows = list(range(len(epochs)))
    table = pa.table({"row": rows, "epoch": chunked(epochs, sizes, kind)})
    expected = [(epoch, [row for row, _ in run]) for epoch, run in groupby(enumerate(epochs), key=lambda pair: pair[1])]
    found = list(epoch_slices(table, "epoch"))
    assert [(epoch, part["row"].to_pylist()) for epoch, part in found] == expected
    assert all(part["epoch"].to_pylist() == [epoch] * part.num_rows for epoch, part in found)
    assert all(type(epoch) is int for epoch, _ in found)


@given(EPOCHS, TYPES)
def test_a_sorted_table_gives_each_epoch_once(epochs: list[int], kind: Any) -> None:
    """An epoch of a block is one batch, and epochs rise."""
    table = pa.table({"epoch": pa.array(sorted(epochs), kind)})
    assert [epoch for epoch, _ in epoch_slices(table, "epoch")] == sorted(set(epochs))


def test_slices_share_the_memory_of_the_table() -> None:
    """Slicing copies no rows: each slice points into the buffers of the block."""
    table = pa.table({"epoch": pa.array([1, 1, 2, 2, 2], pa.int64())})
    address = table["epoch"].chunk(0).buffers()[1].address
    assert all(part["epoch"].chunk(0).buffers()[1].address == address for _, part in epoch_slices(table, "epoch"))
