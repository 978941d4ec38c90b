"""The identity of a process, and whether a process of this machine is still alive. Source: proc(5)."""

import os
import socket
from pathlib import Path

from tidewheel.runtime.snapshots.entries import Process

_STARTED = 19
"""The index of the start time in /proc/PID/stat, among the fields after the program's name."""


def this_process() -> Process:
    return process_of(os.getpid())


def process_of(pid: int) -> Process:
    return Process(socket.gethostname(), _boot(), _namespace(), pid, _started(pid) or 0)


def is_gone(process: Process) -> bool:
    """Tell whether a process is known to have ended.

    False for a process on another machine, in another container, or from before this machine's last start.
    """
    return _is_here(process) and _started(process.pid) != process.started


def is_running(process: Process) -> bool:
    return _is_here(process) and _started(process.pid) == process.started


def _is_here(process: Process) -> bool:
    return bool(process.boot) and (process.boot, process.namespace) == (_boot(), _namespace())


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _started(pid: int) -> int | None:
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(rest[_STARTED - 1])
