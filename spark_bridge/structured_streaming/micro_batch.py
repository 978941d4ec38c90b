"""Sending one micro-batch to an input, and the check that the job has the earlier micro-batches.

All rows are computed before the first is sent, so a failing query sends no part of a micro-batch. The slices, and the
workers that get them, depend only on the rows and the id. So a restarted program sends the same slices, and a log
recognises the slices that it has.
"""

from collections.abc import Callable

import pyarrow as pa
import ray
from pyspark.sql import DataFrame

from tidewheel.runtime.inputs.fed_job import FedJob
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.spark_bridge.arrow_blocks import arrow_schema, blocks_of, is_on_ray
from tidewheel.spark_bridge.driver_rows import collected
from tidewheel.spark_bridge.errors import BridgeError

ROWS_PER_SLICE = 65_536
"""The number of rows of a micro-batch that go to one worker before the next worker gets rows."""


class MissingMicroBatches(BridgeError):  # noqa: N818 - named for what it says
    """The job lacks micro-batches that Spark has committed and will not deliver again."""


def check_has_committed(input: InputHandle, job: FedJob, uncommitted: int, checkpoint: str) -> None:
    """Check that a job with snapshots has all micro-batches that Spark has committed.

    A job without snapshots begins without them.

    Raises:
        MissingMicroBatches: the input's time is below the id ``uncommitted``, so the micro-batches between are lost.
    """
    if not job.keeps_snapshots or input.time >= uncommitted:
        return
    raise MissingMicroBatches(
        f"input {input.name!r} is at micro-batch {input.time} in the snapshot from which the job goes on, or without "
        f"one. But Spark has committed all before {uncommitted} in the checkpoint {checkpoint}, and does not deliver "
        "them again. Restore the newer snapshots. Or start with both a new checkpoint and a new folder of snapshots: "
        "then Spark reads all rows again"
    )


def deliver(batch_id: int, rows: Callable[[], pa.Table], input: InputHandle) -> bool:
    """Send one micro-batch as the epoch of its id, unless it was sent before; return whether it was sent now.

    Args:
        batch_id: the id of the micro-batch.
        rows: computes the rows; if it raises, nothing was sent.
        input: the handle, at the time after the last sent micro-batch; if it raises, the job has ended.
    """
    if batch_id < input.time:
        return False
    table = rows()
    input.advance_to(batch_id)
    sent = input.position.batches_at_time  # if the job continues from a snapshot taken in the middle of the micro-batch
    for number, start in list(enumerate(range(0, table.num_rows, ROWS_PER_SLICE)))[sent:]:
        input.send(table.slice(start, ROWS_PER_SLICE), worker=(batch_id + number) % input.workers)
    input.advance_to(batch_id + 1)
    return True


def rows_of(df: DataFrame, name: str) -> pa.Table:
    """Compute a DataFrame, and return its rows in this process, in the order of its partitions.

    Rows arrive through Ray's object store or, if Spark does not run on Ray, through its driver; neither keeps them.

    Raises:
        BridgeError: types have no Arrow equivalent, the DataFrame ``name`` cannot be computed, or a partition was lost.
    """
    if not is_on_ray(df.sparkSession):
        return collected(df, arrow_schema(df, name), name)

    blocks = blocks_of(df, name, store=True)
    try:
        streams = ray.get(list(blocks.stored or ()))
    except ray.exceptions.RayError as error:
        raise BridgeError(f"a partition of {name!r} cannot be read from Ray's object store: {error}") from error
    tables = [pa.ipc.open_stream(pa.py_buffer(stream)).read_all().replace_schema_metadata() for stream in streams]
    return pa.concat_tables([blocks.schema.empty_table(), *tables])
