"""The end of a job's ``with`` block: all work is finished, or an error says what is missing."""

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import feed, flow_of, scheduled
from tests.waiting import eventually
from tidewheel.runtime.engines import job_block
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.engines.shown_progress import ShownProgress

DEADLINE_S = 30.0


def flow_seen_by(seen: list[int]) -> tw.Dataflow:
    """Return a dataflow that keeps the numbers that are sent to it."""
    flow = tw.Dataflow("short")
    flow.input("numbers").inspect(seen.append)
    return flow


@pytest.mark.parametrize("ends", ["wait", "stop", "closed"])
def test_a_block_without_open_inputs_finishes_the_work(ends: str, caplog: pytest.LogCaptureFixture) -> None:
    """Leaving the block with all inputs closed waits for the end; stop() ends the job at once, whatever is open."""
    seen: list[int] = []
    with caplog.at_level(logging.WARNING, logger="tidewheel"), tw.run(flow_seen_by(seen), engine="local") as job:
        job.input("numbers").send([1])
        if ends == "stop":
            job.stop()
        else:
            job.input("numbers").close()
        if ends == "wait":
            job.wait(DEADLINE_S)
    assert seen == ([] if ends == "stop" else [1])
    assert not caplog.messages


def test_the_end_of_the_block_waits_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait of a block without open inputs has no limit, and shows progress as `Job.wait` does."""
    waited: list[float | None] = []
    shown: list[bool | None] = []
    wait, show = LocalJob._wait_for, ShownProgress.shown

    def note(job: LocalJob, condition: Callable[[], bool], what: str, timeout_s: float | None, *rest: Any) -> None:
        waited.append(timeout_s)
        wait(job, condition, what, timeout_s, *rest)

    def note_shown(progress: ShownProgress, wanted: bool | None) -> AbstractContextManager[None]:
        shown.append(wanted)
        return show(progress, wanted)

    monkeypatch.setattr(LocalJob, "_wait_for", note)
    monkeypatch.setattr(ShownProgress, "shown", note_shown)
    seen: list[int] = []
    with tw.run(flow_seen_by(seen), engine="local") as job:
        feed(job, [1])
    assert (seen, waited, shown) == ([1], [None], [None])


def test_an_exception_in_the_job_blocks_the_job_at_once() -> None:
    """Ctrl-C in the block does not wait for the work."""
    seen: list[int] = []

    def leave(job: tw.types.Job) -> None:
        feed(job, [1])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), tw.run(flow_seen_by(seen), engine="local") as job:
        leave(job)
    assert seen == []


def test_the_end_of_the_block_does_not_raise_an_interrupt_again() -> None:
    """Ctrl-C in the midst of an operator: the program that catches it goes on, as it does after one between steps."""

    def interrupt(number: int) -> int:
        raise KeyboardInterrupt

    flow = tw.Dataflow("interrupted")
    flow.input("numbers").map(interrupt).capture("results")
    with tw.run(flow, engine="local") as job:
        feed(job, [1])
        with pytest.raises(KeyboardInterrupt):
            job.wait()
        with raises(tw.JobError):
            job.captured("results")
        job.stop()


def test_the_work_of_an_added_dataflow_is_finished() -> None:
    """The end of the block waits for a dataflow that was added as well; one that was stopped is not waited for."""
    seen: list[int] = []
    first, second, third = tw.Dataflow("first"), tw.Dataflow("second"), tw.Dataflow("third")
    first.input("numbers").capture("numbers")
    second.input("numbers").inspect(seen.append)
    third.input("numbers").capture("numbers")
    with tw.run(first, engine="local") as job:
        added, stopped = job.add(second), job.add(third)
        feed(job)
        feed(added, [1])
        stopped.stop()
    assert seen == [1]


def test_an_open_input_of_an_added_dataflow_is_told() -> None:
    """It keeps the whole block from being complete."""
    first, second = tw.Dataflow("first"), tw.Dataflow("second")
    first.input("numbers").capture("numbers")
    second.input("words").capture("words")

    def leave() -> None:
        with tw.run(first, engine="local") as job:
            job.add(second)
            feed(job)

    with raises(tw.JobError):
        leave()


def test_a_source_without_end_is_an_open_input() -> None:
    """A block that ends with one raises, unless the program has called stop()."""
    flow = tw.Dataflow("endless")
    flow.source("ticks", tw.TickSource(0.01)).capture("ticks")
    with raises(tw.JobError):  # noqa: SIM117
        with tw.run(flow, engine="local"):
            pass
    with tw.run(flow, engine="local") as job:
        job.stop()


def test_a_source_of_the_users_own_says_that_it_has_no_end() -> None:
    """Its attribute ``endless`` is what the library's own sources have; one without it is waited for."""

    class Two(tw.Source[int]):
        def __init__(self, *, endless: bool) -> None:
            self.endless = endless

        def partitions(self) -> list[int]:
            return [0]

        def open(self, partition: object, position: int | None) -> Iterator[tuple[list[int], int]]:
            for number in range(position or 0, 2):
                yield [number + 1], number + 1

    flow = tw.Dataflow("own")
    seen: list[int] = []
    flow.source("two", Two(endless=False)).inspect(seen.append)
    with tw.run(flow, engine="local"):
        pass
    assert seen == [1, 2]
    endless = tw.Dataflow("own")
    endless.source("two", Two(endless=True)).capture("numbers")
    with raises(tw.JobError), tw.run(endless, engine="local"):
        pass


