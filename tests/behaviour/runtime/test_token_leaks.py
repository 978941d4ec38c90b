"""Live tokens that operators drop: a leak fails the job, or is only logged; what has lost nothing is no leak."""

import gc
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import (
    DEADLINE_S,
    captured,
    fail_flow,
    fail_operator,
    feed,
    flow_of,
    ignore,
    run_operator,
    scheduled,
    settle,
)
from tests.kit.runtime.worker_group import WorkerGroup
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.tokens.token_ledger import Leak

SAID = (
    "operator 'subject' lost a token for time {time} on worker 0: it dropped the token without discard(), such as by "
    "overwriting it. Records that it kept for that time may never be sent. Keep a token for each time, and use "
    "'with token:' or discard() once all is sent"
)


def leaks_of(build: Build, *epochs: list[int]) -> list[Leak]:
    """Run one worker, which only logs leaks, to its end, and return them; it ends only if every token is gone."""
    group = WorkerGroup(flow_of(build), workers=1, on_leak="warn")
    group.feed("numbers", *epochs)
    group.run()
    gc.collect()
    group.run()
    assert group.is_complete
    return group.cores[0].leaks


def forgetting() -> Build:
    """Return an operator that keeps one token, receives one message a call, and has overwritten the token by then."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            kept[:] = [lent.retain()]
            break
        if kept and not input.frontier.less_equal(1):
            kept.pop().discard()

    return scheduled(schedule)


def test_a_leak_fails_the_job() -> None:
    """The error has operator, worker and time, and says what to do, also for those who only want a warning."""
    error = fail_flow(flow_of(forgetting()), [1], [2])
    assert str(error) == SAID.format(time=0) + ". RuntimeConfig(on_leak='warn') only logs this"
    assert (error.operator, error.worker, error.time) == ("subject", 0, 0)


def test_an_epoch_that_is_lost_within_one_call_fails_the_job() -> None:
    """Two times come in one call: the token of the first is overwritten, and nobody can send at that time any more."""

    def build(context: tw.OperatorContext) -> Schedule:
        held: dict[str, Any] = {}

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                held["last"] = (lent.retain(), batch)
            if held and not input.frontier.less_equal(held["last"][0].time):
                token, batch = held.pop("last")
                with token:
                    output.send(token, batch)

        return schedule

    assert str(fail_flow(flow_of(build), [1], [2])).startswith(SAID.format(time=0))


@pytest.mark.parametrize("first", ["header", ""])
def test_sending_with_a_retained_token_does_not_excuse_its_loss(first: str) -> None:
    """What an operator has sent in the beginning says nothing of what was to come."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        token: tw.TimestampToken
        for lent, _ in input:
            token = lent.retain()
            output.send(token, [first] if first else [])

    assert str(fail_operator(schedule, [1], [2])).startswith(SAID.format(time=0))


def test_an_entry_that_is_overwritten_for_the_same_time_is_a_leak() -> None:
    """Its token was the only one for the time when it was made, and what was kept beside it is gone."""
    held: dict[Any, Any] = {}

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            held[lent.time] = (lent.retain(), batch)
        for time in [time for time in held if not input.frontier.less_equal(time)]:
            token, batch = held.pop(time)
            with token:
                output.send(token, batch)

    group = WorkerGroup(flow_of(scheduled(schedule)), workers=1)
    group.send("numbers", [1], 0)
    group.send("numbers", [2], 0)
    with raises(tw.JobError):
        group.run()


def test_a_warning_is_there_for_those_who_want_it(caplog: pytest.LogCaptureFixture) -> None:
    """The job ends all the same, and statistics count the leaks."""
    config = tw.RuntimeConfig(on_leak="warn")
    with tw.run(flow_of(forgetting()), engine="local", config=config) as job:
        feed(job, [1], [2])
        with caplog.at_level(logging.WARNING, logger="tidewheel.runtime"):
            job.wait(DEADLINE_S)
        assert job.statistics().workers[0].leaks == 1
    assert caplog.messages == [SAID.format(time=0)]


