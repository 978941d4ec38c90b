"""Slices of Arrow that refer to their own rows only."""

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.batches.arrow_slices import LARGE, trimmed
from tidewheel.batches.batches import PackedArrow, pack, unpack

NUMBERS = pa.table(
    {
        "small": pa.array(range(40_000), pa.uint16()),
        "real": pa.array([n / 2 for n in range(40_000)], pa.float64()),
        "when": pa.array(range(40_000), pa.timestamp("us")),
    }
)
CHUNKS = pa.concat_tables([NUMBERS, NUMBERS.slice(10, 9_000), NUMBERS.slice(0, 0)])
WITH_COPIES = {
    "text": pa.array(["a", "b"] * 50_000),
    "truth": pa.array([True, False] * 50_000),
    "nulls": pa.array([1, None] * 50_000),
    "lists": pa.array([[1], [2, 3]] * 50_000),
    "words": pa.array(["a", "b"] * 50_000).dictionary_encode(),
}


@law_settings(60)
@given(st.sampled_from([NUMBERS, CHUNKS]), st.integers(0, 49_000), st.integers(1, 49_000))
def test_the_rows_are_the_same_and_the_memory_is_that_of_the_whole(whole: Any, first: int, count: int) -> None:
    """Nothing is copied, and nothing else of the whole is referred to; small slices are left to others."""
    part = whole.slice(first, count)
    made = trimmed(part)
    if part.nbytes < LARGE * part.num_columns * part.column(0).num_chunks:
        assert made is None
        return
    assert made.equals(part)
    assert made.schema == part.schema
    assert made.get_total_buffer_size() == part.nbytes
    ends = [(one.address, one.address + one.size) for one in buffers(whole)]
    assert all(any(a <= one.address and one.address + one.size <= b for a, b in ends) for one in buffers(made))


def buffers(table: Any) -> list[Any]:
    """Return the buffers of all chunks that have any bytes."""
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    return [one for chunk in chunks for one in chunk.buffers() if one is not None and one.size]


def test_a_record_batch_stays_one() -> None:
    """It has no chunks."""
    part = NUMBERS.to_batches()[0].slice(100, 20_000)
    made = trimmed(part)
    assert isinstance(made, pa.RecordBatch)
    assert made.equals(part)
    assert made.get_total_buffer_size() == part.nbytes


@pytest.mark.parametrize("kind", WITH_COPIES)
def test_what_needs_a_copy_goes_as_a_stream(kind: str) -> None:
    """Bits, offsets and values elsewhere do not begin where the slice does."""
    part = pa.table({"n": range(100_000), kind: WITH_COPIES[kind]}).slice(3, 50_000)
    assert trimmed(part) is None
    packed = pack(part)
    assert isinstance(packed, PackedArrow)
    assert unpack(packed).equals(part)


def test_a_slice_of_numbers_is_pickled_without_a_copy() -> None:
    """Its buffers go beside the pickle, and have its own rows."""
    part, beside = NUMBERS.slice(500, 30_000), list[pickle.PickleBuffer]()
    pickled = pickle.dumps(pack(part), protocol=5, buffer_callback=beside.append)
    assert sum(one.raw().nbytes for one in beside) == part.nbytes
    assert unpack(pickle.loads(pickled, buffers=beside)).equals(part)
