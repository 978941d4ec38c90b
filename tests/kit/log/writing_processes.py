"""A program that starts one process after another which writes a log until somebody kills it.

For each line that it reads it starts one, and prints the pid; the process prints every tick that is durable. Processes
are forked, so that a hundred of them take no hundred times as long to start.

    python writing_processes.py DIRECTORY
"""

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tidewheel.pubsub.log.files import Files
from tidewheel.pubsub.log.record_format import Entry, LogIdentity, Part
from tidewheel.pubsub.log.segmented_log import Log

IDENTITY = LogIdentity("killed", 0, 1, "IntegerDomain()")
SEGMENT_BYTES = 100_000
KEPT_TICKS = 10
"""At least so many are not trimmed."""


class SlowFiles(Files):
    """Write little at a time, so that a process is often killed in the middle of a write."""

    def write(self, descriptor: int, parts: Sequence[Part], offset: int) -> int:
        """Write at most 500 bytes."""
        return super().write(descriptor, [memoryview(parts[0])[:500]], offset)


def entry(tick: int) -> Entry:
    """Return what is logged at a tick: something between no bytes at all and a quarter of a megabyte."""
    size = tick * 7919 % 1000 if tick % 10 else tick * 104_729 % 260_000
    return Entry(tick, tick % 256, (b"%d:" % tick, bytes([tick % 251]) * size))


def write(directory: Path) -> None:
    """Write groups of a size that varies, as fast as that goes, and say what is durable; files are written over."""
    with closing(Log(directory, IDENTITY, segment_bytes=SEGMENT_BYTES, wait_s=10, files=SlowFiles())) as log:
        tick = log.last_tick + 1
        log.trim(log.last_tick - KEPT_TICKS)
        while True:
            log.append([entry(tick + place) for place in range(1 + tick % 5)])
            tick += 1 + tick % 5
            os.write(1, b"%d\n" % log.sync())
            if log.is_segment_due:
                log.begin_segment(b"%d" % log.last_tick)
                log.trim(log.last_tick - KEPT_TICKS)


def main(directory: Path) -> None:
    """Start a process for each line, and wait for its end."""
    while sys.stdin.readline():
        pid = os.fork()
        if not pid:
            try:
                write(directory)
            finally:
                os._exit(1)
        os.write(1, b"pid %d\n" % pid)
        os.waitpid(pid, 0)
        os.write(1, b"gone\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
