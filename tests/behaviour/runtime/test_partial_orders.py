"""Times that users bring along, in whole dataflows: partially ordered ones, bounded ones, in scopes of any depth."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import DEADLINE_S
from tests.laws.domains import BITEMPORAL, VECTOR_CLOCK, Bitemporal
from tidewheel.operators.stream import Loop
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.plan import Schedule

both_spreads = pytest.mark.parametrize("progress", ["broadcast", "accumulated"])
Spread = Literal["broadcast", "accumulated"]


def build_sums(context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends the sum of each time once it is complete, whatever other times are open."""
    held: dict[Any, tuple[tw.TimestampToken, list[int]]] = {}

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            if lent.time not in held:
                held[lent.time] = (lent.retain(), [])
            held[lent.time][1].extend(batch)
        for time in [time for time in held if not input.frontier.less_equal(time)]:
            token, numbers = held.pop(time)
            with token:
                output.send(token, [sum(numbers)])

    return schedule


def two_sided(left: Any, right: Any) -> Any:
    """Return the build function of a source that sends at two unordered times, and lets the first go first."""

    def build(context: tw.OperatorContext) -> Schedule:
        held = tw.TokenSet([context.token()])
        calls = 0

        def schedule(output: tw.OutputPort) -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                held.downgrade([left, right])
                for time in (left, right):
                    with held.delayed(time) as token:
                        output.send(token, [1, 2, 3])
            elif calls == 4:
                held.downgrade([right])
            elif calls == 8:
                held.discard()
            if len(held):
                context.activate()

        return schedule

    return build


@both_spreads
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize(
    ("domain", "left", "right"),
    [(BITEMPORAL, Bitemporal(3, 1), Bitemporal(1, 3)), (VECTOR_CLOCK, (2, 0), (0, 2))],
    ids=["bitemporal", "vector clock"],
)
def test_unordered_times_complete_each_by_itself(
    domain: tw.progress.TimeDomain, left: Any, right: Any, workers: int, progress: Spread
) -> None:
    """Of two times neither of which is before the other, one completes while the other is open."""
    flow = tw.Dataflow("unordered", domain)
    (numbers,) = flow.operator([], 1, two_sided(left, right), name="source")
    loop = Loop(flow, description_of(flow).root.inside("loop"))
    with loop:
        inner = numbers.enter(loop).exchange(lambda number: number).unary(build_sums, name="sums")
    inner.leave().unary(build_sums, name="sums").probe("done").capture("sums")
    with tw.run(flow, engine="local", workers=workers, config=tw.RuntimeConfig(progress=progress)) as job:
        done = job.probe("done")
        assert list(done.frontier) == [domain.minimum()]
        job._wait_for(lambda: done.has_completed(left), "the one time", DEADLINE_S)
        assert not done.has_completed(right)
        job.wait(DEADLINE_S)
        captured = [(batch.time, sum(batch.batch)) for batch in job.captured("sums")]
        totals = {time: sum(total for at, total in captured if at == time) for time, _ in captured}
        assert totals == {left: 6 * workers, right: 6 * workers}


@both_spreads
@pytest.mark.parametrize("workers", [1, 2])
def test_diagnostics_do_not_hold_data_back(workers: int, progress: Spread) -> None:
    """An operator says that what comes in at its second input cannot come out at its first output: so it cannot."""
    flow = tw.Dataflow("diagnosed")
    data, questions = flow.input("data"), flow.input("questions")
    unchanged = tw.progress.PathSummary.identity(data.nesting)
    asked: list[tw.TimestampToken] = []

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(
            data: tw.InputPort, questions: tw.InputPort, output: tw.OutputPort, answers: tw.OutputPort
        ) -> None:
            for token, batch in data:
                output.send(token, batch)
            asked.extend(token.retain(answers) for token, _ in questions)

        return schedule

    output, answers = flow.operator(
        [data, questions], 2, build, summaries={(0, 0): unchanged, (1, 1): unchanged}, name="serve"
    )
    output.probe("data")
    answers.probe("answers")
    with tw.run(flow, engine="local", workers=workers, config=tw.RuntimeConfig(progress=progress)) as job:
        for _ in range(workers):
            job.input("questions").send(["how far?"])
        job.input("data").send([1])
        job.input("data").advance_to(5)
        job.probe("data").wait_until(5, DEADLINE_S)
        assert len(asked) == workers
        assert list(job.probe("answers").frontier) == [0]
        assert [holder.operator for holder in job.explain("answers").holders] == ["input questions", "serve"]
        job.input("questions").close()
        job.input("data").close()
        job._wait_for(lambda: not len(job.probe("data").frontier), "the data to end", DEADLINE_S)
        assert list(job.probe("answers").frontier) == [0]
        for token in asked:
            token.discard()
        job.wait(DEADLINE_S)


