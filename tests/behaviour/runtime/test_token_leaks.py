"""Live tokens that are collected as garbage: discarded for their operator, and reported."""

import gc
import logging
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import feed, flow_of, ignore, run_flow, scheduled
from tests.kit.runtime.worker_group import WorkerGroup
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.tokens.token_ledger import Leak

WARNING = "worker 0: operator 'subject' dropped a live token for time {time} without discard(); it was discarded for it"


def leaks_of(build: Build, *epochs: list[int]) -> list[Leak]:
    """Run one worker to its end, which it reaches only if every token is gone, and return the leaks it found."""
    group = WorkerGroup(flow_of(build), workers=1)
    group.feed("numbers", *epochs)
    group.run()
    gc.collect()
    group.run()
    assert group.is_complete
    return group.cores[0].leaks


def test_a_forgotten_token_is_discarded_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    """The job ends all the same; the leak names operator and time, and a warning says what to do."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        kept.clear()
        kept.extend(lent.retain() for lent, _ in input)

    with caplog.at_level(logging.WARNING, logger="tidewheel.runtime"):
        assert leaks_of(scheduled(schedule), [], [1]) == [Leak("subject", 1)]
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert WARNING.format(time=1) in record.getMessage()


def test_the_time_of_a_leak_is_where_the_token_had_got_to() -> None:
    """A token that was taken forward before it was lost is counted off at that time."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            kept.append(lent.retain())
            kept[0].downgrade(6)
            kept.append(kept[0].delayed(9))
        if not input.frontier.less_equal(0):
            kept.clear()

    assert sorted(leaks_of(scheduled(schedule), [1]), key=lambda leak: leak.time) == [
        Leak("subject", 6),
        Leak("subject", 9),
    ]


def test_a_token_in_a_reference_cycle_is_found_by_the_collector() -> None:
    """It takes until the collector runs; then the worker hears of it though nothing else happens."""

    class Ring:
        def __init__(self, token: tw.TimestampToken) -> None:
            self.token = token
            self.ring = self

    rings: list[Ring] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        rings.extend(Ring(lent.retain()) for lent, _ in input)
        if not input.frontier.less_equal(0):
            rings.clear()

    assert leaks_of(scheduled(schedule), [1]) == [Leak("subject", 0)]


def test_keeping_the_first_of_several_tokens_is_no_leak(caplog: pytest.LogCaptureFixture) -> None:
    """The idiom of `dict.setdefault` retains a token for each message and drops all but the first at once."""

    def build(context: tw.OperatorContext) -> Schedule:
        held: dict[Any, tuple[tw.TimestampToken, list[int]]] = {}

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                held.setdefault(lent.time, (lent.retain(), []))[1].extend(batch)
            for time in [time for time in held if not input.frontier.less_equal(time)]:
                token, records = held.pop(time)
                with token:
                    output.send(token, sorted(records))

        return schedule

    group = WorkerGroup(flow_of(build), workers=1)
    with caplog.at_level(logging.WARNING, logger="tidewheel.runtime"):
        for number in (3, 1, 2):
            group.send("numbers", [number], 0)
        group.run()
        group.send("numbers", [0], 0)
        group.close("numbers")
        group.run()
    assert group.is_complete
    assert group.cores[0].leaks == []
    assert caplog.records == []
    assert group.captured("results") == [(0, [0, 1, 2, 3])]


def test_a_token_that_is_dropped_in_the_call_that_retained_it_was_never_kept() -> None:
    """Its count is taken back in the same batch, without a report."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            lent.retain()
            lent.delayed(4)

    assert leaks_of(scheduled(schedule), [1], [2]) == []


def test_an_initial_token_that_is_taken_and_dropped_is_a_leak() -> None:
    """Who takes it has to discard it."""

    def build(context: tw.OperatorContext) -> Schedule:
        context.token()
        return ignore

    assert leaks_of(build) == [Leak("subject", 0)]


def test_a_job_that_is_dropped_with_live_tokens_reports_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A job that was stopped early still holds tokens; that they go with it is nobody's fault."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        kept.extend(lent.retain() for lent, _ in input)

    kept: list[tw.TimestampToken] = []
    with caplog.at_level(logging.WARNING, logger="tidewheel.runtime.worker.worker_core"):
        with tw.run(flow_of(scheduled(schedule)), engine="local") as job:
            feed(job, [1])
            job.probe("done").wait_until(0)
            with pytest.raises(tw.JobError, match="nothing left to do"):
                job.probe("done").wait_until(1)
            job.stop()
        del job
        kept.clear()
        gc.collect()
    assert [record for record in caplog.records if "token" in record.getMessage()] == []


def test_a_worker_that_leaks_gives_the_right_results() -> None:
    """A lost token costs nothing but the warning."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            lost = [lent.retain()]
            lost.append(lost[0].clone())
            output.send(lost[0], batch)

    assert run_flow(flow_of(scheduled(schedule)), [1], [2]) == [(0, [1]), (1, [2])]


def test_a_token_made_to_send_with_is_no_leak() -> None:
    """`output.send(tokens.delayed(time), batch)`: the token is gone when the call ends, as good as never kept."""

    def build(context: tw.OperatorContext) -> Any:
        tokens = tw.TokenSet([context.token()])

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                output.send(tokens.delayed(lent.time), batch)
            tokens.downgrade(input.frontier)

        return schedule

    flow = tw.Dataflow("sending")
    flow.input("numbers").unary("sender", build).capture("results")
    with tw.run(flow, engine="local") as job:
        for epoch in range(3):
            job.input("numbers").send([epoch])
            job.input("numbers").advance_to(epoch + 1)
        job.input("numbers").close()
        job.wait()
        assert [(entry.time, entry.batch) for entry in job.captured("results")] == [(n, [n]) for n in range(3)]
        assert job.statistics().workers[0].leaks == 0
