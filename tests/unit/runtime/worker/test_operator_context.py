"""The context of a build function: its place, its initial tokens, and a way to be scheduled again."""

import pickle
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import captured, feed, flow_of, ignore, run_flow, scheduled
from tests.kit.runtime.worker_group import WorkerGroup
from tidewheel.progress import ROOT
from tidewheel.runtime.description.plan import Schedule


def error_of_build(build: Any, outputs: int = 1) -> tw.JobError:
    """Return the error of a job whose operator of some outputs cannot be built."""
    flow = tw.Dataflow("test")
    flow.operator([flow.input("numbers")], outputs, build, name="subject")
    with pytest.raises(tw.JobError) as caught:
        tw.run(flow, engine="local")
    return caught.value


def test_each_worker_builds_every_operator_once() -> None:
    """The context says which operator, which worker, and of how many."""
    seen: list[tuple[str, int, int]] = []

    def build(context: tw.OperatorContext) -> Schedule:
        seen.append((context.name, context.worker, context.workers))
        return ignore

    run_flow(flow_of(build), [1], workers=3)
    assert seen == [("subject", worker, 3) for worker in range(3)]


def test_the_initial_token_allows_to_send_without_any_message() -> None:
    """It is at the minimum time, and holds it open until it is discarded."""

    def build(context: tw.OperatorContext) -> Schedule:
        token = context.token()
        assert (token.time, token.is_live) == (0, True)

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            if token.is_live:
                with token:
                    output.send(token, ["first"])
            for lent, batch in input:
                output.send(lent, batch)

        return schedule

    assert run_flow(flow_of(build), [], [1]) == [(0, ["first"]), (1, [1])]


def test_an_initial_token_that_is_kept_holds_back_all_that_follows() -> None:
    """Nothing downstream completes before the operator has let go of it."""
    kept: list[tw.TimestampToken] = []

    def build(context: tw.OperatorContext) -> Schedule:
        kept.append(context.token())
        return ignore

    with tw.run(flow_of(build), engine="local") as job:
        feed(job, [1])
        with raises(tw.JobError):
            job.wait()
        assert set(job.probe("done").frontier) == {0}
        kept.pop().discard()
        job.wait()


def test_in_a_loop_the_initial_token_is_at_the_loops_first_time() -> None:
    """The minimum is that of the operator's own scope."""
    times: list[Any] = []

    def build(context: tw.OperatorContext) -> Schedule:
        with context.token() as token:
            times.append(token.time)
        return ignore

    flow = tw.Dataflow("test")
    with flow.scope("loop") as loop:
        flow.input("numbers").enter(loop).unary(build, name="subject")
    with tw.run(flow, engine="local") as job:
        feed(job, [1])
        job.wait()
    assert times == [(0, 0)]


def test_each_output_has_a_token_of_its_own() -> None:
    """They are taken by number, and each sends on its output only."""

    def build(context: tw.OperatorContext) -> Schedule:
        tokens = [context.token(output) for output in range(2)]

        def schedule(input: tw.InputPort, left: tw.OutputPort, right: tw.OutputPort) -> None:
            if not tokens:
                return
            with raises(tw.errors.TokenError):
                left.send(tokens[1], ["wrong"])
            left.send(tokens[0], ["left"])
            right.send(tokens[1], ["right"])
            for token in tokens:
                token.discard()
            tokens.clear()

        return schedule

    flow = tw.Dataflow("test")
    left, right = flow.operator(
        [flow.input("numbers")], 2, build, {(0, 0): tw.progress.PathSummary.identity(ROOT)}, name="fork"
    )
    left.capture("left")
    right.capture("right")
    with tw.run(flow, engine="local") as job:
        feed(job)
        job.wait()
        assert (captured(job, "left"), captured(job, "right")) == ([(0, ["left"])], [(0, ["right"])])


def test_a_token_can_be_taken_once() -> None:
    """The second attempt names the operator and says why there is none."""

    def build(context: tw.OperatorContext) -> Schedule:
        with context.token():
            context.token()
        return lambda *ports: None

    error = error_of_build(build)
    assert "operator 'subject': the initial token of output 0 was taken already, or build has returned" in str(error)
    assert isinstance(error.__cause__, tw.errors.TokenError)


@pytest.mark.parametrize("output", [-1, 1, 7])
def test_only_an_output_that_exists_has_a_token(output: int) -> None:
    """The error says how many outputs there are."""
    error = error_of_build(lambda context: context.token(output))
    assert f"operator 'subject' has 1 outputs, there is no output {output}" in str(error)


def test_an_initial_token_that_is_not_taken_is_gone() -> None:
    """It is discarded as soon as build returns, and holds nothing back; afterwards it cannot be had."""
    contexts: list[tw.OperatorContext] = []

    def build(context: tw.OperatorContext) -> Schedule:
        contexts.append(context)
        return ignore

    group = WorkerGroup(flow_of(build), workers=1)
    group.run()
    group.advance("numbers", 3)
    group.run()
    assert set(group.cores[0].probes.frontier("done")) == {3}
    assert group.cores[0].leaks == []
    with raises(tw.errors.TokenError):
        contexts[0].token()


