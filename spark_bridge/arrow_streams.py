"""Arrow tables as IPC streams, the form of a block in Ray's object store."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

ROWS_PER_BATCH = 65_536
"""The number of rows that Spark reads at once."""


def block_stream(tables: Sequence[pa.Table]) -> bytes:
    """Return one or more tables with the same schema as an Arrow IPC stream."""
    buffer = pa.BufferOutputStream()
    write_stream(tables, buffer)
    return bytes(buffer.getvalue().to_pybytes())


def write_stream(tables: Sequence[pa.Table], sink: Any) -> None:
    """Write one or more tables with the same schema as an Arrow IPC stream to a file or buffer."""
    with pa.ipc.new_stream(sink, tables[0].schema) as stream:
        for table in tables:
            stream.write_table(table, max_chunksize=ROWS_PER_BATCH)
