"""Tests of what a process says of its use of the machine."""

import os
import socket

import psutil

from tidewheel.host.process_memory import process_use


def test_a_process_knows_what_it_uses() -> None:
    """Memory and processor time are those that the system shows to others."""
    use, seen = process_use(), psutil.Process()
    assert (use.pid, use.node) == (os.getpid(), socket.gethostname())
    assert abs(use.rss - seen.memory_info().rss) < 64 << 20
    times = seen.cpu_times()
    assert abs(use.cpu_seconds - (times.user + times.system)) < 1.0
