"""Another process of this node: whether a signal has stopped it, and how to end it."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Self

_STOPPED = b"T"
"""The state of a stopped process in ``/proc/PID/stat``; under a debugger it is ``t``. Source: proc(5)."""


class OtherProcess:
    """A process of the same user on this node, to be closed.

    Raises:
        OSError: there is none of that id, or the system has no descriptors for processes.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)  # a later process with the same number has another descriptor

    @property
    def is_stopped(self) -> bool:
        """True if SIGSTOP or the like has stopped the process; not for a debugger."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_bytes()
        except OSError:
            return False
        return stat[stat.rfind(b")") + 1 :].split()[:1] == [_STOPPED]

    def kill(self) -> None:
        """End it at once, even a stopped one."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
