"""`context.on_close`: the end of an operator, however the dataflow ends on a worker; and the wait for snapshots."""

import logging
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import DEADLINE_S, feed, flow_of, ignore
from tests.unit.runtime.worker.test_worker_loop import command, loop_of, running, watch_until
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.messages.feeder_status import Phase
from tidewheel.runtime.worker.operator_host import Saving

Ends = list[tuple[str, int]]


def closing(ends: Ends, name: str = "end", *, fails: str = "") -> Build:
    """Return an operator that notes the end of each worker, and may fail when it is built, scheduled or closed."""

    def build(context: tw.OperatorContext) -> Schedule:
        def end() -> None:
            ends.append((name, context.worker))
            if fails == "closed":
                raise OSError("disk full")

        context.on_close(end)
        if fails == "built":
            raise OSError("disk full")

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for _, _batch in input:
                if fails == "scheduled":
                    raise OSError("disk full")

        return schedule

    return build


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_that_is_left_has_ended(workers: int) -> None:
    """Not when it is complete, since that may be waited for twice, but when its block is left; and once."""
    ends: Ends = []
    with tw.run(flow_of(closing(ends)), workers=workers, engine="local") as job:
        feed(job, [1])
        job.wait(DEADLINE_S)
        job.wait(DEADLINE_S)
        assert ends == []
    job.stop()
    assert ends == [("end", worker) for worker in range(workers)]


def test_a_job_that_fails_has_ended() -> None:
    """On all its workers, before the error is raised."""
    ends: Ends = []
    flow = flow_of(closing(ends, fails="scheduled"))
    job = tw.run(flow, workers=2, engine="local")
    feed(job, [1])
    with raises(tw.JobError):
        job.wait(DEADLINE_S)
    assert sorted(ends) == [("end", 0), ("end", 1)]
    job.stop()
    assert len(ends) == 2


def test_what_cannot_be_built_ends_what_was() -> None:
    """Operators that were built before, on this worker and on others, and the one that failed, last come first."""
    ends: Ends = []

    def second(context: tw.OperatorContext) -> Schedule:
        return closing(ends, "second", fails="built" if context.worker == 1 else "")(context)

    flow = tw.Dataflow("test")
    flow.input("numbers").unary(closing(ends, "first"), name="first").unary(second, name="second")
    with raises(tw.JobError):
        tw.run(flow, workers=3, engine="local")
    assert ends == [("second", 1), ("first", 1), ("second", 0), ("first", 0)]


def test_what_fails_in_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It names the operator, and the others are ended all the same."""
    ends: Ends = []
    flow = tw.Dataflow("test")
    flow.input("numbers").unary(closing(ends, "first"), name="first").unary(
        closing(ends, "second", fails="closed"), name="second"
    )
    with (
        caplog.at_level(logging.ERROR, logger="tidewheel.runtime.worker.agenda"),
        tw.run(flow, engine="local") as job,
    ):
        feed(job, [1])
        job.wait(DEADLINE_S)
    assert ends == [("second", 0), ("first", 0)]
    assert "operator 'second' could not end in good order" in caplog.text
    assert "disk full" in caplog.text


def test_a_dataflow_that_is_dropped_has_ended() -> None:
    """The others of the job go on."""
    ends: Ends = []
    other = tw.Dataflow("other")
    other.input("numbers").unary(closing(ends, "other"), name="subject")
    with tw.run(flow_of(closing(ends, "first")), engine="local") as job:
        job.add(other)
        job.drop("other")
        assert ends == [("other", 0)]
        feed(job, [1])
        job.wait(DEADLINE_S)
    assert ends == [("other", 0), ("first", 0)]


def test_a_worker_on_a_thread_ends() -> None:
    """Whether it completes, is stopped, fails, or was never started."""
    ends: Ends = []

    def stops(flow: tw.Dataflow, *commands: Any) -> Ends:
        ends.clear()
        with running(flow) as loop:
            for number, arguments in enumerate(commands):
                command(loop, number, *arguments)
            if commands:
                watch_until(loop, lambda status: status.phase is not Phase.RUNNING)
        return ends.copy()

    assert stops(flow_of(closing(ends))) == [("end", 0)]
    assert stops(flow_of(closing(ends)), ["close"]) == [("end", 0)]
    assert stops(flow_of(closing(ends, fails="scheduled")), ["send", 0, [1]]) == [("end", 0)]
    ends.clear()
    loop = loop_of(flow_of(closing(ends)))
    assert loop.close(DEADLINE_S)
    assert loop.close(DEADLINE_S)
    assert ends == [("end", 0)]


def test_operators_need_not_ask() -> None:
    """One that has nothing to be done ends as before."""
    with tw.run(flow_of(lambda _: ignore), engine="local") as job:
        feed(job, [1])
        job.wait(DEADLINE_S)


def test_operators_wait_for_a_later_snapshot() -> None:
    """Those that wait are scheduled at each durable one; the shell takes one early for those whose input has ended."""
    saving, woken = Saving(3, are_taken=True), list[int]()
    assert (saving.number, saving.saved, saving.awaited()) == (3, 3, -1)
    saving.wait(7, 3, has_ended=False)
    saving.wait(8, 2, has_ended=True)
    saving.wait(9, -1, has_ended=True)
    assert (saving.awaited(), saving.awaited(has_ended=True)) == (3, 2)
    saving.hear(0, woken.append)
    assert (saving.saved, woken) == (3, [])
    saving.hear(4, woken.append)
    assert (saving.saved, woken) == (4, [7, 8])
    saving.wait(7, -1, has_ended=True)
    saving.wait(8, -1, has_ended=True)
    assert saving.awaited() == saving.awaited(has_ended=True) == -1
