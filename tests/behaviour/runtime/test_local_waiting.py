"""Waiting on the local engine: it runs the job, and where nothing is left to do the error says why."""

import logging
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import feed, flow_of, ignore, scheduled
from tests.kit.runtime.stuck_flows import hoarding
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.engines import job_block as job_module
from tidewheel.runtime.engines.job_block import warn_of_open_inputs
from tidewheel.runtime.explaining.explainer import Explainer
from tidewheel.runtime.messages.worker_report import WorkerReport
from tidewheel.runtime.worker.worker_core import WorkerCore

DEADLINE_S = 30.0


def named_flow() -> tw.Dataflow:
    flow = tw.Dataflow("named")
    flow.input("a").capture("b").probe("c").publish("local job/d")
    flow.input("e").capture("f").probe("g")
    return flow


def test_waiting_in_vain_behind_a_leak_says_so() -> None:
    """Inputs are open, but it is not them that hold the probe back: the error is what `explain` says."""
    kept: list[tw.TimestampToken] = []
    flow = tw.Dataflow("leaky")
    flow.input("numbers").unary(hoarding(kept), name="leaky").probe("done")
    with tw.run(flow, engine="local") as job:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(1)
        with pytest.raises(tw.JobError) as failed:
            job.probe("done").wait_until(1)
        job.stop()
    assert "operator 'leaky' holds 1 token for time 0 on worker 0" in str(failed.value)
    assert "advance or close" not in str(failed.value)
    kept.pop().discard()


def two_branches(kept: list[tw.TimestampToken]) -> tw.Dataflow:
    """Return a dataflow with a leak before one probe, and another that only waits for its own input."""
    flow = tw.Dataflow("branches")
    flow.input("left").unary(hoarding(kept), name="leaky").probe("leaked")
    flow.input("right").map(str).probe("behind")
    return flow


def test_the_error_is_about_the_probe_that_is_waited_for() -> None:
    """What holds another probe back, or which other inputs are open, is no advice for it; for the job's end it is."""
    kept: list[tw.TimestampToken] = []
    with tw.run(two_branches(kept), engine="local") as job:
        job.input("left").send([1])
        job.input("left").advance_to(2)
        with raises(tw.JobError):
            job.probe("behind").wait_until(1)
        with raises(tw.JobError) as failed:
            job.probe("leaked").wait_until(1)
        assert "right" not in str(failed.value)
        with raises(tw.JobError):
            job.wait()
        job.input("left").close()
        job.input("right").close()
        with raises(tw.JobError):
            job.wait()
        kept.pop().discard()
        job.wait()


def test_a_timeout_names_the_probe_that_is_waited_for() -> None:
    """It is the one to have explained."""
    with tw.run(two_branches([]), engine="local") as job:
        with raises(TimeoutError):
            job.probe("behind").wait_until(1, timeout_s=-1)
        with raises(TimeoutError):
            job.wait(timeout_s=-1)
        job.stop()


