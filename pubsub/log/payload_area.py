"""The payload area: the part of a segment in memory where a publisher receives large payloads.

On a file system in memory, writing means copying. To save the copy, a segment may begin with a mapped area. Payloads
are received into this area, and records only refer to them.

Invariants:

- The area's pages are allocated before it is mapped, and no program may truncate the file within the area: copying to a
  missing page would end the process.
- An area is reused only when nothing refers to its lent memory, neither a message in flight nor a child's connection,
  which sends large payloads from the file.
- A record is written after the payload that it refers to, so a payload that was received in part has no record.
"""

import threading
import weakref
from pathlib import Path
from typing import Any, Final

from tidewheel.transport.mapped_file import MappedFile, address_of

LEAST_BYTES: Final = 1 << 15
"""A payload with fewer bytes is copied, since finding a place for it would take as long."""

_ALIGNED: Final = 64
_MOUNTS = Path("/proc/self/mounts")


class PayloadArea:
    """The first bytes of a file, mapped into memory; thread-safe."""

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
        """From now on, lend the bytes of the file from offset ``begin`` up to ``end``."""
        with self._lock:
            assert not self.is_lent, "a message that is on its way would change"
            self._lent = []
            self._begin = self._next = begin
            self._end = end

    def lend(self, size: int) -> memoryview | None:
        """Return ``size`` writable bytes; None if there is no room, or ``size`` is less than `LEAST_BYTES`."""
        with self._lock:
            first = -(-self._next // _ALIGNED) * _ALIGNED
            if size < LEAST_BYTES or first + size > self._end:
                return None
            self._next = first + size
            part = self._bytes[first : self._next]
            self._lent.append(weakref.ref(part))  # every view of it keeps it
            return memoryview(part)

    def close(self) -> None:
        with self._lock:
            self._end = 0

    @property
    def used_bytes(self) -> int:
        return self._next - self._begin

    @property
    def is_lent(self) -> bool:
        """True if a view of lent bytes exists, or a closed connection may still send such bytes."""
        return self._file.is_held or any(part() is not None for part in self._lent)

    def offset_of(self, part: Any) -> int | None:
        """Return the file offset of a lent buffer; None for any other buffer."""
        offset = address_of(part) - self._address
        return offset if self._begin <= offset < self._next else None


def is_in_memory(directory: Path) -> bool:
    """Tell whether a directory, which need not exist yet, is known to be on a file system in memory."""
    try:
        mounts = [line.split() for line in _MOUNTS.read_text("utf-8").splitlines()]
    except OSError:
        return False
    kinds = {Path(mount[1]): mount[2] for mount in mounts}
    found = directory.resolve()
    return next((kinds[path] for path in (found, *found.parents) if path in kinds), "") == "tmpfs"
