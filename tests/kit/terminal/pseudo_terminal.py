"""A program in a pseudo-terminal, as a person runs it: keys go in, and what is on the screen can be read."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.waiting import eventually

ROOT = Path(__file__).parents[3]
WITHIN_S = 30.0
"""The longest time that a program may take which starts beside others, in seconds."""
ENTERS, LEAVES = "\x1b[?1049h", "\x1b[?1049l"
"""The sequences that a program sends as it fills the terminal, and as it gives it back."""

_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")


class PseudoTerminal:
    """Runs a Python program in a terminal of its own; in a ``with`` block, after which it has ended.

    Args:
        arguments: of Python, such as ``-m`` and a module.
        columns, lines: the size of the terminal.
        environment: more variables.
    """

    def __init__(self, *arguments: str, columns: int = 110, lines: int = 30, **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        self.theirs = theirs
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.settings = termios.tcgetattr(theirs)
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path), **environment},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - nothing but that happens before it is another program
        )
        self._sent = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._ours, 1 << 16)
            except OSError:
                return
            if not part:
                return
            self._sent += part

    @property
    def sent(self) -> str:
        """All that the program has written, with what moves the cursor."""
        return self._sent.decode(errors="replace")

    @property
    def screen(self) -> str:
        """The text since the cursor was last sent to the corner, or all text, without what moves the cursor."""
        return _SEQUENCE.sub("", self.sent.rpartition("\x1b[H")[2])

    @property
    def lines(self) -> list[str]:
        """What a person sees of a program that only goes back to the begin of its line, and erases that."""
        return lines_of(self.sent)

    def shows(self, *texts: str) -> bool:
        """Wait until all of some texts are on the screen."""
        return eventually(lambda: all(text in self.screen for text in texts), WITHIN_S)

    def reaches(self, text: str) -> bool:
        """Wait until the last line has a text."""
        return eventually(lambda: text in self.lines[-1], WITHIN_S)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def ended(self) -> tuple[int, list[object]]:
        """Wait until the program has ended; return its exit code, and the settings of the terminal then."""
        code = self._process.wait(WITHIN_S)
        settings = termios.tcgetattr(self.theirs)
        os.close(self.theirs)
        self.theirs = -1
        self._thread.join(WITHIN_S)
        return code, settings

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for end in (self.theirs, self._ours):
            if end >= 0:
                os.close(end)


def lines_of(sent: str) -> list[str]:
    """Return the lines of a terminal on which a program moves the cursor within and between lines, and erases them."""
    lines, row, column = [""], 0, 0
    for part in re.findall(rf"{_SEQUENCE.pattern}|\r|\n|[^\x1b\r\n]+|\x1b", sent):
        if part == "\n":
            row, column = row + 1, 0
            lines.extend([""] * (row == len(lines)))
        elif part == "\r":
            column = 0
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part == "\x1b[1A":
            row -= 1
        elif not part.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    while len(lines) > row + 1 and not lines[-1]:
        lines.pop()
    return lines


def _take_terminal() -> None:
    """Have Ctrl-C reach the program as from a keyboard."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
