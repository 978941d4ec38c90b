"""What a process sees of another one on its node."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.waiting import eventually
from tidewheel.host.other_process import OtherProcess


def test_a_process_that_is_stopped_is_seen_and_killed() -> None:
    """SIGKILL ends a stopped process, too; to kill it again does nothing."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with ExitStack() as stack:
        child = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE))
        stack.callback(child.kill)
        process = stack.enter_context(OtherProcess(child.pid))
        assert (process.pid, process.is_stopped) == (child.pid, False)
        os.kill(child.pid, signal.SIGSTOP)
        assert eventually(lambda: process.is_stopped)
        os.kill(child.pid, signal.SIGCONT)
        assert eventually(lambda: not process.is_stopped)
        os.kill(child.pid, signal.SIGSTOP)
        process.kill()
        assert child.wait(30.0) == -signal.SIGKILL
        process.kill()
        assert not process.is_stopped


def test_there_is_no_such_process() -> None:
    """As for a process that this one cannot see, whose number is 0."""
    with pytest.raises(OSError, match="Invalid argument"):
        OtherProcess(0)
