"""The memory settings of workers, publishers and relays: those of the C library, and of Python's garbage collection."""

import ctypes
import gc
import os
import socket
import time
from pathlib import Path

import msgspec

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of ``mallopt``, from <malloc.h> of the GNU C library."""

_MANY_OBJECTS, _OFTEN = 20_000, 20

_KEPT_BYTES = 64 << 20
_LARGEST_BYTES = 32 << 20


def keep_freed_memory() -> None:
    """Allocate arrays of up to 32 MiB from freed memory; each thread keeps up to 64 MiB of it.

    By default arrays above 128 KiB return to the system, and new ones cost a page fault for every 4 KiB: hashing 65,536
    integers takes 0.7 to 0.9 ms instead of 0.1. No effect with another C library. Source: mallopt(3).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST_BYTES)
    mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def collect_rarely() -> None:
    """Search for garbage cycles after 20,000 new objects instead of 700, and never among the present objects.

    Records and their counts are many objects that live for a while, and have no cycles; modules stay for ever. Source:
    the documentation of Python's ``gc.freeze`` and ``gc.set_threshold``.
    """
    gc.freeze()
    gc.set_threshold(_MANY_OBJECTS, _OFTEN, _OFTEN)


class ProcessUse(msgspec.Struct, frozen=True):
    """The resources of a process.

    Attributes:
        rss: its bytes of memory; 0 if unknown.
    """

    pid: int
    node: str
    rss: int
    cpu_seconds: float


def process_use() -> ProcessUse:
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        pages = 0
    return ProcessUse(os.getpid(), socket.gethostname(), pages * os.sysconf("SC_PAGE_SIZE"), time.process_time())
