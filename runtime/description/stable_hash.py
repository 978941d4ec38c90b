"""Hashes of keys, the same in every process, for one key or for a column.

Python's ``hash`` of a string differs between processes, so it must never decide which worker owns a key. Keys that are
equal in Python (``1``, ``1.0``, ``True``, ``numpy.int64(1)``) have equal stable hashes, and a column hashes like its
values. So records with equal keys arrive on the same worker, be they in a list or an Arrow table.

Checksums of many strings are computed together. A CRC is linear: the exclusive-or of contributions, one for each byte.
So the contributions of all strings are looked up at once in a table.
"""

import datetime
import enum
import numbers
import uuid
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from reprlib import repr as short
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


HASH_VERSION = 1
"""The version of the hash: within a version, the hash of a key never changes.

Snapshots and the logs of exactly-once topics depend on this. tests/behaviour/runtime/test_frozen_hashes.py has the
hashes of all kinds of keys.
"""

KEYS = (
    "a key is None, a number, a string, bytes, a date, a time, a timedelta, a UUID, a member of an Enum, or a tuple of "
    "these (docs/operators.md, Keys)"
)
"""The rule for keys, as errors state it."""

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_NONE, _NAN, _TUPLE = 0x6E6F6E65, 0x6E616E, 0x7475706C
_LOCAL, _ZONED, _LOCAL_TIME, _ZONED_TIME = (tag << 60 for tag in range(1, 5))
"""Marks that keep moments and times of day, with and without a zone, from folding to the same number."""
_DAY_US = 86_400_000_000
_MANY = 256
"""With fewer keys than this, making an array of them does not pay."""
_EPOCH_US = datetime.date(1970, 1, 1).toordinal() * _DAY_US


def stable_hash(key: Any) -> int:
    """Return a 64-bit hash of ``key`` that is the same in every process.

    Keys are None, numbers, strings, bytes, dates, times, timedeltas, UUIDs, members of an Enum, NumPy scalars, and
    tuples of these.

    Within a `HASH_VERSION` the hash depends on the key only, with two exceptions. A time in a named zone is hashed as
    its moment in UTC, by this machine's time zone database. A number of your own class that is not whole is hashed by
    its class.

    Raises:
        TypeError: the key is of another type.
    """
    if type(key) is int:
        return _mix(key)
    if isinstance(key, str):
        return _mix(_checksum(key.encode("utf-8", "surrogatepass")))
    return _mix(_fold(key))


def _mix(value: int) -> int:
    folded = value & _MASK
    product = ((folded ^ (folded >> 32)) * _GOLDEN) & _MASK
    return product ^ (product >> 32)


def _checksum(data: bytes) -> int:
    return zlib.crc32(data) << 32 | zlib.adler32(data)


def _fold(key: Any) -> int:
    if key is None:
        return _NONE
    return _fold_numpy(key) if type(key).__module__ == "numpy" else _fold_plain(key)


def _fold_plain(key: Any) -> int:
    for kind, fold in _FOLDS:
        if isinstance(key, kind):
            return fold(key)
    raise TypeError(f"{short(key)} of type {type(key).__qualname__} cannot be a key: {KEYS}")


def _fold_number(key: Any) -> int:
    if key != key:  # noqa: PLR0124 - that is what a NaN of any type is
        return _NAN
    if isinstance(key, numbers.Integral):
        return int(key)
    if isinstance(key, numbers.Complex):
        if key.imag != 0:
            return hash(key)
        key = key.real
    try:
        whole = int(key)
    except (TypeError, OverflowError):  # an infinity, or a number of a user's class that cannot become an int
        return hash(key)
    return whole if whole == key else hash(key)


def _fold_tuple(key: tuple[Any, ...]) -> int:
    folded = _TUPLE
    for part in key:
        folded = _mix(folded ^ stable_hash(part))
    return folded


def _fold_moment(key: datetime.datetime) -> int:
    if key != key:  # noqa: PLR0124 - the NaT of pandas
        return _NAN
    offset = key.utcoffset()
    local_us = key.toordinal() * _DAY_US + _since_midnight(key)
    return _LOCAL ^ local_us if offset is None else _ZONED ^ (local_us - _microseconds(offset))


def _fold_time_of_day(key: datetime.time) -> int:
    offset = key.utcoffset()
    local_us = _since_midnight(key)
    return _LOCAL_TIME ^ local_us if offset is None else _ZONED_TIME ^ (local_us - _microseconds(offset))


def _since_midnight(key: datetime.datetime | datetime.time) -> int:
    return ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond


def _microseconds(duration: datetime.timedelta) -> int:
    return (duration.days * 86_400 + duration.seconds) * 1_000_000 + duration.microseconds


