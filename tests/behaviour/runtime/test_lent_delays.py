"""`LentToken.delayed(time, output)` at operators of several outputs, whose summaries advance times or let none pass."""

from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import DEADLINE_S, settle
from tests.kit.runtime.stuck_flows import deploy, every_spread
from tidewheel.progress import PathSummary, SpreadName
from tidewheel.runtime.description.plan import Schedule

NAMES = ("same", "later", "never")


def fan(handle: Callable[..., None]) -> tw.Dataflow:
    """Return a dataflow of one operator: what comes goes out unchanged, two epochs later, and not at all."""

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, *outputs: tw.OutputPort) -> None:
            for lent, batch in input:
                handle(lent, batch, *outputs)

        return schedule

    flow = tw.Dataflow("fan")
    numbers = flow.input("numbers")
    summaries = {(0, 0): PathSummary.identity(numbers.nesting), (0, 1): PathSummary.advance(numbers.nesting, 2)}
    for name, stream in zip(NAMES, flow.operator([numbers], 3, build, summaries=summaries, name="fan"), strict=True):
        stream.probe(name).capture(name)
    return flow


def frontiers(job: tw.types.Job) -> list[list[Any]]:
    return [list(job.probe(name).frontier) for name in NAMES]


@every_spread
@pytest.mark.parametrize("workers", [1, 2])
def test_each_output_has_its_own_least_time(workers: int, progress: SpreadName) -> None:
    """A token for an output is good from where its summary leads on, and holds that output only."""
    kept: list[tw.TimestampToken] = []

    def handle(
        lent: tw.types.LentToken, batch: list[int], same: tw.OutputPort, later: tw.OutputPort, never: Any
    ) -> None:
        kept.append(lent.delayed(lent.time, same))
        kept.append(lent.delayed(lent.time + 2, later))
        kept.append(lent.delayed(lent.time + 5, later))
        assert [token.time for token in kept[-3:]] == [lent.time, lent.time + 2, lent.time + 5]
        with lent.retain(later) as token:
            assert token.time == lent.time + 2
        output_and_token = ((same, kept[-3]), (later, kept[-2]), (later, kept[-1]))
        for output, token in output_and_token:
            output.send(token, batch)

    with deploy(fan(handle), workers, progress) as job:
        settle(job)
        assert frontiers(job) == [[0], [2], []]
        job.input("numbers").send([7])
        job.input("numbers").advance_to(10)
        settle(job)
        assert frontiers(job) == [[0], [2], []]
        kept[0].discard()
        kept[1].discard()
        settle(job)
        assert frontiers(job) == [[10], [5], []]
        kept[2].discard()
        settle(job)
        assert frontiers(job) == [[10], [12], []]
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        captured = {name: [(entry.time, entry.batch) for entry in job.captured(name)] for name in NAMES}
        assert captured == {"same": [(0, [7])], "later": [(2, [7]), (5, [7])], "never": []}


def refusal(use: Callable[..., Any]) -> str:
    """Return the text of the error of a wrong use, which must leave nothing behind: the job ends."""
    refused: list[str] = []

    def handle(lent: tw.types.LentToken, batch: list[int], *outputs: tw.OutputPort) -> None:
        with pytest.raises(tw.errors.TokenError) as error:
            use(lent, *outputs)
        refused.append(str(error.value))

    with deploy(fan(handle), 1) as job:
        job.input("numbers").advance_to(4)
        job.input("numbers").send([1])
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert [core.leaks for core in job._cores] == [[]]
    [text] = refused
    return text


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda lent, same, later, never: lent.delayed(5, later), "cannot delay the token of a message at time 4 to 5"),
        (lambda lent, same, later, never: lent.delayed(3, same), "cannot delay the token of a message at time 4 to 3"),
        (lambda lent, same, later, never: lent.delayed("soon", same), "'soon' on output 0"),
        (lambda lent, same, later, never: lent.delayed((4, 0), later), "(4, 0) on output 1"),
        (lambda lent, same, later, never: lent.delayed(None, later), "None on output 1"),
        (lambda lent, same, later, never: lent.delayed(9, never), "on output 2"),
        (lambda lent, same, later, never: lent.retain(never), "nothing at that input comes out there"),
        (lambda lent, same, later, never: never.send(lent, [1]), "nothing at that input comes out there"),
        (lambda lent, same, later, never: lent.delayed(9), "has 3 outputs: say for which one"),
    ],
)
def test_a_time_that_an_output_cannot_have_is_refused(use: Callable[..., Any], words: str) -> None:
    """The error names operator, time and output; nothing is kept of what was refused."""
    text = refusal(use)
    assert words in text
    assert "'fan'" in text


def test_an_output_that_the_input_does_not_reach_is_said_not_to_be_reached() -> None:
    """By `delayed` as it is by `retain`: a stranger cannot guess what a time from [] on is."""
    text = refusal(lambda lent, same, later, never: lent.delayed(9, never))
    assert "nothing at that input comes out there" in text


@every_spread
def test_a_message_past_the_last_round_lends_nothing(progress: SpreadName) -> None:
    """Where a summary leads past the greatest time there is no time to delay to."""
    few = tw.Dataflow("few", tw.progress.IntegerDomain(maximum=3))
    numbers = few.input("numbers")

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                if lent.time <= 1:
                    output.send(lent, batch)
                else:
                    with raises(tw.errors.TokenError):
                        lent.delayed(3)
                    with raises(tw.errors.TokenError):
                        lent.retain()

        return schedule

    summaries = {(0, 0): PathSummary.advance(numbers.nesting, 2)}
    (made,) = few.operator([numbers], 1, build, summaries=summaries, name="late")
    made.probe("done").capture("results")
    with deploy(few, 1, progress) as job:
        for time in range(4):
            job.input("numbers").advance_to(time)
            job.input("numbers").send([time])
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert [(entry.time, entry.batch) for entry in job.captured("results")] == [(2, [0]), (3, [1])]
