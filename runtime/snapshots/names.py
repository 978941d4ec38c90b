"""The names of the objects in a folder of snapshots, ordered by their numbers."""

import re
from typing import NamedTuple

from tidewheel.storage.numbered_log import NumberedLog

LOG = "log/"
PARTS = "parts/"
HEARTBEATS = "heartbeats/"

ENTRIES = NumberedLog(LOG, 10, ".json")
"""The entries of the log."""

_BLOB = re.compile(r"parts/(\d{6,})-(\d{10,})-")
_HEARTBEAT = re.compile(r"heartbeats/(\d{6,})")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")


class Writing(NamedTuple):
    """The snapshot that a blob was written for: its number, and the incarnation of its owner."""

    incarnation: int
    snapshot: int


def blob_name(incarnation: int, snapshot: int, name: str) -> str:
    """Return the full name of a blob of a snapshot. Each writer must choose a different ``name``.

    >>> blob_name(3, 17, "worker-0")
    'parts/000003-0000000017-worker-0'

    Raises:
        ValueError: the name has other characters than letters, digits, ``_``, ``.`` and ``-``.
    """
    if not _PLAIN.fullmatch(name):
        raise ValueError(f"name={name!r} of a blob is not made of ASCII letters, digits, '_', '.' and '-'")
    return f"{PARTS}{incarnation:06}-{snapshot:010}-{name}"


def blob_writing(name: str) -> Writing | None:
    """Return the snapshot that a blob was written for, also for half-written files; None for other names."""
    found = _BLOB.match(name)
    return Writing(int(found[1]), int(found[2])) if found else None


def heartbeat_name(incarnation: int) -> str:
    return f"{HEARTBEATS}{incarnation:06}"


def heartbeat_incarnation(name: str) -> int | None:
    found = _HEARTBEAT.match(name)
    return int(found[1]) if found else None
