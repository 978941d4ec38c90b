"""The checksums of many strings at once: what `stable_hash` needs of them, vectorised.

A CRC is linear: that of a string is that of as many zero bytes, and for each byte what it adds by itself, exclusive or.
What a byte adds depends on how many bytes follow it, so it is looked up for all bytes of all strings together.
"""

import zlib
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_ADLER = 65521
_LONGEST = 256
"""Longer strings are done one by one; a place from the end and a byte fit 16 bits."""


def checksums(data: bytes | memoryview, lengths: "npt.NDArray[np.int64]") -> "npt.NDArray[np.uint64]":
    """Return ``crc32 << 32 | adler32`` of each of several byte strings that lie one behind the other in ``data``.

    Args:
        data: all bytes.
        lengths: how many of them each string has.

    It takes time linear in the bytes, about 10 ns for each.

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
    """Return the checksums of strings none of which is empty, or longer than `_LONGEST`."""
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
    """Return what byte b adds if n bytes follow it, at ``256 * n + b``, and the CRC of n zero bytes, at ``n``."""
    import numpy as np

    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, values >> 1 ^ np.uint32(0xEDB88320), values >> 1)
    added = [values]
    for _ in range(_LONGEST - 1):
        added.append(values[added[-1] & 0xFF] ^ (added[-1] >> 8))
    zeros = [zlib.crc32(bytes(length)) for length in range(_LONGEST + 1)]
    return np.concatenate(added), np.array(zeros, dtype=np.uint32)
