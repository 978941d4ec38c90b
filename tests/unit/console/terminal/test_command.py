"""``tidewheel top`` in a pseudo-terminal, and once into a pipe; telemetry is made by hand."""

import signal
import termios

import pytest

from tests.kit.terminal.pseudo_terminal import ENTERS, LEAVES, PseudoTerminal
from tests.kit.terminal.watched_jobs import ByHand
from tests.waiting import eventually
from tidewheel.console.terminal.command import job_lines, lines_of
from tidewheel.console.terminal.tables import Row, Table
from tidewheel.pubsub.errors import UnknownTopic

PROGRAM = ("-m", "tests.kit.terminal.watched_jobs")


def test_a_person_watches_orders_switches_and_quits() -> None:
    """The first job is shown, with rates; keys order its operators and go to the next; the terminal comes back."""
    with PseudoTerminal(*PROGRAM) as terminal:
        assert terminal.shows("words-1  running for 1 s", "sums-2", "12.5k", "! keeps", "operator 'keeps' holds")
        assert terminal.screen.index("split") < terminal.screen.index("! keeps")
        terminal.press("u")
        assert eventually(lambda: 0 < terminal.screen.find("! keeps") < terminal.screen.find("split"))
        terminal.press("j")
        assert terminal.shows("sums-2  running for 1 s")
        terminal.press("q")
        assert terminal.ended() == (0, terminal.settings)
        assert terminal.sent.count(ENTERS) == terminal.sent.count(LEAVES) == 1
        assert terminal.sent.rstrip().endswith(("\x1b[?25h", LEAVES))


def test_the_terminal_is_left_as_it_was_after_ctrl_c() -> None:
    """As after q: keys are echoed and sent by line again, and the cursor is there."""
    with PseudoTerminal(*PROGRAM) as terminal:
        assert terminal.shows("words-1  running")
        assert termios.tcgetattr(terminal.theirs) != terminal.settings
        terminal.press("\x03")
        assert terminal.ended() == (-signal.SIGINT, terminal.settings)
        assert terminal.sent.rindex("\x1b[?25h") > terminal.sent.rindex("\x1b[?25l")
        assert LEAVES in terminal.sent


def test_once_prints_the_tables_of_a_second() -> None:
    """As text with columns, which other programs can read."""
    lines = list(job_lines(ByHand("words-1")))
    assert lines[:3] == ["words-1  running for 1 s, 1 worker on local", "'done' waits", "1. operator 'keeps' holds"]
    [split] = [line.split() for line in lines if line.startswith("split")]
    assert split == ["split", "1.0k", "12.5k", "40%", "0", "9", "1", "s", "0"]


def test_a_job_that_ends_before_its_first_view_prints_nothing() -> None:
    """There is nothing to print."""

    class Ended(ByHand):
        def __iter__(self):  # type: ignore[no-untyped-def]
            return iter(())

    assert list(job_lines(Ended("over"))) == []


def test_the_reader_is_closed_though_it_fails() -> None:
    """A job that tells nothing is an error with a message."""

    class Failing(ByHand):
        def __iter__(self):  # type: ignore[no-untyped-def]
            raise UnknownTopic("gone", topic="gone")

    reader = Failing("gone")
    with pytest.raises(UnknownTopic):
        list(job_lines(reader))
    assert vars(reader)["_closed"].is_set()


def test_columns_of_numbers_stand_to_the_right() -> None:
    """So that sizes can be compared at a glance."""
    table = Table(("NAME", " N"), [Row(("a", "1")), Row(("longer", "200"))])
    assert list(lines_of(table)) == ["NAME      N", "a         1", "longer  200"]
