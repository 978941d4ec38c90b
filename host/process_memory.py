"""The memory settings of workers, publishers and relays: for the C library, and for Python's garbage collection."""

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
    """Reuse freed memory for arrays of up to 32 MiB; each thread keeps up to 64 MiB for that.

    By default the C library returns arrays above 128 KiB to the system. A new array then costs a page fault for every 4
    KiB: hashing 65,536 integers takes 0.7 to 0.9 ms instead of 0.1. Only with the GNU C library. Source: mallopt(3).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST_BYTES)
    mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def collect_rarely() -> None:
    """Search for garbage cycles after 20,000 new objects instead of 700, and never among the present objects.

    Records and their counts are many objects without cycles, which live for a while. Modules stay for ever. Source: the
    documentation of Python's ``gc.freeze`` and ``gc.set_threshold``.
    """
    gc.freeze()
    gc.set_threshold(_MANY_OBJECTS, _OFTEN, _OFTEN)


class ProcessUse(msgspec.Struct, frozen=True):
    """The resources of a process.

    Attributes:
        rss: the bytes of memory in use; 0 if unknown.
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
