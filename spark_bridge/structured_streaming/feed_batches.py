"""Micro-batches of a streaming query as epochs of an input: each once, even when Spark replays it.

Spark delivers a micro-batch at least once: what it had not committed when it was stopped comes again, under the same id
and, if the query is deterministic, with the same rows. So the id is the epoch, and the time of the input's handle says
which ids were delivered before.

===============  =======================================================================
id of the batch  what becomes of it
===============  =======================================================================
below the time   dropped: it was delivered before
the time         its rows are sent, and the input goes past it
above the time   the same, after the input has passed the ids that Spark has skipped
===============  =======================================================================

All rows are there before the first is sent, so a query that fails midway leaves no part of a micro-batch behind. How
they are cut and which worker gets which slice depends on nothing but the rows and the id: a program that is started
again deals a micro-batch out as the one before did, which is how a log knows what it has already.
"""

from collections.abc import Callable

import pyarrow as pa
import ray
from pyspark.sql import DataFrame

from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.spark_bridge.arrow_blocks import arrow_schema, blocks_of, collected, is_on_ray
from tidewheel.spark_bridge.errors import BridgeError

ROWS_PER_SLICE = 65_536
"""How many rows of a micro-batch go to one worker before the next has its turn."""


def deliver(batch_id: int, rows: Callable[[], pa.Table], input: InputHandle) -> bool:
    """Send one micro-batch as the epoch of its id, unless that was done before; tell whether it was sent.

    Args:
        batch_id: its id.
        rows: computes it; whatever that raises, nothing was sent.
        input: where to, at the time behind the last micro-batch that was sent. Whatever it raises, the job is over.
    """
    if batch_id < input.time:
        return False
    table = rows()
    input.advance_to(batch_id)
    for number, start in enumerate(range(0, table.num_rows, ROWS_PER_SLICE)):
        input.send(table.slice(start, ROWS_PER_SLICE), worker=(batch_id + number) % input.workers)
    input.advance_to(batch_id + 1)
    return True


def rows_of(df: DataFrame, name: str) -> pa.Table:
    """Compute a DataFrame, and return its rows in this process, in the order of its partitions.

    Of a Spark that runs on Ray they come out of Ray's object store, where the executors put them; of another one,
    through its driver. Nothing is left of them in Spark or in the store when the table is there.

    Raises:
        BridgeError: its types have no Arrow form, it cannot be computed, or a partition got lost; ``name`` says which
            DataFrame.
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
