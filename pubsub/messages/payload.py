"""The encoding of batches as bytes.

Arrow stays Arrow, as an IPC stream; everything else is pickled. The module imports pyarrow only for a batch of Arrow.
"""

import pickle
from dataclasses import dataclass
from typing import Any

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.wire import Encoding
from tidewheel.transport.batches import is_arrow
from tidewheel.transport.frames import Payload
from tidewheel.transport.pickling import dumps


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch as bytes, with its encoding and its number of records."""

    encoding: Encoding
    payload: Payload
    records: int

    def __reduce__(self) -> tuple[object, ...]:
        payload = bytes(self.payload) if isinstance(self.payload, memoryview) else self.payload
        return type(self), (self.encoding, payload, self.records)


def encode(batch: Any) -> EncodedBatch:
    """Encode one batch: a list, a NumPy array, a ``pyarrow.RecordBatch`` or a ``pyarrow.Table``.

    Raises:
        DeliveryError: the batch has no length, or a record cannot be pickled.

    >>> encoded = encode([1, 2, 3])
    >>> encoded.encoding, encoded.records
    ('pickle', 3)
    """
    if is_arrow(batch):
        return _encode_arrow(batch)
    try:
        records = len(batch)
    except TypeError:
        raise DeliveryError(
            f"a {type(batch).__qualname__} is no batch: publish lists, NumPy arrays or Arrow tables"
        ) from None
    try:
        payload = dumps(batch)
    except Exception as error:
        raise DeliveryError(
            f"a batch of {records} records cannot be published because it cannot be pickled ({error}): "
            "map the records to plain values before publish"
        ) from error
    return EncodedBatch("pickle", payload, records)


def encode_ends(keys: list[Any]) -> EncodedBatch:
    """Encode the keys of ended substreams; they do not count as records.

    Raises:
        DeliveryError: a key cannot be pickled.

    >>> decode(encode_ends(["a", "b"]))
    ['a', 'b']
    """
    try:
        return EncodedBatch("ends", dumps(keys), 0)
    except Exception as error:
        raise DeliveryError(
            f"the ends of substreams cannot be published because a key cannot be pickled ({error}): divide the stream "
            "by keys of plain values"
        ) from error


def decode(encoded: EncodedBatch) -> Any:
    """Return the batch that was encoded; a batch or table of Arrow comes back as a ``pyarrow.Table``.

    Raises:
        DeliveryError: this process cannot decode the bytes, for example because it cannot import a class.

    >>> decode(encode(["a", "b"]))
    ['a', 'b']
    """
    try:
        if encoded.encoding == "arrow":
            return _decode_arrow(encoded.payload)
        return pickle.loads(encoded.payload)  # noqa: S301  the bytes come from a publisher of the same Ray cluster
    except Exception as error:
        what = (
            "the keys of substreams do" if encoded.encoding == "ends" else f"a batch of {encoded.records} records does"
        )
        raise DeliveryError(
            f"{what} not decode in this process ({error}): the code that is needed must be importable here too"
        ) from error


def to_records(batch: Any) -> list[Any]:
    """Return the records of a decoded batch: rows of Arrow as dicts, elements or rows of NumPy as Python values."""
    if isinstance(batch, list):
        return batch
    if is_arrow(batch):
        return list(batch.to_pylist())
    return list(batch.tolist()) if hasattr(batch, "tolist") else list(batch)


def _encode_arrow(batch: Any) -> EncodedBatch:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    return EncodedBatch("arrow", sink.getvalue(), batch.num_rows)


def _decode_arrow(payload: Payload) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(payload) as reader:
        return reader.read_all()
