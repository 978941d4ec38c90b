"""Encoding and decoding of batches."""

import pickle
import sys
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidewheel.pubsub import DeliveryError
from tidewheel.pubsub.messages.payload import EncodedBatch, decode, encode, to_records

TABLE = pa.table({"word": ["a", "b", "c"], "count": [1, 2, 3]})


@pytest.mark.parametrize("batch", [[], [1, "two", (3.0, None)], [{"a": {1}}]])
def test_lists_come_back_equal(batch: list[Any]) -> None:
    """A list of anything picklable survives, with its number of records."""
    encoded = encode(batch)
    assert (encoded.encoding, encoded.records) == ("pickle", len(batch))
    assert decode(encoded) == batch


def test_numpy_comes_back_as_numpy() -> None:
    """An array survives with its type; its first axis counts records."""
    batch = np.arange(6, dtype=np.int32).reshape(3, 2)
    encoded = encode(batch)
    assert encoded.records == 3
    assert decode(encoded).dtype == np.int32
    np.testing.assert_array_equal(decode(encoded), batch)


@pytest.mark.parametrize("batch", [TABLE, TABLE.to_batches()[0], TABLE.slice(1, 2)])
def test_arrow_comes_back_as_a_table(batch: Any) -> None:
    """Tables, record batches and slices travel as Arrow, not as a pickle, and come back as tables."""
    encoded = encode(batch)
    assert (encoded.encoding, encoded.records) == ("arrow", batch.num_rows)
    assert decode(encoded).to_pylist() == batch.to_pylist()
    assert isinstance(decode(encoded), pa.Table)


def test_a_slice_does_not_carry_the_whole_table() -> None:
    """What is sent of a slice is the slice."""
    large = pa.table({"x": list(range(100_000))})
    assert len(encode(large.slice(5, 10)).payload) < 10_000


def test_classes_of_a_script_travel_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of a class that the subscriber cannot import are decoded all the same."""

    class Local:
        value = 7

    Local.__module__, Local.__qualname__ = "__main__", "Local"
    with monkeypatch.context() as script:
        script.setattr(sys.modules["__main__"], "Local", Local, raising=False)
        encoded = encode([Local()])
    [copy] = decode(encoded)
    assert copy.value == 7


def test_what_cannot_be_pickled_is_refused_with_the_reason() -> None:
    """A batch with a lock in it raises DeliveryError, which says what to do."""
    with pytest.raises(DeliveryError, match=r"cannot be pickled .*lock.*map the records"):
        encode([threading.Lock()])


@pytest.mark.parametrize("batch", [7, np.array(7), None])
def test_what_is_no_batch_is_refused(batch: object) -> None:
    """Something without records raises DeliveryError."""
    with pytest.raises(DeliveryError, match="is no batch"):
        encode(batch)


@pytest.mark.parametrize("encoding", ["pickle", "arrow"])
def test_bytes_that_do_not_decode_are_an_error(encoding: Any) -> None:
    """Broken bytes raise DeliveryError, whatever the decoder made of them."""
    with pytest.raises(DeliveryError, match="does not decode"):
        decode(EncodedBatch(encoding, b"not a batch", 1))


@pytest.mark.parametrize(
    ("batch", "records"),
    [
        ([1, (2, 3)], [1, (2, 3)]),
        (np.array([1, 2]), [1, 2]),
        (TABLE.slice(0, 1), [{"word": "a", "count": 1}]),
        ((1, 2), [1, 2]),
    ],
)
def test_records_are_python_values(batch: Any, records: list[Any]) -> None:
    """Rows of Arrow become dicts, NumPy elements plain numbers."""
    assert to_records(batch) == records


@pytest.mark.parametrize("where", [bytes, memoryview, pa.py_buffer], ids=["bytes", "memoryview", "Arrow"])
def test_an_encoded_batch_can_be_sent_on(where: Any) -> None:
    """Wherever its bytes lie: what a subscriber was given may go on to another process."""
    encoded = encode([1, 2, 3])
    received = EncodedBatch(encoded.encoding, where(encoded.payload), encoded.records)
    assert decode(pickle.loads(pickle.dumps(received))) == [1, 2, 3]
