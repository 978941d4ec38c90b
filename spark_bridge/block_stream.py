"""Tables as blocks of about one size, each of which is an Arrow IPC stream that Spark reads as a partition."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from ray import ObjectRef

ROWS_PER_BATCH = 65_536
"""How many rows Spark reads at once."""

BLOCK_BYTES = 16 * 2**20
"""How large a block is at least before the next begins."""


def in_blocks(tables: "Iterable[pa.Table]") -> "Iterator[list[pa.Table]]":
    """Yield ``tables`` in groups of about ``BLOCK_BYTES``, the large ones cut up; none if there are no rows."""
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


def block_stream(tables: "Sequence[pa.Table]") -> bytes:
    """Return tables of one schema, at least one, as one Arrow IPC stream."""
    import pyarrow as pa

    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, tables[0].schema) as stream:
        for table in tables:
            stream.write_table(table, max_chunksize=ROWS_PER_BATCH)
    return bytes(buffer.getvalue().to_pybytes())


def put_block(tables: "Sequence[pa.Table]") -> "tuple[ObjectRef[bytes], int]":
    """Put tables of one schema, at least one, into the object store; return the block, and how many bytes it has."""
    import ray

    content = block_stream(tables)
    return ray.put(content), len(content)
