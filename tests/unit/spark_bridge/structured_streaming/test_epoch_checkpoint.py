"""What is committed, by maximal times and newest messages."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.spark_bridge.structured_streaming.test_epoch_folder import NUMBERS, PAIRS, batch
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.structured_streaming.epoch_checkpoint import NOTHING, CommitRecord, EpochCheckpoint
from tidewheel.spark_bridge.structured_streaming.epoch_files import FILES

SCHEMA = pa.schema({"n": pa.int64()})


def test_a_record_knows_what_is_committed() -> None:
    """A time at or before a committed one is, from messages that are no newer; a later time is not."""
    record = NOTHING.after(NUMBERS, [3, 5], [batch(3, 70, [1]), batch(5, 40, [1], partition=1)], SCHEMA)
    assert (record.file, record.times, record.newest) == (1, (5,), (70, 40))
    assert record.has(NUMBERS, 3, [batch(3, 60, [1])])
    assert not record.has(NUMBERS, 6, [batch(6, 80, [1])])
    for newer in (batch(3, 71, [1]), batch(3, 1, [1], partition=2)):
        with pytest.raises(BridgeError, match="written before, from other batches"):
            record.has(NUMBERS, 3, [newer])


def test_a_record_survives_on_the_disk(tmp_path: Path) -> None:
    """With times that are tuples, and before and after the schema is known."""
    checkpoint = EpochCheckpoint(tmp_path, FILES)
    assert checkpoint.record() == NOTHING
    record = NOTHING.after(PAIRS, [(0, 2), (1, 0)], [batch((1, 0), 9, [1], partition=1)], SCHEMA)
    assert (record.times, record.newest) == (((0, 2), (1, 0)), (0, 9))
    assert record.arrow_schema() == SCHEMA
    for known in (NOTHING, record, CommitRecord(7, ((1, ("a", 2**80)), float("inf")), (), None)):
        checkpoint.save(known)
        assert checkpoint.record() == known
