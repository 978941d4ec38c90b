"""A driver of its own process, as tests start and end it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
_ENDS_WITHIN_S = 30.0


def _heed_interrupts() -> None:
    """Have Ctrl-C arrive in a program though it is started from one in the background, where it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class DriverProcess:
    """Runs a module as a program on the cluster at an address; in a ``with`` block, after which it has ended."""

    def __init__(self, address: str, module: str, *arguments: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, "RAY_ADDRESS": address, "PYTHONUNBUFFERED": "1", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_heed_interrupts,  # noqa: PLW1509 - nothing but that happens before it is another program
        )

    def wait_until_it_says(self, word: str) -> None:
        """Read its output up to a line that is ``word``; fail if it ends before."""
        if word not in self.lines():
            raise AssertionError(f"it ended without having said {word!r}: {self.ended()[1]}")

    def lines(self) -> Iterator[str]:
        """Read its output line by line, until it ends."""
        assert self._process.stdout is not None
        return (line.rstrip("\n") for line in self._process.stdout)

    def errors(self) -> Iterator[str]:
        """Read its errors line by line, until it ends."""
        assert self._process.stderr is not None
        return (line.rstrip("\n") for line in self._process.stderr)

    def tell(self) -> None:
        """Give it a line to read."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self, by: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(by)

    def ended(self, within_s: float = _ENDS_WITHIN_S) -> tuple[str, str]:
        """Wait until it has ended; return the rest of what it wrote to its output, and its errors."""
        return self._process.communicate(timeout=within_s)

    @property
    def code(self) -> int | None:
        """Its exit code, None if it runs."""
        return self._process.poll()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
