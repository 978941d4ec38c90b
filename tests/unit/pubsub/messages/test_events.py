"""The events of a subscriber."""

import pickle

import pyarrow as pa

from tidewheel.pubsub.messages.events import Batch, DecodeCounter
from tidewheel.pubsub.messages.payload import encode


def test_a_batch_decodes_once_and_only_on_demand() -> None:
    """Its length is known without decoding; asking twice decodes once."""
    counter = DecodeCounter()
    batch = Batch(3, 0, encode([1, 2]), counter)
    assert len(batch) == 2
    assert not batch.is_arrow
    assert counter.decoded == 0
    assert batch.records == batch.data == [1, 2]
    assert counter.decoded == 1


def test_an_arrow_batch_offers_table_and_rows() -> None:
    """``data`` stays Arrow, ``records`` are dicts."""
    batch = Batch(3, 0, encode(pa.table({"x": [1]})), DecodeCounter())
    assert batch.is_arrow
    assert batch.data.num_rows == 1
    assert batch.records == [{"x": 1}]


def test_a_batch_can_be_handed_on_to_another_process() -> None:
    """It pickles, decoded or not."""
    batch = Batch(3, 0, encode([1, 2]), DecodeCounter())
    assert pickle.loads(pickle.dumps(batch)).records == [1, 2]
    assert batch.records == pickle.loads(pickle.dumps(batch)).records
