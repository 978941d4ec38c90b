"""Another process of this machine: whether a signal has stopped it, and how to kill it."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Self

_STOPPED = b"T"
"""The state of a stopped process in ``/proc/PID/stat``; under a debugger it is ``t``. Source: proc(5)."""


class OtherProcess:
    """A process of the same user on this machine; close it after use.

    Raises:
        OSError: no process has that id, or the system has no descriptors for processes.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)  # a later process with the same number has another descriptor

    @property
    def is_stopped(self) -> bool:
        """True if a signal such as SIGSTOP has stopped the process; a debugger does not count."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_bytes()
        except OSError:
            return False
        return stat[stat.rfind(b")") + 1 :].split()[:1] == [_STOPPED]

    def kill(self) -> None:
        """End the process at once, even a stopped one."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
