"""Memory in the processes of workers, publishers and relays: that of the C library, and what Python collects."""

import ctypes
import gc
import os
import socket
import time
from pathlib import Path

import msgspec

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Of ``mallopt`` in <malloc.h> of the GNU C library."""

_MANY_OBJECTS, _OFTEN = 20_000, 20

_KEPT_BYTES = 64 << 20
_LARGEST_BYTES = 32 << 20


def keep_freed_memory() -> None:
    """Have arrays of up to 32 MiB allocated from memory that was freed before, of which each thread keeps up to 64 MiB.

    By default larger arrays than 128 KiB are given back to the system at once, and smaller ones where many are freed
    together; each new one costs a page fault for every 4 KiB: hashing 65,536 integers takes 0.7 to 0.9 ms instead of
    0.1. Does nothing with another C library. Source: mallopt(3).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST_BYTES)
    mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def collect_rarely() -> None:
    """Have Python look for cycles of garbage after 20,000 new objects, not 700, and not among what is there now.

    Records and what is counted of them are many objects that live for a while, and in no cycles. What the modules of
    Ray and others have made never goes. Source: the documentation of Python's ``gc.freeze`` and ``gc.set_threshold``.
    """
    gc.freeze()
    gc.set_threshold(_MANY_OBJECTS, _OFTEN, _OFTEN)


class ProcessUse(msgspec.Struct, frozen=True):
    """What a process uses.

    Attributes:
        pid: its number.
        node: the name of its host.
        rss: the bytes of memory that it has; 0 where the system does not tell.
        cpu_seconds: the seconds of all its threads on a CPU.
    """

    pid: int
    node: str
    rss: int
    cpu_seconds: float


def process_use() -> ProcessUse:
    """Return what this process uses now; takes some microseconds."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        pages = 0
    return ProcessUse(os.getpid(), socket.gethostname(), pages * os.sysconf("SC_PAGE_SIZE"), time.process_time())
