"""Commits, by maximal times and newest messages."""

from pathlib import Path

import pyarrow as pa

from tests.kit.messages import raises
from tests.unit.spark_bridge.structured_streaming.test_epoch_folder import NUMBERS, PAIRS, batch
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.structured_streaming.epoch_checkpoint import (
    NOTHING,
    CommitRecord,
    EpochCheckpoint,
    EpochRows,
)
from tidewheel.spark_bridge.structured_streaming.epoch_files import FILES

ROWS = pa.table({"n": [1]})


def test_a_record_knows_what_is_committed() -> None:
    """A time at or before a committed one is, from messages that are no newer; a later time is not."""
    record = NOTHING.after(NUMBERS, [EpochRows(3, ROWS, 0, 70), EpochRows(5, ROWS, 1, 40)], ROWS.schema, 9)
    assert (record.file, record.times, record.newest, record.bytes) == (1, (5,), (70, 40), 9)
    assert record.has(NUMBERS, 3, [batch(3, 60, [1])])
    assert not record.has(NUMBERS, 6, [batch(6, 80, [1])])
    for newer in (batch(3, 71, [1]), batch(3, 1, [1], partition=2)):
        with raises(BridgeError):
            record.has(NUMBERS, 3, [newer])


def test_a_record_survives_on_the_disk(tmp_path: Path) -> None:
    """With times that are tuples, and before and after the schema is known."""
    checkpoint = EpochCheckpoint(tmp_path, FILES)
    assert checkpoint.record() == NOTHING
    record = NOTHING.after(PAIRS, [EpochRows((0, 2), ROWS), EpochRows((1, 0), ROWS, 1, 9)], ROWS.schema, 9)
    assert (record.times, record.newest) == (((0, 2), (1, 0)), (0, 9))
    assert record.arrow_schema() == ROWS.schema
    for known in (NOTHING, record, CommitRecord(7, ((1, ("a", 2**80)), float("inf")), (), None)):
        checkpoint.save(known)
        assert checkpoint.record() == known
