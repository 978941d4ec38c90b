"""The test for a process that is gone."""

import os
import subprocess
import sys

import msgspec

from tests.waiting import eventually
from tidewheel.runtime.snapshots.this_process import is_gone, this_process


def test_this_process_lives() -> None:
    """And is told from all others."""
    process = this_process()
    assert process.pid == os.getpid()
    assert not is_gone(process)


def test_another_process_with_the_number_is_another() -> None:
    """Numbers of processes are used again."""
    process = this_process()
    assert is_gone(msgspec.structs.replace(process, started=process.started - 1))


def test_a_killed_process_is_gone_before_its_parent_notices() -> None:
    """The operating system keeps its number until the parent asks for its exit code."""
    program = "from tidewheel.runtime.snapshots.this_process import this_process as t; print(t().started); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        process = msgspec.structs.replace(this_process(), pid=child.pid, started=int(child.stdout.readline()))
        assert not is_gone(process)
        child.kill()
        assert eventually(lambda: is_gone(process))


def test_of_another_machine_nothing_is_known() -> None:
    """Nor of a container, whose processes have numbers of their own, or of a machine that does not say."""
    process = msgspec.structs.replace(this_process(), started=1)
    for other in ({"boot": "other"}, {"namespace": "pid:[1]"}, {"boot": ""}):
        assert not is_gone(msgspec.structs.replace(process, **other))
