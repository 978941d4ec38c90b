"""The progress of a job that is waited for: when it is shown, where, and what is left of it."""

import io
import sys
import threading
import types
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.terminal.pseudo_terminal import PseudoTerminal, lines_of
from tests.waiting import eventually
from tidewheel.runtime.engines.shown_progress import (
    Lines,
    NotebookLine,
    ShownProgress,
    TerminalLine,
    surface_for,
)
from tidewheel.runtime.explaining.standing import Standing

PROGRAM = ("-m", "tests.kit.terminal.waiting_program")


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def no_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the process look like no test: not in a fixture, as pytest says between fixture and test that it is one."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setenv("TERM", "xterm")


def terminal_in(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make a terminal standard output and standard error: not in a fixture, as pytest replaces both behind it."""
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdout", stream)
    return stream


# ---------------------------------------------------------------------- in a real terminal


def test_a_person_sees_it_and_what_the_program_prints() -> None:
    """One line, written anew; what the program prints stands above it, and nothing is left of it at the end."""
    with PseudoTerminal(*PROGRAM) as terminal:
        assert terminal.reaches("epoch 0")
        terminal.press("ab")
        assert terminal.reaches("epoch 2, 4 records")
        terminal.press("p")
        assert eventually(lambda: "printed" in terminal.lines)
        assert terminal.reaches("epoch 3, 6 records")
        terminal.press("e")
        assert terminal.ended()[0] == 0
        assert terminal.lines == ["printed", "over", ""]


@pytest.mark.parametrize(("key", "code", "said"), [("f", 1, "failed"), ("\x03", 2, "interrupted")])
def test_nothing_is_left_after_an_error_or_an_interruption(key: str, code: int, said: str) -> None:
    """The message begins at the begin of a line, and standard output is what it was."""
    with PseudoTerminal(*PROGRAM) as terminal:
        assert terminal.reaches("epoch 0")
        terminal.press(key)
        assert terminal.ended()[0] == code
        assert said in terminal.lines
        assert not any(": epoch" in line for line in terminal.lines)


# ---------------------------------------------------------------------- where it is shown


def test_a_test_shows_nothing_unless_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even with `pytest -s` in a terminal."""
    terminal_in(monkeypatch)
    assert surface_for(None) is None
    assert surface_for(False) is None
    assert isinstance(surface_for(True), TerminalLine)


def test_a_pipe_gets_lines_only_if_the_program_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of a job that nobody watches has no use for them."""
    no_test(monkeypatch)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert surface_for(None) is None
    assert isinstance(surface_for(True), Lines)
    monkeypatch.setattr(sys, "stderr", None)
    assert surface_for(None) is None


def test_a_terminal_has_it_unless_the_program_does_not_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that cannot erase, and a thread beside the program, do not."""
    no_test(monkeypatch)
    terminal_in(monkeypatch)
    assert isinstance(surface_for(None), TerminalLine)
    assert surface_for(False) is None
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(surface_for(None)))
    thread.start()
    thread.join()
    assert found == [None]
    monkeypatch.setenv("TERM", "dumb")
    assert surface_for(None) is None


def test_a_notebook_has_one_line_below_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is updated in place, and stays."""
    no_test(monkeypatch)
    shown: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], *, raw: bool) -> None:
            assert raw
            shown.append(f"again {data['text/plain']}")

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        shown.append(data["text/plain"])
        return Handle()

    notebook: Any = types.ModuleType("IPython")
    notebook.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    notebook.display = types.ModuleType("IPython.display")
    notebook.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook.display)
    surface = surface_for(None)
    assert isinstance(surface, NotebookLine)
    surface.show("one")
    surface.show("two")
    surface.close()
    assert shown == ["one", "again two"]


def test_a_job_shows_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, if asked for; and those of a dataflow that was added, too."""
    flow, other = tw.Dataflow("asked"), tw.Dataflow("other")
    flow.source("words", tw.IterableSource([[(3, ["tide"])]])).probe("done")
    other.source("words", tw.IterableSource([[(3, ["tide"])]])).probe("done")
    with tw.run(flow, engine="local") as job:
        added = job.add(other)
        job.wait(10.0, progress=True)
    out, errors = capsys.readouterr()
    assert out == ""
    names = [line.partition(":")[0] for line in errors.splitlines()]
    assert job.name in names
    assert set(names) <= {job.name, added.name}
    with tw.run(flow, engine="local") as job:
        job.wait(10.0)
    assert capsys.readouterr() == ("", "")


# ---------------------------------------------------------------------- the terminal


