"""A label before each line of `LabelledOutput`, and nothing else."""

import io
import logging

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.runtime.worker.labelled_output import LabelledOutput


def test_lines_are_labelled_and_the_rest_passes() -> None:
    """However the lines are written: in parts, several at once, or without an end."""
    label = ""
    stream = io.StringIO()
    output = LabelledOutput(stream, lambda: label)
    print("before", file=output)
    label = "[map] "
    print("one", 2, file=output)
    output.write("three\nfour\n")
    output.write("fi")
    output.write("ve\n\n")
    output.write("")
    label = ""
    print("after", file=output)
    assert stream.getvalue() == "before\n[map] one 2\n[map] three\n[map] four\n[map] five\n[map] \nafter\n"


@law_settings(100)
@given(parts=st.lists(st.text(st.sampled_from("ab\n"), max_size=5)))
def test_only_labels_are_added(parts: list[str]) -> None:
    """Before each line that has anything in it, its end at least."""
    stream = io.StringIO()
    output = LabelledOutput(stream, lambda: "> ")
    assert [output.write(part) for part in parts] == list(map(len, parts))
    assert stream.getvalue() == "".join(f"> {line}" for line in "".join(parts).splitlines(keepends=True))


def test_logging_goes_through() -> None:
    """A handler of the standard library takes it for a stream."""
    stream = io.StringIO()
    handler = logging.StreamHandler(LabelledOutput(stream, lambda: "[map] "))
    handler.emit(logging.makeLogRecord({"msg": "careful"}))
    assert stream.getvalue() == "[map] careful\n"
    assert handler.stream.writable()
    assert not handler.stream.isatty()