def test_a_long_wait_for_a_source_is_told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that may have no end is named after a while, so that a program does not hang without a word."""
    monkeypatch.setattr(job_block, "_BLOCK_WARNS_AFTER_S", 0.0)
    clicks: tw.QueueSource[int] = tw.QueueSource()
    flow = tw.Dataflow("waits")
    flow.source("clicks", clicks).capture("clicks")

    def close() -> None:
        assert eventually(lambda: "source 'clicks'" in caplog.text)
        clicks.close()

    closing = threading.Thread(target=close)
    with caplog.at_level(logging.WARNING, logger="tidewheel"), tw.run(flow, engine="local"):
        closing.start()
    closing.join()
    assert "If source 'clicks' will not end, call job.stop() in the block" in caplog.text


def test_a_forgotten_close_is_told() -> None:
    """A block that ends with open inputs raises at once: the error names the inputs and the calls."""
    flow = tw.Dataflow("forgotten")
    flow.input("lines").concat(flow.input("more")).concat(flow.input("closed")).capture("lines")
    job = tw.run(flow, engine="local")

    def leave() -> None:
        with job:
            job.input("lines").send(["to be"])
            job.input("closed").close()

    with pytest.raises(tw.JobError) as raised:
        leave()
    said = str(raised.value)
    assert said.startswith(f"job {job.name!r} cannot complete, and its with block has ended")
    assert "inputs are open: inputs 'lines', 'more'. close() each after its last batch." in said
    assert "call job.stop()" in said
    assert repr(job).startswith(f"<LocalJob {job.name!r}: stopped")


def test_a_job_that_was_never_started_is_not_waited_for() -> None:
    """The error names the call that is missing."""
    flow = tw.Dataflow("paused")
    flow.input("numbers").capture("numbers")
    with (
        raises(tw.JobError),
        tw.run(flow, engine="local", paused=True) as job,
    ):
        job.input("numbers").close()


def test_work_that_waits_for_nothing_is_told() -> None:
    """A job that cannot end, because an operator keeps its token, fails the block at once on the local engine."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            kept.append(lent.retain())

    with (
        raises(tw.JobError),
        tw.run(flow_of(scheduled(schedule)), engine="local") as job,
    ):
        feed(job, [1])


def test_an_error_during_the_wait_is_raised() -> None:
    """An operator that fails while the end of the block waits fails the program."""
    flow = tw.Dataflow("fails")
    flow.input("numbers").map(lambda number: 1 / number)
    with raises(tw.JobError), tw.run(flow, engine="local") as job:
        feed(job, [0])


def test_the_log_tells_the_life_of_a_job(caplog: pytest.LogCaptureFixture) -> None:
    """INFO has a line for the start, for how far the probes have come, and for the end."""
    flow = tw.Dataflow("told")
    flow.input("numbers").probe("done")
    with caplog.at_level(logging.INFO, logger="tidewheel"), tw.run(flow, engine="local", workers=2) as job:
        job.input("numbers").send([1, 2])
        job.input("numbers").advance_to(1)
        job.probe("done").wait_until(1, DEADLINE_S)
        job.input("numbers").close()
    lines = [line.replace(job.name, "told") for line in caplog.messages]
    assert lines[0] == "job 'told' is deployed: 2 worker(s) in this process"
    assert any(line.startswith("job 'told': probe 'done' at ") for line in lines[1:-1])
    assert lines[-1] == "job 'told' is complete; this process sent it 2 record(s)"


def test_a_job_shows_its_state() -> None:
    """The representation says what the job does, how far its probes have come, and what is open."""
    flow = tw.Dataflow("shown")
    flow.input("numbers").probe("done")
    with tw.run(flow, engine="local", paused=True) as job:
        assert repr(job) == f"<LocalJob {job.name!r}: paused; probe 'done' at 0; open inputs: 'numbers' at time 0>"
        job.start()
        job.input("numbers").advance_to(3)
        job.probe("done").wait_until(3, DEADLINE_S)
        assert repr(job) == f"<LocalJob {job.name!r}: running; probe 'done' at 3; open inputs: 'numbers' at time 3>"
        job.input("numbers").close()
    assert repr(job) == f"<LocalJob {job.name!r}: complete; probe 'done' at its end; all inputs are closed>"


WITHOUT_A_BLOCK = """
import tidewheel as tw

flow = tw.Dataflow("forgotten")
flow.input("numbers").capture("out")
job = tw.run(flow, engine="local")
job.input("numbers").send([1])
job.input("numbers").close()
"""


@pytest.mark.parametrize("end", ["", "job.wait()", "job.stop()"])
def test_a_program_that_forgets_to_wait_is_told_what_is_lost(end: str) -> None:
    """Without a block too; one that has waited, or has stopped the job, is told nothing."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_BLOCK + end], capture_output=True, text=True, check=True, timeout=DEADLINE_S
    )
    said = "the rest of its work is lost. Call job.wait() to wait for the job"
    assert (said in ran.stderr) == (not end), ran.stderr
