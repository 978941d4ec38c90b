"""The payload area of a segment in memory: a publisher receives large payloads where they stay.

To receive a payload and then write it to a log copies it twice, and on a file system in memory copying is all that a
write costs. So a segment in memory may begin with an area that is mapped. A payload is received there, and its record
behind the area only refers to it.

Invariants:

- The area has pages of its own before it is mapped. The log never cuts its file before the end of the area. A copy to
  what another program has cut off ends the process, so no other program may cut the files of a log.
- An area is used again only once nothing holds any memory that it has lent, such as a message on its way to a child.
  The connection of a child holds some, too: it takes large payloads from the file without a copy.
- A record that refers to a payload is written after it. So a payload that was not received whole has no record.
"""

import threading
import weakref
from pathlib import Path
from typing import Any, Final

from tidewheel.transport.mapped_file import MappedFile, address_of

LEAST_BYTES: Final = 1 << 15
"""A smaller payload is copied: finding out where it lies costs as much."""

_ALIGNED: Final = 64
_MOUNTS = Path("/proc/self/mounts")


class PayloadArea:
    """A mapping of the first bytes of a file. Several threads may share it.

    Args:
        descriptor: the descriptor of the file, which may be closed afterwards.
        size: the number of bytes to map; the file has all of them.

    Attributes:
        size: the same.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        import numpy as np

        self.size = size
        self._file = MappedFile(descriptor, size)
        self._bytes: Any = np.frombuffer(self._file, np.uint8)
        self._address = address_of(self._bytes)
        self._lock = threading.Lock()
        self._lent: list[weakref.ref[Any]] = []
        self._begin = self._next = self._end = 0

    def open(self, begin: int, end: int) -> None:
        """Lend the bytes from offset ``begin`` up to ``end`` of the file from now on."""
        with self._lock:
            assert not self.is_lent, "a message that is on its way would change"
            self._lent = []
            self._begin = self._next = begin
            self._end = end

    def lend(self, size: int) -> memoryview | None:
        """Return ``size`` bytes to be written; None if there is no room, or they are too few to be worth it."""
        with self._lock:
            first = -(-self._next // _ALIGNED) * _ALIGNED
            if size < LEAST_BYTES or first + size > self._end:
                return None
            self._next = first + size
            part = self._bytes[first : self._next]
            self._lent.append(weakref.ref(part))  # every view of it keeps it
            return memoryview(part)

    def close(self) -> None:
        """Lend nothing more."""
        with self._lock:
            self._end = 0

    @property
    def used_bytes(self) -> int:
        """The number of bytes that were lent since the area was opened."""
        return self._next - self._begin

    @property
    def is_lent(self) -> bool:
        """Whether a view of lent bytes is left, or a connection that was closed may still have some."""
        return self._file.is_held or any(part() is not None for part in self._lent)

    def offset_of(self, part: Any) -> int | None:
        """Return the offset in the file at which a buffer lies that was lent; None for any other buffer."""
        offset = address_of(part) - self._address
        return offset if self._begin <= offset < self._next else None


def is_in_memory(directory: Path) -> bool:
    """Tell whether a directory is, or would be, on a file system in memory; False if the system does not say."""
    try:
        mounts = [line.split() for line in _MOUNTS.read_text("utf-8").splitlines()]
    except OSError:
        return False
    kinds = {Path(mount[1]): mount[2] for mount in mounts}
    found = directory.resolve()
    return next((kinds[path] for path in (found, *found.parents) if path in kinds), "") == "tmpfs"
