"""``tidewheel top``: its options, the threads that follow jobs, and the loop until a key ends it."""

import argparse
import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from tidewheel.console.page.lag import Fronts
from tidewheel.console.page.live_numbers import with_live_numbers
from tidewheel.console.terminal.choices import Choices
from tidewheel.console.terminal.tables import (
    ListedJob,
    Table,
    jobs_table,
    log_table,
    operators_table,
    sinks_table,
    sources_table,
    stuck_lines,
    title_of,
    topics_table,
    workers_table,
)
from tidewheel.display.figures import plain
from tidewheel.progress import TidewheelError
from tidewheel.pubsub.subscribers.telemetry_reader import TelemetryReader
from tidewheel.pubsub.subscribers.view import View

_LOOK_S = 0.25
_JOBS_EVERY_S = 2.0
_ESCAPE = b"\x1b"


class Reader(Protocol):
    """An iterable of a job's views that can be closed, such as a `TelemetryReader`."""

    def __iter__(self) -> Iterator[View]: ...

    def close(self) -> None: ...


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job", metavar="JOB", nargs="?", help="as 'tidewheel jobs' lists it, or its name without the last part"
    )
    parser.add_argument("--once", action="store_true", help="print the figures of one second as text, for a pipe")


def top(jobs: Callable[[], Sequence[ListedJob]], show: Callable[[str], None], *, once: bool) -> None:
    """Show the telemetry of jobs until a key ends the command.

    Args:
        jobs: returns the jobs to choose from; called every two seconds.
        show: prints a line for the user.
        once: whether to show each job once, as plain text; without a terminal, this is always done.

    Raises:
        UnknownTopic: with ``once``, a job sends no telemetry.
        KeyboardInterrupt: Ctrl-C ended the command.
    """
    found = jobs()  # connects this process to the cluster, and fails here if there is none
    if not once and sys.stdin.isatty() and sys.stdout.isatty():
        watch(jobs, TelemetryReader)
        return
    if len(found) != 1:
        for line in lines_of(jobs_table(found)):
            show(line)
    for job in found:
        try:
            for line in job_lines(TelemetryReader(job.name)):
                show(line)
        except TidewheelError as error:  # it has just ended
            if len(found) == 1:
                raise
            show(f"{plain(job.name)}: {plain(error)}")


def job_lines(reader: Reader) -> Iterator[str]:
    view: View | None = None
    fronts = Fronts()
    try:
        for found in reader:
            view = with_live_numbers(found, fronts)
            if view.before is not None:
                break
    finally:
        reader.close()
    if view is None:
        return
    yield from title_of(view.document)
    yield from stuck_lines(view.document)
    tables = [make(view) for make in (operators_table, sources_table, sinks_table, topics_table, workers_table)]
    for table in (*tables, log_table(view.document)):
        if table.rows:
            yield ""
            yield from lines_of(table)


def lines_of(table: Table) -> Iterator[str]:
    rows = [[head.strip() for head in table.heads], *(row.cells for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numbers = [head.startswith(" ") for head in table.heads]
    for row in rows:
        cells = zip(row, widths, numbers, strict=True)
        yield "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells).rstrip()


class _Followed:
    """A job whose telemetry a thread reads.

    Attributes:
        view: the last view, or None.
    """

    def __init__(self, name: str, read: Callable[[str], Reader]) -> None:
        self.name = name
        self.view: View | None = None
        self.trouble = ""
        self._read = read
        self._reader: Reader | None = None
        self._is_closed = False
        threading.Thread(target=self._run, name=f"tidewheel-top-{name}", daemon=True).start()

    def close(self) -> None:
        self._is_closed = True
        if self._reader is not None:
            self._reader.close()

    def _run(self) -> None:
        fronts = Fronts()
        try:
            self._reader = self._read(self.name)
            for view in self._reader:
                if self._is_closed:
                    return
                self.view = with_live_numbers(view, fronts)
        except TidewheelError as error:
            self.trouble = str(error)
        finally:
            if self._reader is not None:
                self._reader.close()


class _Listed:
    def __init__(self, look: Callable[[], Sequence[ListedJob]]) -> None:
        self.jobs: Sequence[ListedJob] | None = None
        self.trouble = ""
        self._look = look
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="tidewheel-top-jobs", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self.jobs, self.trouble = self._look(), ""
            except TidewheelError as error:
                self.trouble = str(error)
            self._closed.wait(_JOBS_EVERY_S)


def watch(jobs: Callable[[], Sequence[ListedJob]], read: Callable[[str], Reader]) -> None:
    from rich.console import Console
    from rich.live import Live

    from tidewheel.console.terminal.screen import picture

    console, choices, listed = Console(), Choices(), _Listed(jobs)
    shown: _Followed | None = None
    drawn: list[Any] = []
    try:
        with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
            while not choices.is_over:
                shown = _chosen(shown, listed.jobs or (), choices, read)
                view = None if shown is None else shown.view
                message = _message(listed, shown)
                new = [view, message, choices, console.size, *(listed.jobs or ())]
                if len(new) != len(drawn) or view is not drawn[0] or new[1:] != drawn[1:]:
                    live.update(picture(listed.jobs or (), view, message, choices, console.size.height), refresh=True)
                    drawn = new
                choices = choices.after(pressed(_LOOK_S))
    finally:
        listed.close()
        if shown is not None:
            shown.close()


def _chosen(
    shown: _Followed | None, jobs: Sequence[ListedJob], choices: Choices, read: Callable[[str], Reader]
) -> _Followed | None:
    names = [job.name for job in jobs]
    if not names or (shown is not None and not choices.wants_next):
        return shown
    place = -1 if shown is None or shown.name not in names else names.index(shown.name)
    name = names[(place + 1) % len(names)]
    if shown is not None:
        if shown.name == name:
            return shown
        shown.close()
    return _Followed(name, read)


def _message(listed: _Listed, shown: _Followed | None) -> str:
    if shown is not None and (shown.trouble or shown.view is None):
        return shown.trouble or f"waits for the telemetry of job {shown.name!r}"
    if listed.trouble or shown is not None:
        return listed.trouble
    return "looks for jobs" if listed.jobs is None else "no job runs on the cluster"


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([terminal], [], [], seconds)
        if not ready:
            return ""
        sent = os.read(terminal, 1)
        if sent == _ESCAPE and select.select([terminal], [], [], 0.0)[0]:
            sent += os.read(terminal, 2)  # the rest of an arrow
        return sent.decode(errors="replace") if sent else "q"  # the terminal is gone

    try:
        tty.setcbreak(terminal)
        yield pressed
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
