"""The form in which a batch leaves the process: slices of Arrow as IPC streams, everything else as it is.

Pickled by itself, an Arrow table hands over its buffers out of band (pickle protocol 5), without a copy. But a slice
takes all of the table along, and one without columns forgets how many rows it has; an IPC stream, one buffer, has the
rows that there are.
"""

from dataclasses import dataclass
from typing import Any

from tidewheel.transport.batches import Batch, is_arrow

_SPARE = 1.25
_SMALL = 1024
"""A batch whose buffers have so much that does not belong to it is no slice that is worth a copy."""


@dataclass(frozen=True, slots=True)
class PackedArrow:
    """An Arrow IPC stream of one table, or of one record batch if ``is_record_batch``."""

    stream: Any
    is_record_batch: bool


def pack(batch: Batch) -> Any:
    """Return ``batch`` in the form in which it is to be pickled."""
    if not is_arrow(batch) or (batch.num_columns and batch.get_total_buffer_size() <= batch.nbytes * _SPARE + _SMALL):
        return batch
    return stream_of(batch)


def stream_of(batch: Batch) -> PackedArrow:
    """Return a batch of Arrow as an IPC stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    return PackedArrow(sink.getvalue(), isinstance(batch, pa.RecordBatch))


def unpack(packed: Any) -> Batch:
    """Return the batch that was packed."""
    if not isinstance(packed, PackedArrow):
        return packed
    import pyarrow as pa

    with pa.ipc.open_stream(packed.stream) as reader:
        return reader.read_next_batch() if packed.is_record_batch else reader.read_all()