@pytest.mark.parametrize("for_a_probe", [True, False])
def test_saying_that_nothing_is_left_to_do_takes_one_look_at_the_workers(
    for_a_probe: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many probes there are: one report of each worker, and no explanation of probes that nobody waits for."""
    flow = tw.Dataflow("probes")
    stream = flow.input("numbers")
    for number in range(50):
        stream = stream.map(str).exchange(len).probe(f"probe {number}")
    reports: list[int] = []
    explained: list[str] = []
    report, explain = WorkerCore.report, Explainer.explain

    def counted_report(core: WorkerCore) -> WorkerReport:
        reports.append(core.worker)
        return report(core)

    def counted_explain(explainer: Explainer, name: str) -> tw.types.Explanation:
        explained.append(name)
        return explain(explainer, name)

    monkeypatch.setattr(WorkerCore, "report", counted_report)
    monkeypatch.setattr(Explainer, "explain", counted_explain)
    with tw.run(flow, workers=2, engine="local") as job:
        with raises(tw.JobError):
            job.probe("probe 30").wait_until(1) if for_a_probe else job.wait()
        assert reports == [0, 1]
        assert explained == ["probe 30"] * for_a_probe
        job.stop()


def test_waiting_with_an_open_input_is_an_error_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """It would be for ever: the error names the inputs that are open and where they are, and no warning repeats it."""
    with tw.run(named_flow(), engine="local") as job:
        job.input("a").advance_to(3)
        with (
            caplog.at_level(logging.WARNING, logger="tidewheel.runtime.engines.job_block"),
            raises(tw.JobError),
        ):
            job.wait()
        assert not caplog.records
        job.input("a").close()
        with raises(tw.JobError):
            job.wait()
        job.input("e").close()
        job.wait()


def test_a_failure_is_all_that_a_wait_says(caplog: pytest.LogCaptureFixture) -> None:
    """Whether the job has failed before, or fails in the wait: no word of open inputs, which no longer matter."""
    flow = tw.Dataflow("failing")
    flow.input("numbers").map(lambda number: 1 // number).capture("results")
    job = tw.run(flow, engine="local")
    job.input("numbers").send([0])
    for _ in range(2):
        with raises(tw.JobError):
            job.wait()
    job.stop()
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == ["ERROR"]


def test_a_wait_says_where_a_clone_is_that_the_program_has_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise the advice would be to close a handle that the program does not have."""
    flow = tw.Dataflow("waiting")
    flow.input("numbers").capture("results")
    with tw.run(flow, engine="local") as job:
        job.input("numbers").clone()
        job.input("numbers").close()
        warn_of_open_inputs(job)
        assert "close() 'numbers'; job.handles('numbers') has the clones, also if the program has not" in caplog.text
        for handle in job.handles("numbers"):
            handle.close()
        job.wait(DEADLINE_S)


def test_a_wait_that_goes_on_says_which_inputs_are_open(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where something else is still under way, the program would wait without a word."""
    monkeypatch.setattr(job_module, "_WARNS_AFTER_S", 0.05)

    def build(context: tw.OperatorContext) -> Any:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            context.expect_activation()

        return schedule

    flow = tw.Dataflow("waiting")
    flow.input("numbers").unary(build, name="wait").capture("results")
    with tw.run(flow, engine="local") as job:
        with pytest.raises(TimeoutError):
            job.wait(timeout_s=0.5)
        assert caplog.messages == [f"job {job.name!r} waits for its end, but inputs are open: close() 'numbers'"]
        job.stop()


def test_waiting_for_a_time_that_no_input_has_reached_is_an_error_at_once() -> None:
    """The job goes on when the inputs do."""
    with tw.run(flow_of(scheduled(ignore)), engine="local") as job:
        with raises(tw.JobError):
            job.probe("done").wait_until(2)
        job.input("numbers").advance_to(2)
        job.probe("done").wait_until(2)
        job.stop()


def test_a_job_that_cannot_end_says_who_holds_what() -> None:
    """A token that was never discarded and messages that were never taken are named with operator and time."""
    kept: list[tw.TimestampToken] = []

    def keep(input: tw.InputPort, output: tw.OutputPort) -> None:
        kept.extend(lent.retain() for lent, _ in input)

    flow = tw.Dataflow("test")
    numbers = flow.input("numbers")
    numbers.unary(scheduled(keep), name="keeper")
    numbers.unary(scheduled(lambda input, output: None), name="blind")
    with tw.run(flow, engine="local") as job:
        feed(job, [], [1])
        with raises(tw.JobError) as caught:
            job.wait()
        assert "output 0 of 'keeper' holds 1 token(s) for time 1" in str(caught.value)
        assert "1 message(s) at time 1 wait at input 0 of 'blind'" in str(caught.value)
        job.stop()


def test_a_job_that_does_not_end_in_time_is_left_as_it_is() -> None:
    """A timeout names what was waited for; the work goes on in the next call."""
    rounds: list[int] = []

    def build(context: tw.OperatorContext) -> Schedule:
        token = context.token()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            rounds.append(0)
            ignore(input, output)
            if len(rounds) < 1000:
                context.activate()
            elif token.is_live:
                token.discard()

        return schedule

    with tw.run(flow_of(build), engine="local") as job:
        feed(job)
        with raises(TimeoutError):
            job.wait(timeout_s=0)
        assert len(rounds) < 1000
        job.wait(timeout_s=DEADLINE_S)
        assert len(rounds) >= 1000


def test_waiting_twice_is_fine() -> None:
    """A job that has ended has ended."""
    with tw.run(flow_of(scheduled(ignore)), engine="local") as job:
        feed(job, [1])
        job.wait()
        job.wait(timeout_s=0)
        assert job.is_complete


def test_nothing_runs_between_calls() -> None:
    """The workers run while the driver waits, and only then."""
    calls: list[int] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        calls.append(0)
        ignore(input, output)

    with tw.run(flow_of(scheduled(schedule)), engine="local") as job:
        feed(job, [1])
        assert calls == []
        job.wait()
        assert len(calls) > 0
