"""Operators of any number of ports, added by `Dataflow.operator`."""

from typing import Any

from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import LISTS, Case, bags, cases, expected, operator_settings, send
from tidewheel.progress import ROOT
from tidewheel.runtime.description.plan import Schedule


def build_parity(context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends even numbers on its first output and odd ones on its second."""

    def schedule(input: tw.InputPort, even: tw.OutputPort, odd: tw.OutputPort) -> None:
        for token, batch in input:
            even.send(token, [number for number in batch if number % 2 == 0])
            odd.send(token, [number for number in batch if number % 2])

    return schedule


@operator_settings()
@given(cases(LISTS))
def test_a_lent_token_sends_on_every_output(case: Case) -> None:
    """An operator of two outputs may send on both with what one message lends; each output has its own records."""
    flow = tw.Dataflow("test")
    even, odd = flow.operator([flow.input("numbers")], 2, build_parity, notify=False, name="parity")
    even.capture("even")
    odd.capture("odd")
    with tw.run(flow, workers=case.workers, engine="local") as job:
        send(job, "numbers", case.feed)
        job.wait()
        found = bags(job.captured("even")), bags(job.captured("odd"))
    assert found == tuple(
        expected(case.feed, lambda numbers, rest=rest: [n for n in numbers if n % 2 == rest])  # type: ignore[misc]
        for rest in (0, 1)
    )


def test_a_pair_without_summary_holds_nothing_back() -> None:
    """An output that an input cannot reach completes times though that input is still open."""
    flow = tw.Dataflow("test")
    summaries = {(0, 0): tw.progress.PathSummary.identity(ROOT), (1, 1): tw.progress.PathSummary.identity(ROOT)}
    data, answers = flow.operator(
        [flow.input("data"), flow.input("asked")], 2, lambda _: lambda *ports: None, summaries, name="two"
    )
    data.probe("data")
    answers.probe("answers")
    with tw.run(flow, engine="local") as job:
        job.input("data").advance_to(7)
        job.probe("data").wait_until(7)
        assert set(job.probe("data").frontier) == {7}
        assert set(job.probe("answers").frontier) == {0}
        job.stop()


def test_a_summary_that_advances_is_the_time_of_what_comes_out() -> None:
    """A message at time t lends tokens for t and the summary; the frontier behind is ahead by as much."""
    times: list[tuple[Any, Any]] = []

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for token, batch in input:
                with token.retain() as retained:
                    times.append((token.time, retained.time))
                    output.send(token, batch)
                    output.send(retained, batch)

        return schedule

    flow = tw.Dataflow("test")
    later = {(0, 0): tw.progress.PathSummary.advance(ROOT, 10)}
    (delayed,) = flow.operator([flow.input("numbers")], 1, build, later, name="delay")
    delayed.probe("after").capture("results")
    with tw.run(flow, engine="local") as job:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(2)
        job.probe("after").wait_until(12)
        assert set(job.probe("after").frontier) == {12}
        assert [(result.time, result.batch) for result in job.captured("results")] == [(10, [1]), (10, [1])]
        job.stop()
    assert times == [(0, 10)]


def test_an_operator_without_inputs_is_a_source() -> None:
    """It starts with a token at the minimum time on each output, and works as long as it asks to be scheduled."""

    def build(context: tw.OperatorContext) -> Schedule:
        token = context.token()

        def schedule(output: tw.OutputPort) -> None:
            if not token.is_live:
                return
            output.send(token, [(context.worker, token.time)])
            if token.time == 2:
                token.discard()
            else:
                token.downgrade(token.time + 1)
                context.activate()

        return schedule

    flow = tw.Dataflow("test")
    (made,) = flow.operator([], 1, build, name="counter")
    made.capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait()
        found = sorted((result.time, result.batch[0]) for result in job.captured("results"))
    assert found == [(time, (worker, time)) for time in range(3) for worker in range(2)]
