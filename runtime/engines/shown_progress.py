"""The progress of a job on display: a line in a terminal or notebook, or lines of a log."""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TextIO

from tidewheel.display.notebook_cell import NotebookCell, is_notebook
from tidewheel.runtime.explaining.standing import Standing, line_of

if TYPE_CHECKING:
    from rich.live import Live

_LOGGER = logging.getLogger(__name__)
_EVERY_S = 1.0
_FIRST_S = 5.0
_SLOWEST_S = 60.0


class Surface(Protocol):
    def show(self, text: str) -> None: ...

    def close(self) -> None: ...


class TerminalLine:
    """The last line of a terminal, rewritten in place below the program's output."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._live: Live | None = None

    def show(self, text: str) -> None:
        from rich.console import Console, Group
        from rich.control import Control
        from rich.live import Live
        from rich.segment import ControlType
        from rich.text import Text

        if self._live is None:
            # Output that the program redirects to a file stays there, and long lines stay whole.
            to_terminal = Console(file=self._terminal, soft_wrap=True)
            prints_here = _is_terminal(sys.stdout)
            self._live = Live(console=to_terminal, auto_refresh=False, transient=True, redirect_stdout=prints_here)
            self._live.start()
        # The cursor goes back, so that a log handler that already has the terminal begins its line there.
        line = Text(text, no_wrap=True, overflow="ellipsis", end="")
        self._live.update(Group(line, Control(ControlType.CARRIAGE_RETURN)), refresh=True)

    def close(self) -> None:
        if self._live is not None:
            with suppress(OSError, ValueError):  # the terminal is gone, or closed
                self._live.stop()


class Lines:
    """Lines for a stream that is not a terminal: often in the first minute, later once a minute."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._since_s = time.monotonic()
        self._next_s = 0.0

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now >= self._next_s:
            self._next_s = now + min(_SLOWEST_S, _EVERY_S + (now - self._since_s) / 4)
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def close(self) -> None: ...


class NotebookLine:
    """A line below the cell of a notebook, which stays there."""

    def __init__(self) -> None:
        self._cell = NotebookCell()

    def show(self, text: str) -> None:
        self._cell.show({"text/plain": text})

    def close(self) -> None: ...


def surface_for(wanted: bool | None) -> Surface | None:
    """Return the place where this process shows progress; None if it shows none.

    Args:
        wanted: whether the program asks for progress. None shows it only in a notebook or a terminal, where a person
            may read it.
    """
    is_aside = "PYTEST_CURRENT_TEST" in os.environ or threading.current_thread() is not threading.main_thread()
    if wanted is False or (wanted is None and is_aside):
        return None
    if is_notebook():
        return NotebookLine()
    if _is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb":
        return TerminalLine(sys.stderr)
    return Lines(sys.stderr) if wanted else None


def _is_terminal(stream: TextIO | None) -> bool:
    with suppress(ValueError):  # it is closed
        return stream is not None and stream.isatty()
    return False


class ShownProgress:
    """Displays the progress of a job while a program waits for it.

    Args:
        runs_elsewhere: whether other threads or processes run the job; otherwise the waiting thread must call `look`.
    """

    def __init__(self, name: str, stand: Callable[[Standing | None], Standing], *, runs_elsewhere: bool) -> None:
        self._name = name
        self._stand = stand
        self._runs_elsewhere = runs_elsewhere
        self._surface: Surface | None = None
        self._using = threading.Lock()
        self._since_s = self._next_s = 0.0
        self._first: Standing | None = None
        self._before: Standing | None = None

    @contextmanager
    def shown(self, wanted: bool | None) -> Iterator[None]:
        """Display progress during the ``with`` block, in one thread at a time; see `surface_for`.

        Args:
            wanted: whether the program asks for progress. With None, the display starts after five seconds, and only in
                a notebook or a terminal.
        """
        surface = surface_for(wanted)
        if surface is None or self._surface is not None:
            yield
            return
        self._first = self._before = None
        self._since_s = time.monotonic()
        self._next_s = self._since_s + (0.0 if wanted else _FIRST_S)
        over = threading.Event()
        self._surface = surface
        try:
            if self._runs_elsewhere:
                threading.Thread(target=self._run, args=[over], name="tidewheel-progress", daemon=True).start()
            yield
        finally:
            over.set()
            with self._using:  # a look in progress displays nothing from now on
                self._surface = None
            surface.close()

    def look(self, until_s: float | None) -> float | None:
        """Display the progress if that is due; return until when the caller may sleep."""
        if self._surface is None:
            return until_s
        if time.monotonic() >= self._next_s:
            self._show()
            self._next_s = time.monotonic() + _EVERY_S
        return self._next_s if until_s is None else min(until_s, self._next_s)

    def _run(self, over: threading.Event) -> None:
        while not over.wait(max(0.0, self._next_s - time.monotonic())):
            self.look(None)

    def _show(self) -> None:
        try:
            now = self._stand(self._before)
            self._first = self._first or replace(now, at_s=self._since_s)
            text = line_of(self._name, self._first, self._before, now)
            self._before = now
            with self._using:
                if self._surface is not None:
                    self._surface.show(text)
        except Exception as error:  # noqa: BLE001 - this only displays: the job may have ended, or the stream be closed
            _LOGGER.debug("job %r: no progress to show: %r", self._name, error)
