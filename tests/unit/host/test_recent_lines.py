"""Tests of the last lines of a process's log."""

import logging

import pytest

from tidewheel.host.log_lines import about
from tidewheel.host.recent_lines import MOST_CHARACTERS, MOST_LINES, RecentLines

LOGGER = logging.getLogger("mine.part")


def followed(logger: str = "", **fields: object) -> RecentLines:
    """Return what keeps the lines of this process from now on, on threads of which these fields are known."""
    lines = RecentLines(lambda: fields, logger)
    lines.follow()
    return lines


def test_warnings_and_errors_are_kept_with_what_they_are_about() -> None:
    """Their own fields go before those of the thread; what is below WARNING is not there."""
    lines = followed(job="sums", operator="map", worker=1)
    LOGGER.info("nothing")
    LOGGER.warning("it is %s", "late")
    LOGGER.error("no", extra=about("sums", operator="filter"))
    LOGGER.critical("out", extra={"worker": 0})
    told = [(line.number, line.level, line.text, line.operator, line.worker) for line in lines.of("sums")]
    assert told == [
        (1, "warning", "it is late", "map", 1),
        (2, "error", "no", "filter", 1),
        (3, "error", "out", "map", 0),
    ]
    assert {line.logger for line in lines.of("sums")} == {"mine.part"}


def test_lines_of_other_jobs_are_left_out() -> None:
    """Those that are about no job are for all."""
    lines = followed()
    LOGGER.warning("one", extra=about("sums"))
    LOGGER.warning("another", extra=about("words"))
    LOGGER.warning("both")
    assert [line.text for line in lines.of("sums")] == ["one", "both"]
    assert [line.text for line in lines.of("words")] == ["another", "both"]


def test_a_driver_keeps_the_lines_of_one_logger_alone() -> None:
    """And those of operators that run in it."""
    driver, running = followed("mine"), followed("tidewheel", job="sums")
    LOGGER.warning("ours")
    logging.getLogger("minery").warning("of the program")
    assert [line.text for line in driver.of("sums")] == ["ours"]
    assert [line.text for line in running.of("sums")] == ["ours", "of the program"]


def test_only_the_last_lines_are_kept_and_long_ones_are_cut() -> None:
    """However much a program logs."""
    lines = followed()
    for number in range(MOST_LINES + 5):
        LOGGER.warning("%d %s", number, "x" * 2 * MOST_CHARACTERS)
    kept = lines.of("sums")
    assert [line.number for line in kept] == list(range(6, MOST_LINES + 6))
    assert {len(line.text) for line in kept} == {MOST_CHARACTERS}


def test_what_the_program_logs_with_stays_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """No handler is added, also not for what nobody handles; records whose arguments do not fit are kept, too."""
    logger = logging.getLogger("alone")
    logger.propagate = False
    lines = followed()
    assert not logger.hasHandlers()
    logger.warning("to standard error")
    assert capsys.readouterr().err == "to standard error\n"
    logger.warning("%d", "no number")
    assert [line.text for line in lines.of("sums")] == ["to standard error", "%d"]
    assert logging.makeLogRecord({"msg": "bare"}).getMessage() == "bare"


@pytest.fixture
def silent() -> logging.Logger:
    """A logger whose records nobody else keeps, not even the tests."""
    logger = logging.Logger("silent")  # noqa: LOG001 - it is to have no logger above it
    logger.addHandler(logging.NullHandler())
    return logger


def test_an_argument_is_not_kept_for_long(silent: logging.Logger) -> None:
    """A record has its arguments, which may be large."""

    class Large:
        alive = 0

        def __init__(self) -> None:
            Large.alive += 1

        def __del__(self) -> None:
            Large.alive -= 1

    lines = followed()
    for _ in range(3):
        silent.warning("%s", Large())
    assert Large.alive <= 1
    assert len(lines.of("sums")) == 3
    assert Large.alive == 0


def test_what_is_no_longer_followed_costs_nothing(silent: logging.Logger) -> None:
    """It is kept as long as somebody refers to it."""
    formatted: list[int] = []

    class Counted:
        def __str__(self) -> str:
            formatted.append(1)
            return "counted"

    lines = followed()
    silent.warning("%s", Counted())
    assert len(formatted) == 1
    del lines
    silent.warning("%s", Counted())
    assert len(formatted) == 1
