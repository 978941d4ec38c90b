"""Digests of the records of an epoch: their sum does not depend on order, batches or partitions.

Invariants:

- Equal records have the same digest in every process, even if a set or dict has another order. Rows with the same
  values in the same columns have the same digest, too, in any order of columns.
- Floating-point numbers are compared to about four digits, since sums in another order differ in the last digits. The
  digest of a number is that of its *cell*, a range of numbers. The bounds of cells are odd, so that round numbers are
  never next to a bound.
- A record whose parts cannot be read has the digest of its type.

Source: Clarke and others 2003, "Incremental multiset hash functions" (sums of hashes compare multisets).
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from tidewheel.pubsub.messages.encoded_message import EncodedMessage, decode, decode_batch
from tidewheel.pubsub.messages.wire import DataMessage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

MODULUS: Final = 1 << 128
"""Sums of digests are taken modulo this."""

_PLAIN = frozenset({int, str, bytes, type(None)})
_CELLS = 1 << 14
_OFF = 0.6180339887498949
_SMALL = _OFF * 1e-9
_LOW = (1 << 64) - 1


def digest_of(message: EncodedMessage) -> int:
    """Return the sum of the digests of the records in an encoded batch.

    Raises:
        DeliveryError: this process cannot decode the batch.

    >>> from tidewheel.pubsub.messages.encoded_message import encode, encode_batch
    >>> one, two = (encode(encode_batch(0, batch)) for batch in (["a", "b"], ["b", "a"]))
    >>> digest_of(one) == digest_of(two)
    True
    """
    return sum(digests(message)[0]) % MODULUS


def digests(message: EncodedMessage) -> tuple[list[int], Callable[[int], object]]:
    """Return the digest of each record in an encoded batch, and a function that returns a record by its index.

    Raises:
        DeliveryError: this process cannot decode the batch.
    """
    data = decode(message)
    assert isinstance(data, DataMessage), "only batches have records"
    batch = decode_batch(data)
    if data.encoding == "arrow":
        return _row_digests(batch), lambda row: batch.slice(row, 1).to_pylist()[0]
    records = batch.tolist() if hasattr(batch, "tolist") else list(batch)
    return list(map(record_digest, records)), records.__getitem__


def record_digest(record: object) -> int:
    """Return the digest of one record, 128 bits."""
    try:
        text = repr(record if type(record) in _PLAIN else _form(record))
    except Exception:  # noqa: BLE001 - the record's own code runs here
        text = type(record).__qualname__
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest(), "big")


def _form(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, int) and not hasattr(value, "__dict__"):
        return int(value)
    if isinstance(value, float):
        return rounded(float(value))
    if isinstance(value, tuple) or kind is list:
        parts = [part if type(part) in _PLAIN else _form(part) for part in value]
        return parts if kind is list else tuple(parts)
    if isinstance(value, dict | set | frozenset) and kind is not OrderedDict:
        parts = list(value.items() if isinstance(value, dict) else value)
        return kind.__name__, sorted(repr(_form(part)) for part in parts)
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return _form(value.tolist())
    return _form_of_object(value)


def _form_of_object(value: Any) -> Any:
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return f"{value.__module__}.{value.__qualname__}"
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return reduced
    parts: list[Any] = [*reduced[:3], *map(list, filter(None, reduced[3:5]))]
    return tuple(map(_form, parts))


def rounded(number: float) -> float:
    """Return the cell of a number; numbers that agree to about four digits usually have the same cell.

    >>> rounded(0.1 + 0.2) == rounded(0.3), rounded(0.3) == rounded(0.301), rounded(1.0) == rounded(1 - 1e-16)
    (True, False, True)
    """
    if not math.isfinite(number):
        return number
    if abs(number) < _SMALL:
        return 0.0
    mantissa, exponent = math.frexp(number)
    return math.ldexp(math.floor(abs(mantissa) * _CELLS + _OFF), exponent) * math.copysign(1.0, number)


def _row_digests(table: "pa.Table") -> list[int]:
    """Return a 64-bit digest of each row, from the names and values of its columns that are not null."""
    import numpy as np

    rows = np.zeros(table.num_rows, dtype=np.uint64)
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = _mixed(_hashes(column) ^ np.uint64(record_digest(name) & _LOW))
        rows += np.where(column.is_null(nan_is_null=True).to_numpy(), np.uint64(0), values)
    found: list[int] = _mixed(rows).tolist()
    return found


def _hashes(column: "pa.ChunkedArray") -> "npt.NDArray[np.uint64]":
    import numpy as np
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_floating(column.type):
        numbers = column.to_numpy().astype(np.float64)
        mantissas, exponents = np.frexp(np.where(np.abs(numbers) < _SMALL, 0.0, numbers))
        cells = np.ldexp(np.floor(np.abs(mantissas) * _CELLS + _OFF * (mantissas != 0)), exponents)
        return _mixed(np.copysign(cells, numbers + 0.0).view(np.uint64))
    if kinds.is_integer(column.type):
        return _mixed(column.fill_null(0).to_numpy().astype(np.uint64))
    try:
        encoded = column.combine_chunks().dictionary_encode()
    except pa.ArrowNotImplementedError:
        return np.array([record_digest(value) & _LOW for value in column.to_pylist()], dtype=np.uint64)
    distinct = [record_digest(value) & _LOW for value in [*encoded.dictionary.to_pylist(), None]]
    indices = encoded.indices.fill_null(len(distinct) - 1).to_numpy()
    hashes: npt.NDArray[np.uint64] = np.array(distinct, dtype=np.uint64)[indices]
    return hashes


def _mixed(values: "npt.NDArray[np.uint64]") -> "npt.NDArray[np.uint64]":
    import numpy as np

    with np.errstate(over="ignore"):
        values = values + np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