def test_who_asks_is_scheduled_again() -> None:
    """`activate` gives one more call, in the next step, though nothing has arrived; not asking gives none."""
    calls: list[int] = []

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            calls.append(len(calls))
            if len(calls) < 4:
                context.activate()

        return schedule

    group = WorkerGroup(flow_of(build), workers=1)
    for step in range(1, 5):
        assert not group.cores[0].is_idle
        group.step(0)
        assert len(calls) == step
    assert group.cores[0].is_idle


def test_asking_several_times_gives_one_call() -> None:
    """An operator runs at most once a step."""
    calls: list[int] = []

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            calls.append(0)
            if len(calls) == 1:
                for _ in range(3):
                    context.activate()

        return schedule

    group = WorkerGroup(flow_of(build), workers=1)
    group.run()
    assert len(calls) == 2


@pytest.mark.parametrize("made", [None, 7, "schedule", []])
def test_a_build_that_returns_no_function_fails_the_job(made: Any) -> None:
    """A forgotten `return schedule` is named as what it is, with operator and worker."""
    error = error_of_build(lambda context: made)
    assert (error.operator, error.worker, error.time) == ("subject", 0, None)
    assert (
        "operator 'subject' could not be built on worker 0: TypeError: build must return the operator's schedule "
        f"function, it returned {made!r}" in str(error)
    )


def test_a_build_that_raises_fails_the_job() -> None:
    """The error names operator and worker and shows the traceback of the user's function; nothing is left running."""

    def build(context: tw.OperatorContext) -> Schedule:
        if context.worker == 1:
            raise LookupError("no model")
        return ignore

    flow = flow_of(build)
    with raises(tw.JobError) as caught:
        tw.run(flow, workers=2, engine="local")
    assert (caught.value.operator, caught.value.worker, caught.value.time) == ("subject", 1, None)
    assert isinstance(caught.value.__cause__, LookupError)
    assert "in build" in caught.value.traceback_text


def test_a_topic_of_a_job_that_could_not_be_built_is_free_again() -> None:
    """The publishers that were started first are ended, and the next job may have the name."""

    def build(context: tw.OperatorContext) -> Schedule:
        raise LookupError("no model")

    flow = tw.Dataflow("test")
    flow.input("numbers").unary(build, name="subject").publish("operator context/topic")
    for _ in range(2):
        with raises(tw.JobError):
            tw.run(flow, engine="local")
    flow = tw.Dataflow("test")
    flow.input("numbers").unary(scheduled(ignore), name="subject").publish("operator context/topic")
    with tw.run(flow, engine="local") as job, tw.subscribe("operator context/topic") as subscription:
        feed(job, [1])
        assert list(subscription.epochs()) == []


# ---------------------------------------------------------------------- state


def build_counts(context: tw.OperatorContext) -> Schedule:
    """Build an operator that counts in its state, and sends all of it."""
    counts: Counter[int] = context.state("counts", Counter)
    again: Any = context.state("counts", list)
    assert again is counts, "what is there already is not made again"
    total: list[int] = context.state("total", lambda: [0])

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            counts.update(batch)
            total[0] += len(batch)
            output.send(token, [(dict(counts), total[0])])

    return schedule


def test_state_lasts_from_one_call_to_the_next() -> None:
    """By name, as it was made and has been changed since."""
    assert run_flow(flow_of(build_counts), [1, 2], [2]) == [(0, [({1: 1, 2: 1}, 2)]), (1, [({1: 1, 2: 2}, 3)])]


def test_each_operator_and_each_worker_has_state_of_its_own() -> None:
    """One name in two operators, or on two workers, is not one state."""
    flow = tw.Dataflow("test")
    numbers = flow.input("numbers")
    numbers.unary(build_counts, name="one").capture("one")
    numbers.filter(lambda n: n > 1).unary(build_counts, name="other").capture("other")
    group = WorkerGroup(flow, workers=2)
    group.send("numbers", [1, 2], worker=0)
    group.send("numbers", [1, 3], worker=1)
    group.run()
    states = {
        (instance.name, core.worker): instance.kept.states
        for core in group.cores
        for instance in core._instances
        if instance.kept.states
    }
    assert states == {
        ("one", 0): {"counts": Counter([1, 2]), "total": [2]},
        ("one", 1): {"counts": Counter([1, 3]), "total": [2]},
        ("other", 0): {"counts": Counter([2]), "total": [1]},
        ("other", 1): {"counts": Counter([3]), "total": [1]},
    }
    assert pickle.loads(pickle.dumps(states)) == states


def test_state_that_is_there_when_the_operator_is_built_is_taken_up() -> None:
    """`make` is called for what is missing only: an operator goes on from what it had kept."""
    core = WorkerGroup(flow_of(build_counts), workers=1).cores[0]
    (instance,) = (instance for instance in core._instances if instance.name == "subject")
    instance.kept.states["counts"] = Counter([7, 7])
    instance.kept.states["total"] = [2]
    sent: list[Any] = []
    schedule = build_counts(tw.OperatorContext(core, instance, [""]))
    schedule([("token", [7])], SimpleNamespace(send=lambda token, batch: sent.append(batch)))
    assert sent == [[({7: 3}, 3)]]