def test_what_others_print_stands_above_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of it is shown once it has ended; afterwards, standard output is what it was."""
    terminal = terminal_in(monkeypatch)
    line = TerminalLine(terminal)
    line.show("progress 1")
    assert lines_of(terminal.getvalue()) == ["progress 1"]
    sys.stdout.write("printed\n")
    line.show("progress 2")
    assert lines_of(terminal.getvalue()) == ["printed", "progress 2"]
    sys.stdout.write("in the")
    line.show("progress 3")
    sys.stdout.write(" middle\n")
    assert lines_of(terminal.getvalue()) == ["printed", "in the middle", "progress 3"]
    assert sys.stdout.isatty()
    sys.stdout.write("at the end")
    line.close()
    assert lines_of(terminal.getvalue()) == ["printed", "in the middle", "at the end", ""]
    assert sys.stdout is sys.stderr is terminal


def test_a_long_line_that_others_print_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a person can copy it; and nothing in it is read as an instruction for colours."""
    terminal = terminal_in(monkeypatch)
    line = TerminalLine(terminal)
    line.show("progress")
    sys.stdout.write("[red]tide [0] 17 " * 10 + "\n")
    assert lines_of(terminal.getvalue()) == ["[red]tide [0] 17 " * 10, "progress"]
    line.close()


def test_what_the_program_prints_to_a_file_goes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is printed on the terminal has to make room for the line."""
    terminal = terminal_in(monkeypatch)
    monkeypatch.setattr(sys, "stdout", file := io.StringIO())
    line = TerminalLine(terminal)
    line.show("progress")
    sys.stdout.write("result\n")
    sys.stderr.write("said\n")
    assert lines_of(terminal.getvalue()) == ["said", "progress"]
    line.close()
    assert file.getvalue() == "result\n"


def test_a_handler_of_logging_from_before_begins_its_line_at_the_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes past the line, over it."""
    terminal = terminal_in(monkeypatch)
    line = TerminalLine(terminal)
    line.show("progress")
    terminal.write("WARNING: low tide\n")
    line.show("progress")
    assert lines_of(terminal.getvalue()) == ["WARNING: low tide", "progress"]
    line.close()
    assert lines_of(terminal.getvalue()) == ["WARNING: low tide", ""]


def test_a_line_that_does_not_fit_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that goes on in the next line would not be erased."""
    terminal = terminal_in(monkeypatch)
    line = TerminalLine(terminal)
    line.show("潮" * 100)
    assert lines_of(terminal.getvalue()) == ["潮" * 39 + " …"]
    line.close()
    assert lines_of(terminal.getvalue()) == [""]


def test_a_terminal_that_is_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job goes on without it, and what the program prints goes where it went before."""
    terminal = terminal_in(monkeypatch)
    times = iter(range(9))
    progress = ShownProgress("unseen", lambda _: Standing(float(next(times))), runs_elsewhere=False)
    with progress.shown(True):
        progress.look(None)
        assert sys.stdout is not terminal
        terminal.close()
        vars(progress)["_next_s"] = 0.0
        progress.look(None)
        assert next(times) == 2
    assert sys.stdout is sys.stderr is terminal


# ---------------------------------------------------------------------- when it is shown


def test_a_job_that_stands_still_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that is under way when the wait ends is not waited for, and shows nothing any more."""
    terminal = terminal_in(monkeypatch)
    looks, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def stand(before: Standing | None) -> Standing:
        looks.set()
        assert go_on.wait(10.0)
        done.set()
        return Standing(1.0)

    progress = ShownProgress("slow", stand, runs_elsewhere=True)
    with progress.shown(True):
        assert looks.wait(10.0)
    go_on.set()
    assert done.wait(10.0)
    for thread in threading.enumerate():
        if thread.name == "tidewheel-progress":
            thread.join(10.0)
    assert terminal.getvalue() == ""


def test_a_look_that_fails_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits is told why the job has ended; a look at it may fail for the same reason."""
    terminal = terminal_in(monkeypatch)

    def stand(before: Standing | None) -> Standing:
        raise tw.JobError("over")

    progress = ShownProgress("failed", stand, runs_elsewhere=False)
    with progress.shown(True):
        progress.look(None)
    assert terminal.getvalue() == ""


def test_the_thread_that_waits_sleeps_until_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without progress, as long as it likes; each look knows the one before."""
    terminal_in(monkeypatch)
    before: list[Standing | None] = []

    def stand(one: Standing | None) -> Standing:
        before.append(one)
        return Standing(float(len(before)))

    progress = ShownProgress("local", stand, runs_elsewhere=False)
    assert progress.look(None) is None
    assert progress.look(5.0) == 5.0
    with progress.shown(True):
        until = progress.look(None)
        assert until is not None
        assert progress.look(until - 0.5) == until - 0.5
        assert before == [None]
        with progress.shown(True):  # of another thread
            progress.look(None)
        assert progress.look(until + 60.0) == until
    assert progress.look(None) is None


def test_lines_come_less_and_less_often() -> None:
    """So that the log of a day is no novel."""
    log = io.StringIO()
    lines = Lines(log)
    lines.show("one")
    lines.show("two")
    assert log.getvalue() == "one\n"
    vars(lines)["_next_s"] = 0.0
    lines.show("three")
    lines.close()
    assert log.getvalue() == "one\nthree\n"


class Broken(io.StringIO):
    """A stream whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_wait_goes_on_where_nothing_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program whose log is a pipe to a program that has ended runs its job nevertheless."""
    flow = tw.Dataflow("unseen")
    flow.input("numbers", int).capture("numbers")
    with tw.run(flow, engine="local") as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", Broken())
            job.wait(progress=True)
        assert [one.batch for one in job.captured("numbers")] == [[1]]
