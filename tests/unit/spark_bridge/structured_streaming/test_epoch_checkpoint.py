"""What is committed, by maximal times and newest messages."""

import pytest

from tests.unit.spark_bridge.structured_streaming.test_epoch_folder import NUMBERS, PAIRS, batch
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.structured_streaming.epoch_checkpoint import CommitRecord


def test_a_record_knows_what_is_committed() -> None:
    """A time at or before a committed one is, from messages that are no newer; a later time is not."""
    record = CommitRecord().after(NUMBERS, [3, 5], [batch(3, 70, [1]), batch(5, 40, [1], partition=1)], b"")
    assert (record.file, record.times, record.newest) == (1, (5,), (70, 40))
    assert record.has(NUMBERS, 3, [batch(3, 60, [1])])
    assert not record.has(NUMBERS, 6, [batch(6, 80, [1])])
    for newer in (batch(3, 71, [1]), batch(3, 1, [1], partition=2)):
        with pytest.raises(BridgeError, match="written before, from other batches"):
            record.has(NUMBERS, 3, [newer])


def test_a_record_survives_as_text() -> None:
    """With times that are tuples, and before and after the schema is known."""
    record = CommitRecord().after(PAIRS, [(0, 2), (1, 0)], [batch((1, 0), 9, [1], partition=1)], b"\x00\xff")
    assert record.times == ((0, 2), (1, 0))
    assert record.newest == (0, 9)
    for known in (CommitRecord(), record):
        assert CommitRecord.from_json(known.to_json()) == known
