"""Lines of the log: what a line of JSON has, and who writes lines when."""

import io
import json
import logging
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.host.log_lines import JsonLines, LogFormat, LogSettings, about, write_lines

NAME = "tidewheel-lines"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """Give a logger of its own, below one with a handler of the program; in the end it is as it was."""
    found = logging.getLogger(NAME)
    yield found
    found.handlers.clear()
    found.setLevel(logging.NOTSET)
    found.propagate = True


def line_of(message: object, *args: object, **fields: Any) -> dict[str, Any]:
    """Return what the line of a record says."""
    record = logging.LogRecord("mine", logging.WARNING, "file", 1, message, args, None)
    vars(record).update(fields)
    line = JsonLines().format(record)
    assert "\n" not in line
    decoded = json.loads(line)
    assert isinstance(decoded, dict)
    return decoded


def test_a_line_has_the_event_and_its_fields() -> None:
    """The event first, then whatever fields the record has; what logging notes beside them is left out."""
    line = line_of("%s is late", "sums", created=0.25, **about("sums-d24a72a9", worker=0), order=7, _ray=1)
    assert line == {
        "time": "1970-01-01T00:00:00.250000Z",
        "level": "WARNING",
        "logger": "mine",
        "message": "sums is late",
        "job": "sums-d24a72a9",
        "worker": 0,
        "order": 7,
    }


def test_a_field_does_not_hide_the_event() -> None:
    """A program may have a field of the same name."""
    assert line_of("careful", level="low", time=3)["level"] == "WARNING"


def test_a_traceback_is_in_the_line() -> None:
    """So that one event is one line."""
    with pytest.raises(ValueError, match="no number") as failed:
        int("no number")
    line = line_of("failed", exc_info=(ValueError, failed.value, failed.tb))
    assert line["error"].startswith("Traceback")
    assert line["error"].endswith("invalid literal for int() with base 10: 'no number'")


@law_settings(200)
@given(
    message=st.text(st.characters()),
    field=st.recursive(
        st.one_of(
            st.none(),
            st.integers(),
            st.floats(),
            st.text(st.characters()),
            st.binary(),
            st.builds(object),
            st.complex_numbers(),
        ),
        lambda inner: st.one_of(
            st.lists(inner), st.dictionaries(st.one_of(st.text(), st.tuples(st.integers())), inner)
        ),
        max_leaves=5,
    ),
)
def test_every_event_is_a_line(message: str, field: object) -> None:
    """Whatever a program says and adds, half a character of UTF-16 and keys that JSON lacks among it."""
    line = line_of("%s", message, of_the_program=field)
    assert line["message"] == message.encode(errors="backslashreplace").decode()
    assert "of_the_program" in line


def test_lines_of_json_are_written_once(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    """However many jobs ask for them; handlers above would show each event a second time."""
    stream = io.StringIO()
    for _ in range(3):
        write_lines("INFO", "json", NAME, stream, lambda: about("from here", worker=1))
    logger.info("one", extra=about("its own"))
    logger.debug("none")
    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert (line["message"], line["job"], line["worker"]) == ("one", "its own", 1)
    assert not caplog.messages


def test_text_leaves_logging_to_the_program(logger: logging.Logger) -> None:
    """A job that asks for nothing changes nothing."""
    write_lines("NOTSET", "text", NAME)
    assert (logger.handlers, logger.level, logger.propagate) == ([], logging.NOTSET, True)


def test_a_level_shows_lines_where_the_program_has_no_handler(logger: logging.Logger) -> None:
    """Otherwise the handlers of the program show them, and only the level is new."""
    write_lines("INFO", "text", NAME, io.StringIO())
    assert (logger.handlers, logger.level) == ([], logging.INFO), "pytest has a handler"
    logger.propagate = False
    stream = io.StringIO()
    write_lines("DEBUG", "text", NAME, stream)
    write_lines("DEBUG", "text", NAME, stream)
    logger.debug("careful")
    assert stream.getvalue() == f"DEBUG {NAME}: careful\n"


@contextmanager
def process() -> Iterator[io.StringIO]:
    """Yield the standard error of a process that has configured no logging; afterwards logging is as it was."""
    ours, written = logging.getLogger("tidewheel"), io.StringIO()
    level = ours.level
    with pytest.MonkeyPatch.context() as patch:
        for each in (logging.getLogger(), ours):
            patch.setattr(each, "handlers", [])
            patch.setattr(each, "propagate", each.propagate)
        patch.setattr(sys, "stderr", written)
        yield written
    ours.setLevel(level)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_process_hands_its_settings_to_those_that_it_starts(form: LogFormat) -> None:
    """The level and the form that the last job has asked for; these of an actor go to what the actor starts."""
    with process():
        assert LogSettings.here() == LogSettings(logging.WARNING, "text")
        write_lines("INFO", "json")
        write_lines("INFO", form)
        handed = LogSettings.here(job="sums-d24a72a9")
        assert handed == LogSettings(logging.INFO, form, {"job": "sums-d24a72a9"})
        logging.getLogger("tidewheel").handlers.clear()
        assert pickle.loads(pickle.dumps(handed)) == handed
        handed.use()
        assert LogSettings.here() == LogSettings(logging.INFO, form)


def test_an_actor_logs_as_it_is_told() -> None:
    """Each line has what the process is for, and what is known where it is written."""
    with process() as written:
        LogSettings(logging.INFO, "json", {"job": "sums-d24a72a9"}).use(lambda: {"topic": "ranks", "partition": 2})
        logging.getLogger("tidewheel.pubsub").info("it begins")
        logging.getLogger("tidewheel.pubsub").debug("it waits")
        logging.getLogger("another").warning("careful")
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line["message"] for line in lines] == ["it begins", "careful"]
    for line in lines:
        assert (line["job"], line["topic"], line["partition"]) == ("sums-d24a72a9", "ranks", 2)


def test_an_actor_shows_text_below_warning_too() -> None:
    """From WARNING on Python shows it by itself."""
    with process() as written:
        LogSettings(logging.WARNING, "text").use()
        assert not logging.getLogger().handlers
        LogSettings(logging.INFO, "text").use()
        logging.getLogger("tidewheel.pubsub").info("it begins")
    assert written.getvalue() == "INFO tidewheel.pubsub: it begins\n"
