"""Tests of tokens that operators keep while a job runs without a pause."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import flow_of
from tests.kit.runtime.stuck_flows import deploy
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.explaining.explainer import Explainer
from tidewheel.runtime.explaining.job_view import JobView
from tidewheel.runtime.telemetry.held_tokens import HeldTokens
from tidewheel.runtime.telemetry.kept_tokens import KeptTokens

KEPT_AT = 3
Kept: TypeAlias = list[tw.TimestampToken]
Then: TypeAlias = Callable[[tw.OperatorContext, tw.InputPort, Kept], None]


def nothing(context: tw.OperatorContext, input: tw.InputPort, kept: Kept) -> None:
    """Keep the token."""


def operator(kept: Kept, then: Then = nothing) -> Build:
    """Return an operator that keeps a token of one time, and does something in each call."""

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                if lent.time == KEPT_AT and not kept:
                    kept.append(lent.retain())
                output.send(lent, batch)
            then(context, input, kept)

        return schedule

    return build


@contextmanager
def fed(build: Build, rounds: int = 2) -> Iterator[Callable[[], str]]:
    """Run a job that is never at rest; what is yielded sends an epoch, and returns the advice about the operator."""
    tokens, kept = HeldTokens(), KeptTokens()
    with deploy(flow_of(build, "keep"), 2) as job:
        epochs = iter(range(1, 1000))

        def look() -> str:
            _send(job, next(epochs), rounds)
            view = JobView(job.plan, job._compiled, job._reports())
            tokens.look(view.tokens, view.awaited, 0.0)
            view.kept = kept.look(view, tokens.oldest())
            holders = Explainer(view, job._feed).explain("done").holders
            return "; ".join(
                holder.advice for holder in holders if holder.operator == "keep" and holder.time == KEPT_AT
            )

        for _ in range(KEPT_AT):
            _send(job, next(epochs), rounds)
        yield look
        job.stop()


def _send(job: LocalJob, epoch: int, rounds: int) -> None:
    """Send an epoch, and stop in the middle of it."""
    job.input("numbers").send([epoch, epoch + 1])
    job.input("numbers").advance_to(epoch)
    for _ in range(rounds):
        job.run_round()


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_token_that_a_running_operator_keeps_has_leaked(rounds: int) -> None:
    """The second look says so, and it stays so, whatever is on its way to the operator."""
    kept: Kept = []
    with fed(operator(kept), rounds) as look:
        advices = [look() for _ in range(8)]
        leaked = [advice.startswith("probably the token leaked") for advice in advices]
        assert leaked[3:] == [True] * 5, advices
        kept.pop().discard()
        assert look() == ""


def test_an_operator_that_asks_to_run_is_not_accused() -> None:
    """It may be at work for the token; so may one that waits for a thread."""
    asking: list[Then] = [
        lambda context, input, kept: context.activate(),
        lambda context, input, kept: context.expect_activation(),
    ]
    for then in asking:
        kept: Kept = []
        with fed(operator(kept, then)) as look:
            assert not any("leaked" in look() for _ in range(8))
            kept.pop().discard()


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_token_that_ends_as_soon_as_it_can_is_not_accused(rounds: int) -> None:
    """News that its inputs have passed its time may be on the way, or may be what the next call is for."""
    kept: Kept = []

    def end(context: tw.OperatorContext, input: tw.InputPort, kept: Kept) -> None:
        if kept and not input.frontier.less_equal(KEPT_AT):
            kept.pop().discard()

    with fed(operator(kept, end), rounds) as look:
        assert not any("leaked" in look() for _ in range(8))
        assert not kept
