"""Arrow tables as IPC streams, the form of a block in Ray's object store."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import ray
from ray import ObjectRef

ROWS_PER_BATCH = 65_536
"""The number of rows that Spark reads at once."""

BLOCK_BYTES = 16 * 2**20
"""The least size of a block, in bytes, before the next begins."""


def in_blocks(tables: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    """Yield ``tables`` in groups of about ``BLOCK_BYTES``, with large tables cut up; without rows, yield nothing."""
    block: list[pa.Table] = []
    size = 0
    for table in tables:
        rows = max(1, table.num_rows * BLOCK_BYTES // max(1, table.nbytes))
        for start in range(0, table.num_rows, rows):
            part = table.slice(start, rows)
            block.append(part)
            size += part.nbytes
            if size >= BLOCK_BYTES:
                yield block
                block, size = [], 0
    if block:
        yield block


def block_stream(tables: Sequence[pa.Table]) -> bytes:
    """Return tables as an Arrow IPC stream: at least one table, all with the same schema."""
    buffer = pa.BufferOutputStream()
    write_stream(tables, buffer)
    return bytes(buffer.getvalue().to_pybytes())


def write_stream(tables: Sequence[pa.Table], sink: Any) -> None:
    """Write tables as an Arrow IPC stream to a file or buffer: at least one table, all with the same schema."""
    with pa.ipc.new_stream(sink, tables[0].schema) as stream:
        for table in tables:
            stream.write_table(table, max_chunksize=ROWS_PER_BATCH)


def put_block(tables: Sequence[pa.Table]) -> tuple[ObjectRef[bytes], int]:
    """Put tables into the object store, at least one, all with the same schema.

    Return the block and its size in bytes.
    """
    content = block_stream(tables)
    return ray.put(content), len(content)