def test_all_leaks_are_counted_and_the_last_ones_kept() -> None:
    """A job that only warns may leak for months."""

    def leak(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            lent.retain()

    group = WorkerGroup(flow_of(scheduled(leak)), workers=1, on_leak="warn")
    group.feed("numbers", *([number] for number in range(130)))
    group.run()
    gc.collect()
    group.run()
    report = group.cores[0].report()
    assert (report.statistics.leaks, report.leaked) == (130, {"subject": 130})
    assert [leak.time for leak in group.cores[0].leaks] == list(range(30, 130))


def test_the_environment_chooses_what_a_leak_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for every setting; what is no choice is refused."""
    monkeypatch.setenv("TIDEWHEEL_ON_LEAK", "warn")
    assert tw.RuntimeConfig().on_leak == "warn"
    monkeypatch.setenv("TIDEWHEEL_ON_LEAK", "ignore")
    with raises(tw.errors.ConfigError):
        tw.RuntimeConfig()


def test_what_an_operator_raises_goes_before_what_it_drops_thereby() -> None:
    """An exception drops the tokens of the frames that it leaves; the error is the user's own."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            token = lent.retain()
            raise ValueError(f"no good: {batch} at {token.time}")

    assert "failed on worker 0 at time 0: ValueError: no good: [1] at 0" in str(fail_operator(schedule, [1], [2]))


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


def test_the_only_token_for_a_time_that_is_dropped_in_the_call_that_made_it_is_a_leak() -> None:
    """Retained or delayed: nothing was sent with it, and nobody else can."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            lent.retain()
            lent.delayed(4)

    assert leaks_of(scheduled(schedule), [1], [2]) == [Leak("subject", time) for time in (0, 4, 1, 4)]


@pytest.mark.parametrize(
    ("place", "leaks"), [(lambda lent: lent.time, [Leak("subject", 0)]), (lambda lent: (lent.time, lent.key), [])]
)
def test_each_substream_needs_a_token_of_its_own(place: Callable[[tw.types.LentToken], Any], leaks: list[Leak]) -> None:
    """Another substream's token for the time does not hold this one open, so its end would come too early."""
    held: dict[Any, tw.TimestampToken] = {}

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            held.setdefault(place(lent), lent.retain())

    flow = tw.Dataflow("test")
    divided = flow.input("numbers").substreams("parity", key=lambda n: n % 2)
    divided.unary(scheduled(schedule), name="subject").capture("results")
    group = WorkerGroup(flow, workers=1, on_leak="warn")
    for batch in ([0, 1], [2, 4]):
        group.send("numbers", batch, 0)
    group.run()
    assert group.cores[0].leaks[:1] == leaks
    for token in held.values():
        token.discard()


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
            with raises(tw.JobError):
                job.probe("done").wait_until(1)
            job.stop()
        del job
        kept.clear()
        gc.collect()
    assert [record for record in caplog.records if "token" in record.getMessage()] == []


def test_a_worker_that_is_to_warn_gives_the_right_results() -> None:
    """A lost token costs nothing but the warning where all was sent before."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            lost = [lent.retain()]
            lost.append(lost[0].clone())
            output.send(lost[0], batch)

    config = tw.RuntimeConfig(on_leak="warn")
    with tw.run(flow_of(scheduled(schedule)), engine="local", config=config) as job:
        feed(job, [1], [2])
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, [1]), (1, [2])]


def test_a_token_that_a_message_delays_to_send_with_is_no_leak() -> None:
    """`output.send(lent.delayed(time), batch)`: the token has done what it was made for when the call ends."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            output.send(lent.delayed(lent.time + 1), batch)

    assert run_operator(schedule, [1], [2]) == [(1, [1]), (2, [2])]


def test_a_token_that_a_set_delays_to_send_with_is_no_leak() -> None:
    """`output.send(tokens.delayed(time), batch)`: the same, and the set keeps its own."""

    def build(context: tw.OperatorContext) -> Any:
        tokens = tw.TokenSet([context.token()])

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                output.send(tokens.delayed(lent.time), batch)
            tokens.downgrade(input.frontier)

        return schedule

    flow = tw.Dataflow("sending")
    flow.input("numbers").unary(build, name="sender").capture("results")
    with tw.run(flow, engine="local") as job:
        for epoch in range(3):
            job.input("numbers").send([epoch])
            job.input("numbers").advance_to(epoch + 1)
        job.input("numbers").close()
        job.wait()
        assert [(entry.time, entry.batch) for entry in job.captured("results")] == [(n, [n]) for n in range(3)]
        assert job.statistics().workers[0].leaks == 0


def test_tokens_that_an_operator_drops_at_the_end_of_its_job_are_no_leak(caplog: pytest.LogCaptureFixture) -> None:
    """A job that is stopped, or fails, takes its tokens along, as where tasks that hold them are cancelled."""

    def build(context: tw.OperatorContext) -> Schedule:
        kept: list[tw.TimestampToken] = []
        context.on_close(kept.clear)

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                kept.append(lent.retain())
                if batch == [2]:
                    raise ValueError("a bad record")

        return schedule

    with caplog.at_level(logging.WARNING, logger="tidewheel.runtime"):
        with tw.run(flow_of(build), engine="local") as job:
            job.input("numbers").send([1])
            settle(job)
            job.stop()
        failed = fail_flow(flow_of(build), [1], [2])
        assert "ValueError: a bad record" in str(failed)
    assert not [text for text in caplog.messages if "lost a token" in text]


LEFT_BEHIND = """
import tidewheel as tw

kept = []

def build(context):
    def schedule(input, output):
        kept.extend(lent.retain() for lent, _ in input)
    return schedule

flow = tw.Dataflow("left")
flow.input("numbers").unary(build, name="keep").probe("done")
job = tw.run(flow, engine="local")
job.input("numbers").send([1])
assert job.probe("done").wait_until(0) is None and len(kept) == 0
try:
    job.probe("done").wait_until(1)
except tw.JobError as error:
    assert "has nothing left to do" in str(error) and len(kept) == 1
"""


def test_tokens_that_are_collected_when_the_interpreter_exits_are_no_leak() -> None:
    """A program that ends without stopping its job is told so, and nothing about its tokens."""
    ended = subprocess.run(
        [sys.executable, "-c", LEFT_BEHIND], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "")
    [said] = ended.stderr.splitlines()
    assert said.startswith("job 'left-")
    assert "token" not in said
