"""A whole epoch."""

from typing import Any

import pyarrow as pa
import pytest

from tidewheel.pubsub import Batch, DeliveryError, Epoch
from tidewheel.pubsub.messages.events import DecodeCounter
from tidewheel.pubsub.messages.payload import encode


def epoch_of(*batches: Any) -> Epoch:
    counter = DecodeCounter()
    return Epoch(0, tuple(Batch(0, partition, encode(batch), counter) for partition, batch in enumerate(batches)))


def test_records_of_all_batches_in_order() -> None:
    """Lists are joined, rows of Arrow are dicts; the count needs no decoding."""
    epoch = epoch_of([1, 2], pa.table({"x": [3]}))
    assert len(epoch) == 3
    assert epoch.batches[0].counter.decoded == 0
    assert epoch.records == [1, 2, {"x": 3}]


def test_arrow_batches_become_one_table() -> None:
    """``to_arrow`` joins all batches."""
    assert epoch_of(pa.table({"x": [1]}), pa.table({"x": [2, 3]})).to_arrow().to_pydict() == {"x": [1, 2, 3]}


def test_to_arrow_refuses_other_batches() -> None:
    """A list among the batches is an error that says what to use."""
    with pytest.raises(DeliveryError, match="not Arrow: use records"):
        epoch_of(pa.table({"x": [1]}), [2]).to_arrow()
