"""The end of a job's ``with`` block: what is under way is finished, and what is lost is told."""

import logging

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import feed, flow_of, scheduled
from tidewheel.runtime.engines import job_block

DEADLINE_S = 30.0


def flow_seen_by(seen: list[int]) -> tw.Dataflow:
    """Return a dataflow that keeps the numbers that are sent to it."""
    flow = tw.Dataflow("short")
    flow.input("numbers").inspect(seen.append)
    return flow


@pytest.mark.parametrize("ends", ["wait", "stop", "open", "closed"])
def test_a_block_without_open_inputs_finishes_the_work(ends: str, caplog: pytest.LogCaptureFixture) -> None:
    """Leaving the block with all inputs closed waits for the end; stop() and an open input end the job at once."""
    seen: list[int] = []
    with caplog.at_level(logging.WARNING, logger="tidewheel"), tw.run(flow_seen_by(seen), engine="local") as job:
        job.input("numbers").send([1])
        if ends != "open":
            job.input("numbers").close()
        if ends == "wait":
            job.wait(DEADLINE_S)
        if ends == "stop":
            job.stop()
    assert seen == ([1] if ends in {"wait", "closed"} else [])
    assert ("inputs are open. close() 'numbers'" in caplog.text) == (ends == "open")
    assert len(caplog.messages) == (ends == "open")


def test_an_exception_in_the_job_blocks_the_job_at_once() -> None:
    """Ctrl-C in the block does not wait for the work."""
    seen: list[int] = []

    def leave(job: tw.Job) -> None:
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
        with pytest.raises(tw.JobError, match="interrupted in the middle of a step"):
            job.captured("results")
        job.stop()


def test_the_work_of_an_added_dataflow_is_finished(caplog: pytest.LogCaptureFixture) -> None:
    """The end of the block waits for a dataflow that was added as well, though the first one has input to come."""
    seen: list[int] = []
    first, second = tw.Dataflow("first"), tw.Dataflow("second")
    first.input("numbers").capture("numbers")
    second.input("numbers").inspect(seen.append)
    with caplog.at_level(logging.WARNING, logger="tidewheel"), tw.run(first, engine="local") as job:
        added = job.add(second)
        added.input("numbers").send([1])
        added.input("numbers").close()
    assert seen == [1]
    assert "is cut short" not in caplog.text.replace(f"job {job.name!r} is cut short", "")


def test_a_job_that_does_not_end_is_cut_short_with_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait has a limit, and the warning says how long it was and what to do."""
    monkeypatch.setattr(job_block, "_FINISH_SOURCES_S", 0.1)
    flow = tw.Dataflow("endless")
    flow.source("ticks", tw.TickSource(0.01)).capture("ticks")
    with caplog.at_level(logging.WARNING, logger="tidewheel"), tw.run(flow, engine="local"):
        pass
    assert "its with block has ended, and the rest of its work is lost" in caplog.text
    assert "(waited 0.1 s for job 'endless-" in caplog.text


def test_a_forgotten_close_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A block that ends with an open input cuts the job short: the warning names the input and the call."""
    flow = tw.Dataflow("forgotten")
    flow.input("lines").capture("lines")
    with caplog.at_level(logging.WARNING, logger="tidewheel"), tw.run(flow, engine="local") as job:
        job.input("lines").send(["to be"])
    assert "inputs are open. close() 'lines' after the last batch" in caplog.text


def test_a_job_that_was_never_started_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """The warning names the call that is missing."""
    flow = tw.Dataflow("paused")
    flow.input("numbers").capture("numbers")
    with (
        caplog.at_level(logging.WARNING, logger="tidewheel"),
        tw.run(flow, engine="local", paused=True) as job,
    ):
        job.input("numbers").close()
    assert "has not been started: call start()" in caplog.text


def test_work_that_waits_for_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A job that cannot end, because an operator keeps its token, is cut short at once on the local engine."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            kept.append(lent.retain())

    with (
        caplog.at_level(logging.WARNING, logger="tidewheel"),
        tw.run(flow_of(scheduled(schedule)), engine="local") as job,
    ):
        job.input("numbers").send([1])
        job.input("numbers").close()
    assert "the local job has nothing left to do" in caplog.text


def test_an_error_during_the_wait_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    """An operator that fails while the end of the block waits fails the program."""
    flow = tw.Dataflow("fails")
    flow.input("numbers").map(lambda number: 1 / number)
    with pytest.raises(tw.JobError, match="division by zero"), tw.run(flow, engine="local") as job:
        feed(job, [0])
    assert "is cut short" not in caplog.text


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
