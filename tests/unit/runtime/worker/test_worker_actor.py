"""A label before each line of `LabelledOutput`, and a process that waits for the one before it."""

import io
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.runtime.snapshots.this_process import is_gone, process_of, this_process
from tidewheel.runtime.worker.worker_actor import LabelledOutput, WorkerActor


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


def test_a_process_waits_until_the_one_before_it_has_ended() -> None:
    """Ray calls an actor dead before its process has ended, which could go on to publish."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        before = process_of(child.pid)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(WorkerActor.process, None, before)  # type: ignore[arg-type]
            try:
                assert not is_gone(before)
                assert not waiting.done()
            finally:
                child.kill()
            assert waiting.result(30.0) == this_process()
        assert is_gone(before)


class _Loops(WorkerActor):
    """A worker that runs one dataflow, as far as requests for telemetry are concerned."""

    def __init__(self) -> None:
        self._loops = {"job": None}  # type: ignore[dict-item]
        self._wanted: set[str] = set()
        self._is_wanted = threading.Event()


def test_the_call_that_watches_a_worker_returns_when_telemetry_is_wanted() -> None:
    """At once, with the job, and only once; the call that only looks whether the worker lives takes nothing away."""
    actor = _Loops()
    assert actor.live(0.01) == ()
    assert not actor.want_telemetry("another")
    with ThreadPoolExecutor() as pool:
        watching = pool.submit(actor.live, 30.0)
        assert actor.live(0.0) == ()
        assert actor.want_telemetry("job")
        assert watching.result(10) == ("job",)
    assert actor.live(0.01) == ()
