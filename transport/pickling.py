"""Pickling what goes to another process: the fast way where that will do, else by value; and why it cannot be done.

Batches are packed before: slices of Arrow as IPC streams, everything else as it is. Pickled by itself, an Arrow table
hands over its buffers out of band (pickle protocol 5), without a copy. But a slice takes all of the table along, and
one without columns forgets how many rows it has. An IPC stream, one buffer, has the rows that there are.
"""

import pickle
from dataclasses import dataclass
from typing import Any

import cloudpickle

from tidewheel.transport.batches import Batch, is_arrow

PROTOCOL = 5
"""Protocol 5 of pickle hands over large buffers without a copy (PEP 574)."""

_SPARE = 1.25
_SMALL = 1024
"""A batch whose buffers have so much that does not belong to it is no slice that is worth a copy."""

_MAIN = pickle.SHORT_BINUNICODE + bytes([len("__main__")]) + b"__main__"


def dumps(value: Any) -> bytes:
    """Return ``value`` pickled.

    Classes and functions of the main program, and of modules that are registered with cloudpickle, go by value, as
    other processes cannot import them. That takes many times as long, so it is done only where the pickle names one.

    Raises:
        TypeError, AttributeError, PicklingError: something in it cannot be pickled.
    """
    return bytes(_dump(value, None)[0])


def dump_frames(value: Any, large: int) -> list[Any]:
    """Return ``value`` pickled as `dumps` does, and behind the pickle each buffer of ``large`` bytes or more in it."""
    return _dump(value, large)


def _dump(value: Any, large: int | None) -> list[Any]:
    try:
        frames = _frames(pickle.dumps, value, large)
        if not goes_by_value(frames[0]):
            return frames
    except Exception:  # noqa: BLE001, S110 - cloudpickle may be able to do it, or says why not
        pass
    try:
        return _frames(cloudpickle.dumps, value, large)
    except (TypeError, AttributeError, pickle.PicklingError):
        raise
    except Exception as error:
        raise pickle.PicklingError(f"{type(error).__name__}: {error}") from error


def _frames(dump: Any, value: Any, large: int | None) -> list[Any]:
    if large is None:
        return [dump(value, PROTOCOL)]
    buffers: list[Any] = []

    def keep_in_band(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < large:
            return True
        buffers.append(raw)
        return False

    return [dump(value, PROTOCOL, buffer_callback=keep_in_band), *buffers]


def goes_by_value(head: bytes) -> bool:
    """Tell whether a pickle may name a class or function that other processes cannot import.

    A pickle of protocol 5 names a class by the short text of its module and the opcode STACK_GLOBAL. So records that
    mention the main program are not taken for classes of it, unless a text is just its name and a class is there too.
    """
    if pickle.STACK_GLOBAL not in head:
        return False
    return _MAIN in head or any(name.encode() in head for name in cloudpickle.list_registry_pickle_by_value())


def unpicklable(value: Any, otherwise: Exception | None = None) -> str | None:
    """Return why ``value`` cannot be pickled; if it can, what ``otherwise`` says, None if that is None."""
    try:
        cloudpickle.dumps(value)
    except Exception as cause:  # noqa: BLE001 - a user's object may raise anything when it is pickled
        return f"{type(cause).__name__}: {cause}"
    return None if otherwise is None else f"{type(otherwise).__name__}: {otherwise}"


def pickled_size(value: Any) -> int:
    """Return how many bytes ``value`` takes when it is pickled, 0 if it cannot be."""
    try:
        return len(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:  # noqa: BLE001 - the number is for statistics only
        return 0


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
