"""Memory for large received payloads, reused when no object refers to it.

The kernel zeroes new memory page by page, which takes longer than receiving the bytes.
"""

from sys import getrefcount
from typing import Any, Final

KEPT_BYTES: Final = 8 * 1024 * 1024
"""The most bytes that are kept for reuse, for each connection."""


def _references(values: list[Any]) -> list[int]:
    """Return the number of references to each value, including those from the list and from this function."""
    return [getrefcount(value) for value in values]


(_FREE,) = _references([object()])
"""The number that `_references` returns for a value without readers. It is smaller from Python 3.14 on."""


class ReceivedMemory:
    """Lends memory for the payloads of one connection, to one thread at a time.

    Every view of an array refers to the array, as do tables and messages made from it without a copy. So an array
    without further references has no reader, and its memory can be reused.

    >>> memory = ReceivedMemory()
    >>> first = memory.lend(100_000)
    >>> second = memory.lend(100_000)
    >>> first[0], second[0] = 1, 2
    >>> del second
    >>> memory.lend(90_000)[0], first[0]
    (2, 1)
    """

    def __init__(self) -> None:
        self._arrays: list[Any] = []
        self._bytes = 0

    def lend(self, size: int) -> memoryview:
        """Return ``size`` bytes with arbitrary content; ``size`` is at least one.

        Raises:
            MemoryError, ValueError: the system does not have that much memory.
        """
        import numpy as np

        for array, references in zip(self._arrays, _references(self._arrays), strict=True):
            if references == _FREE and size <= len(array) <= 2 * size:
                free: memoryview = array.data
                return free[:size]
        array = np.empty(size, np.uint8)
        if size <= KEPT_BYTES:
            self._arrays.append(array)
            self._bytes += size
            while self._bytes > KEPT_BYTES:
                self._bytes -= len(self._arrays.pop(0))
        new: memoryview = array.data
        return new