def _fold_numpy(key: Any) -> int:
    if not hasattr(key, "dtype") or key.ndim:
        raise TypeError(f"{short(key)} of type {type(key).__qualname__} cannot be a key: {KEYS}")
    if key.dtype.kind not in "mM":
        return _fold_number(key) if isinstance(key, numbers.Number) else _fold_plain(key.item())
    if key != key:  # noqa: PLR0124 - not a time
        return _NAN
    import numpy as np

    unit, count = np.datetime_data(key.dtype)
    if unit == "ns":  # Python's times have no nanoseconds; Arrow's and pandas' times hash without them, too
        return _fold(type(key)(int(key.astype("int64")) * count // 1000, "us").item())
    return _fold(key.astype(f"{key.dtype.kind}8[us]").item())


_FOLDS: tuple[tuple[Any, Callable[[Any], int]], ...] = (
    (numbers.Number, _fold_number),  # before Enum: a member of an IntEnum is equal to its number
    (str, lambda key: _checksum(key.encode("utf-8", "surrogatepass"))),
    (enum.Enum, lambda key: _fold(key.value)),
    (tuple, _fold_tuple),
    (bytes, _checksum),
    (uuid.UUID, lambda key: key.int),
    (datetime.datetime, _fold_moment),  # before date, its base class
    (
        datetime.date,
        lambda key: _LOCAL ^ key.toordinal() * _DAY_US,
    ),  # as midnight of the day, to which NumPy's dates are equal
    (datetime.time, _fold_time_of_day),
    (datetime.timedelta, _microseconds),
)
"""The functions that turn keys of each type into integers. The first type that fits counts."""


def hash_column(column: "pa.ChunkedArray | pa.Array") -> "npt.NDArray[np.uint64]":
    """Return the `stable_hash` of every value of an Arrow column, vectorised.

    Integers, booleans, strings, dates, timestamps and columns with few distinct values are fast. Other types cost one
    `stable_hash` for each distinct value.
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if column.null_count == 0 and (kinds.is_integer(column.type) or kinds.is_boolean(column.type)):
        plain = column.cast(pa.uint8()) if kinds.is_boolean(column.type) else column
        return hash_integers(plain.to_numpy(zero_copy_only=False))
    if kinds.is_date(column.type) or kinds.is_timestamp(column.type):
        return _hash_moments(column)
    return _hash_by_dictionary(column)


def _hash_moments(column: "pa.Array") -> "npt.NDArray[np.uint64]":
    import numpy as np
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_date32(column.type):
        counts, unit_us, tag = column.cast(pa.int32()), _DAY_US, _LOCAL
    elif kinds.is_date64(column.type):
        counts, unit_us, tag = column.cast(pa.int64()), 1000, _LOCAL
    else:
        unit_us = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 0}[column.type.unit]
        counts, tag = column.cast(pa.int64()), _LOCAL if column.type.tz is None else _ZONED
    values = counts.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    with np.errstate(over="ignore"):
        microseconds = values * np.int64(unit_us) if unit_us else values // 1000
        folded = (microseconds + np.int64(_EPOCH_US)).view(np.uint64) ^ np.uint64(tag)
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    return np.where(nulls, np.uint64(stable_hash(None)), _mix_array(folded))


def _hash_by_dictionary(column: "pa.Array") -> "npt.NDArray[np.uint64]":
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        try:
            column = pc.dictionary_encode(column)
        except pa.ArrowNotImplementedError:
            return np.array([stable_hash(value) for value in column.to_pylist()], dtype=np.uint64)
    hashes = np.append(_hash_distinct(column.dictionary), np.uint64(stable_hash(None)))
    indices = pc.fill_null(column.indices.cast(pa.int64()), len(hashes) - 1)
    found: npt.NDArray[np.uint64] = hashes[indices.to_numpy(zero_copy_only=False)]
    return found


def _hash_distinct(values: "pa.Array") -> "npt.NDArray[np.uint64]":
    import numpy as np
    import pyarrow.types as kinds

    is_small = kinds.is_string(values.type) or kinds.is_binary(values.type)
    is_large = kinds.is_large_string(values.type) or kinds.is_large_binary(values.type)
    if values.null_count or not len(values) or not (is_small or is_large):
        return np.array([stable_hash(value) for value in values.to_pylist()], dtype=np.uint64)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32 if is_small else np.int64)
    ends = ends[values.offset : values.offset + len(values) + 1].astype(np.int64)
    bytes_of = memoryview(data if data is not None else b"")[int(ends[0]) : int(ends[-1])]
    return _mix_array(checksums(bytes_of, np.diff(ends)))


def hash_keys(keys: list[Any]) -> Iterable[int]:
    """Return the `stable_hash` of every key; vectorised for many strings."""
    if len(keys) < _MANY or set(map(type, keys)) != {str}:
        return map(stable_hash, keys)
    import numpy as np

    lengths = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    data = "".join(keys).encode("utf-8", "surrogatepass")
    if len(data) > lengths.sum():  # not all are ASCII
        encoded = [key.encode("utf-8", "surrogatepass") for key in keys]
        lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(keys))
    hashes: list[int] = _mix_array(checksums(data, lengths)).tolist()
    return hashes


def hash_integers(values: "npt.NDArray[Any]") -> "npt.NDArray[np.uint64]":
    import numpy as np

    return _mix_array(values if values.dtype == np.uint64 else values.astype(np.int64, copy=False).view(np.uint64))


def hash_tuples(columns: "list[npt.NDArray[np.uint64]]") -> "npt.NDArray[np.uint64]":
    import numpy as np

    folded = np.full(len(columns[0]), _TUPLE, dtype=np.uint64)
    for column in columns:
        folded = _mix_array(folded ^ column)
    return _mix_array(folded)


def _mix_array(values: "npt.NDArray[np.uint64]") -> "npt.NDArray[np.uint64]":
    import numpy as np

    mixed: npt.NDArray[np.uint64] = values >> np.uint64(32)
    mixed ^= values
    mixed *= np.uint64(_GOLDEN)  # arrays of integers overflow without a warning
    mixed ^= mixed >> np.uint64(32)
    return mixed


_ADLER = 65521
_LONGEST = 256
"""Longer strings are hashed one by one. Up to this length, a byte and its position from the end fit into 16 bits."""


def checksums(data: bytes | memoryview, lengths: "npt.NDArray[np.int64]") -> "npt.NDArray[np.uint64]":
    """Return ``crc32 << 32 | adler32`` of each of several byte strings, which ``data`` has one after the other.

    Linear in the bytes, about 10 ns each.

    >>> import numpy as np
    >>> checksums(b"tidewheel", np.array([4, 5])).tolist()
    [13715188249721045415, 7048326329692652054]
    >>> zlib.crc32(b"tide") << 32 | zlib.adler32(b"tide")
    13715188249721045415
    """
    import numpy as np

    values = np.frombuffer(data, dtype=np.uint8)
    result = np.full(len(lengths), zlib.crc32(b"") << 32 | zlib.adler32(b""), dtype=np.uint64)
    is_long = lengths > _LONGEST
    if is_long.any():
        starts = np.cumsum(lengths) - lengths
        for number in np.flatnonzero(is_long).tolist():
            string = values[starts[number] : starts[number] + lengths[number]].tobytes()
            result[number] = zlib.crc32(string) << 32 | zlib.adler32(string)
        values = values[~np.repeat(is_long, lengths)]
    rest = ~is_long & (lengths > 0)
    if rest.any():
        result[rest] = _of_short(values, lengths[rest])
    return result


def _of_short(values: "npt.NDArray[np.uint8]", lengths: "npt.NDArray[np.int64]") -> "npt.NDArray[np.uint64]":
    import numpy as np

    ends = np.cumsum(lengths, dtype=np.int32)
    starts = ends - lengths.astype(np.int32)
    following = np.repeat(ends - np.int32(1), lengths) - np.arange(len(values), dtype=np.int32)
    added, zeros = _tables()
    crc = np.bitwise_xor.reduceat(added[(following << 8) + values], starts) ^ zeros[lengths]
    low = np.add.reduceat(values, starts, dtype=np.uint32) + np.uint32(1)
    high = np.add.reduceat((following + 1) * values, starts, dtype=np.uint32) + lengths.astype(np.uint32)
    adler = (high % _ADLER) << np.uint32(16) | low % _ADLER
    return crc.astype(np.uint64) << np.uint64(32) | adler


@cache
def _tables() -> "tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]":
    """Return two tables: contributions of bytes, and the CRC of zeros.

    The first has, at ``256 * n + b``, the contribution of byte b followed by n bytes. The second has, at ``n``, the CRC
    of n zeros.
    """
    import numpy as np

    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, values >> 1 ^ np.uint32(0xEDB88320), values >> 1)
    added = [values]
    for _ in range(_LONGEST - 1):
        added.append(values[added[-1] & 0xFF] ^ (added[-1] >> 8))
    zeros = [zlib.crc32(bytes(length)) for length in range(_LONGEST + 1)]
    return np.concatenate(added), np.array(zeros, dtype=np.uint32)
