"""An owner of a folder of snapshots in a process of its own, which does what it is told, and can be stopped and killed.

`python -m tests.kit.snapshots.owner_process URL` reads a command a line, and prints an answer to each.
"""

import os
import select
import signal
import subprocess
import sys
from types import TracebackType
from typing import Self

from tests.waiting import WITHIN_S
from tidewheel.runtime.snapshots.names import blob_name


class Owner:
    """The process, from outside."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-m", "tests.kit.snapshots.owner_process", url]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.answer() == "ready"

    def tell(self, command: str) -> None:
        """Send a command: claim, commit, write or release."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")

    def answer(self) -> str:
        """Return the next line that the process prints."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], 2 * WITHIN_S)
        assert ready, "the owner does not answer"
        return self._process.stdout.readline().strip()

    def ask(self, command: str) -> str:
        """Send a command; return the answer."""
        self.tell(command)
        return self.answer()

    def stop(self) -> None:
        """Have the process stand still; return once all of its threads do."""
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def go_on(self) -> None:
        """End `stop`."""
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process, as kill -9 does."""
        self._process.kill()
        self._process.wait(WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def _main(url: str) -> None:
    from tidewheel.progress.errors import TidewheelError
    from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder

    folder = SnapshotFolder(url)
    owner = None
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        answer = "released"
        try:
            if line.strip() == "claim":
                owner = folder.claim(f"process {os.getpid()}")
                answer = "owns"
            elif owner is not None and line.strip() == "release":
                owner.release()
            elif owner is not None:
                number = owner.next_snapshot
                blob = folder.write(blob_name(owner.incarnation, number, "worker-0"), [b"state"])
                answer = "written"
                if line.strip() == "commit":
                    answer = f"committed {owner.commit(number, [blob], {'workers': 2}).number}"
        except TidewheelError as error:
            answer = f"{type(error).__name__}: {error}"
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main(sys.argv[1])
