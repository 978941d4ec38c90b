"""The form in which a batch leaves the process: Arrow as an IPC stream, everything else as it is.

Pickled by itself, a slice of an Arrow table takes all of the table along; an IPC stream has the rows of the slice only.
The stream is one buffer, which pickle protocol 5 hands over out of band and the receiver reads in place.
"""

from dataclasses import dataclass
from typing import Any

from tidewheel.runtime.batches import Batch, is_arrow


@dataclass(frozen=True, slots=True)
class PackedArrow:
    """An Arrow IPC stream of one table, or of one record batch if ``is_record_batch``."""

    stream: Any
    is_record_batch: bool


def pack(batch: Batch) -> Any:
    """Return ``batch`` in the form in which it is to be pickled."""
    if not is_arrow(batch):
        return batch
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
