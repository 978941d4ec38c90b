"""Marks of what the processes of a benchmark have done, in files of a folder, so that they outlive a killed process.

It imports the standard library only, as peers run on other interpreters.
"""

import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

_EVERY_S = 0.01
_LOOK_S = 0.005


class Mark(NamedTuple):
    """A number that a process has noted.

    Attributes:
        at: when, by the machine's monotonic clock, in seconds.
        value: the number.
        writer: the name of its file; each process has files of its own.
    """

    at: float
    value: int
    writer: str


class Marks:
    """Writes the marks of one counter.

    Args:
        folder: it is there already.
        name: of the counter.
    """

    def __init__(self, folder: str, name: str) -> None:
        path = Path(folder) / f"{name}-{os.getpid()}-{time.monotonic_ns()}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._total = 0
        self._next = 0.0

    def note(self, value: int) -> None:
        """Write a mark."""
        os.write(self._file, f"{time.monotonic()} {value}\n".encode())

    def add(self, records: int) -> None:
        """Note that so many more records were counted; at most one mark in 10 ms is written."""
        self._total += records
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EVERY_S
            self.note(self._total)


def marks_in(folder: Path) -> list[Mark]:
    """Return all marks, in the order of time."""
    found = []
    for file in folder.iterdir():
        for line in file.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                at, value = line.split()
                found.append(Mark(float(at), int(value), file.name))
    return sorted(found)


def rate_of(marks: Sequence[Mark], since: float, until: float) -> float:
    """Return how many records a second all counters together have counted between two moments."""
    total = 0
    for writer in {mark.writer for mark in marks}:
        own = [mark.value for mark in marks if mark.writer == writer and since <= mark.at <= until]
        total += own[-1] - own[0] if own else 0
    return total / (until - since)


def writers_in(folder: Path) -> set[str]:
    """Return those that have written."""
    return {file.name for file in folder.iterdir() if file.stat().st_size}


def first_new_mark(folder: Path, known: Collection[str], deadline_s: float) -> float:
    """Wait for the first mark of a writer that is not known; return when it was made.

    Raises:
        TimeoutError: there is none within so many seconds.
    """
    by = time.monotonic() + deadline_s
    while time.monotonic() < by:
        if writers_in(folder).difference(known):
            return min(mark.at for mark in marks_in(folder) if mark.writer not in known)
        time.sleep(_LOOK_S)
    raise TimeoutError(f"no output within {deadline_s:g} s")
