"""Files in memory whose bytes a socket takes from the file itself, without a copy.

``sendfile`` hands the pages of the file to the connection. So these must not change before the peer has read them. A
`tidewheel.transport.socket_writer.SocketWriter` holds what it has sent until then.
"""

import mmap
import os
import weakref
from typing import Any, Final, Self

_FLAGS: Final = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)


class MappedFile(mmap.mmap):
    """The first bytes of a file, mapped.

    Args:
        descriptor: the descriptor of the file, which may be closed afterwards.
        size: the number of bytes to map; the file has all of them.

    Attributes:
        descriptor: another descriptor of the file, open as long as this is referred to.
        is_held: whether a connection that was closed may still have some of the pages, which then must not change.
    """

    descriptor: int
    is_held: bool

    def __new__(cls, descriptor: int, size: int) -> Self:
        """Map a file."""
        made = super().__new__(cls, descriptor, size, _FLAGS)
        made.descriptor = os.dup(descriptor)
        made.is_held = False
        weakref.finalize(made, os.close, made.descriptor).atexit = False
        return made


def address_of(part: Any) -> int:
    """Return where a buffer lies in memory."""
    import numpy as np

    address: int = np.frombuffer(part, np.uint8).__array_interface__["data"][0]
    return address


def place_of(part: Any) -> tuple[MappedFile, int] | None:
    """Return the file in which a view lies, and its offset there, if it is of a slice of an array of a mapped file."""
    whole = getattr(getattr(part, "obj", None), "base", None)
    file = getattr(getattr(whole, "base", None), "obj", None)
    return (file, address_of(part) - address_of(file)) if isinstance(file, MappedFile) else None
