"""A program that starts one process after another which writes a log until somebody kills it.

For each line that it reads it starts one, and prints the pid; the process prints every tick that is durable. Processes
are forked, so that a hundred of them take no hundred times as long to start.

    python writing_processes.py DIRECTORY KIND

A log of the kind "memory" is as one in memory: large payloads are received in it.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.storage.files import Files, Part
from tidewheel.storage.log_records import Entry

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


def received(log: Log, tick: int) -> Entry:
    """Return the entry of a tick, whose payload was received in the log if that has room."""
    made = entry(tick)
    payload = b"".join(made.parts)
    room = log.room_for(len(payload))
    if room is not None:
        room[:] = payload
    return Entry(made.tick, made.kind, (room or payload,))


def write(directory: Path, kind: str) -> None:
    """Write groups of a size that varies, as fast as that goes, and say what is durable; files are written over."""
    memory = kind == "memory"
    opened = Log(directory, IDENTITY, segment_bytes=SEGMENT_BYTES, is_in_memory=memory, wait_s=10, files=SlowFiles())
    with closing(opened) as log:
        tick = log.last_tick + 1
        log.trim(log.last_tick - KEPT_TICKS)
        while True:
            log.append([received(log, tick + place) for place in range(1 + tick % 5)])
            tick += 1 + tick % 5
            os.write(1, b"%d\n" % log.sync())
            if log.is_segment_due:
                log.begin_segment(b"%d" % log.last_tick)
                log.trim(log.last_tick - KEPT_TICKS)


def main(directory: Path, kind: str) -> None:
    """Start a process for each line, and wait for its end."""
    while sys.stdin.readline():
        pid = os.fork()
        if not pid:
            try:
                write(directory, kind)
            finally:
                os._exit(1)
        os.write(1, b"pid %d\n" % pid)
        os.waitpid(pid, 0)
        os.write(1, b"gone\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