@contextmanager
def running(flow: tw.Dataflow) -> Iterator[tw.types.Job]:
    """Run a dataflow whose input ``questions`` has one record."""
    with tw.run(flow, engine="local") as job:
        job.input("questions").send([1])
        job.input("questions").close()
        yield job
        job.stop()


def test_a_message_on_the_wrong_input_lends_no_token() -> None:
    """Sending where the summaries say that nothing can come out is refused, with the reason."""
    flow = tw.Dataflow("diagnosed")
    questions = flow.input("questions")

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(questions: tw.InputPort, output: tw.OutputPort) -> None:
            for token, batch in questions:
                output.send(token, batch)

        return schedule

    flow.operator([questions], 1, build, summaries={}, name="serve")
    with raises(tw.JobError), running(flow) as job:
        job.wait(DEADLINE_S)


def test_a_message_with_several_paths_lends_a_token_for_each() -> None:
    """Where a message can come out at unordered times, its receiver says at which it sends."""
    flow = tw.Dataflow("unordered", BITEMPORAL)
    (numbers,) = flow.operator([], 1, two_sided(Bitemporal(0, 1), Bitemporal(1, 0)), name="source")
    nesting = numbers.nesting
    paths = [
        tw.progress.PathSummary.advance(nesting, Bitemporal(2, 0)),
        tw.progress.PathSummary.advance(nesting, Bitemporal(0, 2)),
    ]
    refused: list[str] = []

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(numbers: tw.InputPort, output: tw.OutputPort) -> None:
            for token, batch in numbers:
                for wrong in (token.retain, lambda lent=token: lent.delayed(Bitemporal(1, 1))):
                    try:
                        wrong()
                    except tw.errors.TokenError as error:
                        refused.append(str(error))
                with token.delayed(Bitemporal(token.time.valid + 2, token.time.recorded)) as late:
                    output.send(late, batch)

        return schedule

    (output,) = flow.operator([numbers], 1, build, summaries={(0, 0): paths}, name="split")
    output.capture("seen")
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
        assert {batch.time for batch in job.captured("seen")} == {Bitemporal(2, 1), Bitemporal(3, 0)}
    assert len(refused) == 4
    assert "say which, delayed(time, output)" in refused[0]
    assert "it lets its receiver send there from" in refused[1]


@both_spreads
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_frontier_is_empty_at_the_start(depth: int, progress: Spread) -> None:
    """Before anything has happened, the frontier at a probe is the minimum time, however deep its scope."""
    flow = tw.Dataflow("deep")
    stream = flow.input("numbers")
    loop = Loop(flow, description_of(flow).root)
    for level in range(depth):
        loop = loop.inner(f"level {level}")
        stream = stream.enter(loop)
    stream.exchange(lambda number: number).probe("inside")
    with tw.run(flow, engine="local", workers=3, paused=True, config=tw.RuntimeConfig(progress=progress)) as job:
        inside = job.probe("inside")
        assert list(inside.frontier) == [stream.nesting.domain.minimum()]
        job.start()
        seen = [tuple(inside.frontier)]
        while job.run_round():  # type: ignore[attr-defined]
            seen.append(tuple(inside.frontier))
        assert set(seen) == {(stream.nesting.domain.minimum(),)}
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert len(inside.frontier) == 0
