"""What the processes of publishers and relays do with memory that they have freed."""

import ctypes
from typing import Final

KEPT_BYTES: Final = 64 * 1024 * 1024

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_FROM_HEAP = 32 * 1024 * 1024


def keep_freed_memory() -> None:
    """Have this process keep what it frees, up to `KEPT_BYTES`, for what comes next.

    Messages come, are kept for a moment, and go, many of them together. Each page that has to come back from the system
    costs as much as copying it several times. For processes of our own only; does nothing where the C library is not
    glibc. Source: mallopt(3).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_FROM_HEAP)
