"""When captures can be read: not before anything was waited for, and also after a job that was complete."""

from collections.abc import Callable

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import DEADLINE_S, feed, settle

ALL = [tw.types.Captured(0, [1]), tw.types.Captured(1, [2])]


def flow_of_numbers(name: str = "capturing") -> tw.Dataflow:
    flow = tw.Dataflow(name)
    flow.input("numbers").probe("kept").capture("numbers")
    return flow


def test_nothing_is_read_before_something_was_waited_for() -> None:
    """An empty result would look like that of a dataflow that has lost its records; the error says what to call."""
    with tw.run(flow_of_numbers(), engine="local") as job:
        feed(job, [1], [2])
        with pytest.raises(tw.JobError, match=r"capture 'numbers' may have nothing yet: call job\.wait\(\) first"):
            job.captured("numbers")
        job.wait(DEADLINE_S)
        assert job.captured("numbers") == ALL


@pytest.mark.parametrize(
    "wait",
    [
        lambda job: job.probe("kept").wait_until(1, DEADLINE_S),
        lambda job: job.probe("kept").frontier,
        settle,
    ],
    ids=["wait_until", "frontier", "run_round"],
)
def test_a_program_that_knows_how_far_the_job_has_come_reads_what_is_there(
    wait: Callable[[tw.types.Job], object],
) -> None:
    """Looking at a probe is enough, with open inputs as well."""
    with tw.run(flow_of_numbers(), engine="local") as job:
        feed(job, [1], [2], close=False)
        wait(job)
        assert job.captured("numbers") == ALL[: len(job.captured("numbers"))]
        job.stop()


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("reads", [True, False])
def test_captures_of_a_complete_job_stay_readable(waits: bool, reads: bool) -> None:
    """The end of the block does not take them away, nor does an exception or stop() after the end of all work."""
    with tw.run(flow_of_numbers(), engine="local") as job:
        feed(job, [1], [2])
        if waits or reads:
            job.wait(DEADLINE_S)
        if reads:
            assert job.captured("numbers") == ALL
        if waits:
            job.stop()
    assert job.captured("numbers") == ALL
    with pytest.raises(tw.JobError, match="has no capture 'letters'"):
        job.captured("letters")


def test_captures_of_a_dataflow_that_was_added_stay_readable() -> None:
    """Its job ends with the one to which it was added."""
    with tw.run(flow_of_numbers("first"), engine="local") as job:
        added = job.add(flow_of_numbers("second"))
        feed(job)
        feed(added, [1], [2])
    assert added.captured("numbers") == ALL
    assert job.captured("numbers") == []


def test_captures_of_a_job_that_was_cut_short_cannot_be_read() -> None:
    """They are not all that the dataflow makes of its input."""
    with tw.run(flow_of_numbers(), engine="local") as job:
        feed(job, [1], [2], close=False)
        job.probe("kept").wait_until(1, DEADLINE_S)
        job.stop()
    with pytest.raises(tw.JobError, match="was stopped"):
        job.captured("numbers")
