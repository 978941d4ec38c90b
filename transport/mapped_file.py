"""Files in memory whose pages a socket sends without a copy.

``sendfile`` passes the pages themselves to the connection, so they must not change until the peer has read them. A
`tidewheel.transport.socket_writer.SocketWriter` refers to the pages until then.
"""

import mmap
import os
import weakref
from typing import Any, Final, Self

_FLAGS: Final = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)


class MappedFile(mmap.mmap):
    """The first bytes of a file, mapped into memory.

    Attributes:
        descriptor: another descriptor of the file, open as long as this object exists.
        is_held: whether a closed connection may still send the pages, so that they must never change.
    """

    descriptor: int
    is_held: bool

    def __new__(cls, descriptor: int, size: int) -> Self:
        made = super().__new__(cls, descriptor, size, _FLAGS)
        made.descriptor = os.dup(descriptor)
        made.is_held = False
        weakref.finalize(made, os.close, made.descriptor).atexit = False
        return made


def address_of(part: Any) -> int:
    import numpy as np

    address: int = np.frombuffer(part, np.uint8).__array_interface__["data"][0]
    return address


def place_of(part: Any) -> tuple[MappedFile, int] | None:
    """Return the mapped file that ``part`` is a view of, and the offset in it; None for other memory."""
    whole = getattr(getattr(part, "obj", None), "base", None)
    file = getattr(getattr(whole, "base", None), "obj", None)
    return (file, address_of(part) - address_of(file)) if isinstance(file, MappedFile) else None
