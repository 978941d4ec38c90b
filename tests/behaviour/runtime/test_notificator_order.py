"""The order in which the notificator says that times are complete: as times are, or one sequence for all of them."""

from itertools import combinations, permutations
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import DEADLINE_S, captured, feed, settle
from tests.laws.domains import BITEMPORAL, VECTOR_CLOCK, Bitemporal
from tidewheel.operators.stream import Loop
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.plan import Build, Schedule


def build_in_order(seen: list[Any], *, sequential: bool) -> Build:
    """Return the build function of an operator that passes all of a time on once it is complete, and notes the time."""

    def build(context: tw.OperatorContext) -> Schedule:
        held: dict[Any, list[Any]] = context.state("held", dict)
        notificator = context.notificator()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                held.setdefault(lent.time, []).extend(batch)
                notificator.notify_at(lent)
            for token in notificator.ready(input, sequential=sequential):
                seen.append(((context.name, context.worker), token.time))
                output.send(token, held.pop(token.time))

        return schedule

    return build


def times_of(domain: tw.progress.TimeDomain, times: list[Any], *, sequential: bool = False) -> list[Any]:
    """Return in which order an operator hears that times are complete that arrive in the given one."""
    seen: list[Any] = []
    flow = tw.Dataflow("test", domain)
    sources = [flow.source("time", tw.IterableSource([[(time, [0])]])) for time in times]
    sources[0].concat(*sources[1:]).unary(build_in_order(seen, sequential=sequential), name="subject").capture(
        "results"
    )
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
        assert {result.time for result in job.captured("results")} == set(times)
    return [time for _, time in seen]


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize(
    ("domain", "times"),
    [
        (tw.progress.IntegerDomain(), [0, 1, 7, 30]),
        (
            tw.progress.ProductDomain(tw.progress.IntegerDomain(), tw.progress.IntegerDomain()),
            [(0, 0), (1, 0), (0, 1), (1, 1)],
        ),
        (BITEMPORAL, [Bitemporal(0, 2), Bitemporal(1, 0), Bitemporal(1, 2), Bitemporal(3, 0)]),
        (VECTOR_CLOCK, [(1, 0), (0, 1), (2, 2), (0, 5)]),
    ],
    ids=["integers", "pairs", "bitemporal", "vector clock"],
)
def test_no_time_is_ready_before_one_that_is_less(
    domain: tw.progress.TimeDomain, times: list[Any], sequential: bool
) -> None:
    """In whatever order they arrive, and also where some are in no order."""
    for arriving in permutations(times):
        seen = times_of(domain, list(arriving), sequential=sequential)
        assert len(seen) == len(times)
        assert not any(domain.less_than(later, earlier) for earlier, later in combinations(seen, 2))


def test_sequential_times_come_as_their_domain_puts_them_in_order() -> None:
    """Pairs come by the first coordinate and then by the second, though neither of some is less."""
    pairs = tw.progress.ProductDomain(tw.progress.IntegerDomain(), tw.progress.IntegerDomain())
    times = [(0, 3), (1, 0), (1, 2), (2, 1)]
    for arriving in permutations(times):
        assert times_of(pairs, list(arriving), sequential=True) == times


@pytest.mark.parametrize("workers", [1, 2])
def test_state_across_epochs_does_not_depend_on_which_epoch_is_faster_round_a_loop(workers: int) -> None:
    """The obvious operator numbers its rounds: all of an epoch before the next, though that has fewer rounds."""

    def build(context: tw.OperatorContext) -> Schedule:
        held: dict[Any, list[tuple[int, int]]] = context.state("held", dict)
        done: list[Any] = context.state("done", list)
        complete = context.notificator()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                held.setdefault(lent.time, []).extend(batch)
                complete.notify_at(lent)
            for token in complete.ready(input):
                done.append(token.time)
                output.send(token, [(left - 1, len(done)) for left, _ in held.pop(token.time)])

        return schedule

    def body(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        stepped = walks.exchange(lambda walk: 0).unary(build, name="number")
        return stepped.filter(lambda walk: walk[0] > 0), stepped.filter(lambda walk: walk[0] == 0)

    flow = tw.Dataflow("test")
    flow.input("numbers").map(lambda rounds: (rounds, 0)).iterate(body).capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        feed(job, [5], [1], [3], [2])
        job.wait(DEADLINE_S)
        assert sorted(captured(job)) == [(0, [(0, 5)]), (1, [(0, 6)]), (2, [(0, 9)]), (3, [(0, 11)])]


@pytest.mark.parametrize("workers", [1, 2])
def test_sequential_times_in_nested_loops_hold_back_nothing_for_ever(workers: int) -> None:
    """Operators that wait for one another round two loops, each for the other's earlier epochs, all come to an end."""
    seen: list[Any] = []

    def wait(stream: tw.Stream[Any]) -> tw.Stream[Any]:
        return stream.exchange(lambda walk: walk[1]).unary(build_in_order(seen, sequential=True), name="wait")

    def inner(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        stepped = wait(walks).map(lambda walk: (walk[0], walk[1] - 1))
        return stepped.filter(lambda walk: walk[1] % 3 != 0), stepped.filter(lambda walk: walk[1] % 3 == 0)

    def outer(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        walked = wait(wait(walks).iterate(inner))
        return walked.filter(lambda walk: walk[1] > 0), walked.filter(lambda walk: walk[1] <= 0)

    flow = tw.Dataflow("test")
    walks = flow.input("numbers").map(lambda n: (n, n)).iterate(outer)
    wait(walks).capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        feed(job, [9, 4], [3], [12, 1])
        job.wait(DEADLINE_S)
        found = sorted((result.time, walk[0]) for result in job.captured("results") for walk in result.batch)
    assert found == [(0, 4), (0, 9), (1, 3), (2, 1), (2, 12)]
    for key in {key for key, _ in seen}:
        times = [time for of, time in seen if of == key]
        assert times == sorted(times), "nested pairs of integers, in the order that Python gives them"


def test_in_a_loop_of_a_users_domain_times_are_ready() -> None:
    """Rounds of times that are in no order complete without waiting for one another."""
    seen: list[Any] = []
    flow = tw.Dataflow("test", BITEMPORAL)
    times = [Bitemporal(0, 1), Bitemporal(1, 0)]
    stream = flow.source("times", tw.IterableSource([[(time, [3])] for time in times]))
    loop = Loop(flow, description_of(flow).root.inside("loop"))
    returning = loop.feedback()
    inner = stream.enter(loop).concat(returning).unary(build_in_order(seen, sequential=True), name="subject")
    returning.connect(inner.map(lambda n: n - 1).filter(lambda n: n > 0))
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
    ready = [time for _, time in seen]
    assert sorted(map(str, ready)) == sorted(str((time, turn)) for time in times for turn in range(3))
    rounds = tw.progress.ProductDomain(BITEMPORAL, tw.progress.IntegerDomain())
    assert not any(rounds.less_than(later, earlier) for earlier, later in combinations(ready, 2))


def test_waiting_for_the_first_of_many_epochs_in_a_loop_orders_none_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Integers and their pairs are compared as Python does, so no move of a frontier ranks the epochs that wait."""

    def refuse(*_: object) -> None:
        raise AssertionError("pairs are ranked")

    monkeypatch.setattr(tw.progress.ProductDomain, "in_order", refuse)
    seen: list[Any] = []
    flow = tw.Dataflow("test")
    loop = flow.input("numbers").iterate(
        lambda inner: inner.unary(build_in_order(seen, sequential=True), name="wait"), max_rounds=3
    )
    loop.capture("results")
    with tw.run(flow, engine="local") as job:
        feed(job, *([epoch] for epoch in range(5)))
        job.wait(DEADLINE_S)
    times = [time for _, time in seen]
    assert times == sorted(times)
    assert len(times) == 15


def test_an_operator_with_a_token_completes_though_nothing_activates_it() -> None:
    """An operator that expects an activation, and whose thread only discards its token, does not keep the job open."""

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, _ in input:
                with lent.retain():
                    context.expect_activation()

        return schedule

    flow = tw.Dataflow("test")
    [stream] = flow.operator([flow.input("numbers")], 1, build, notify=False, name="discard")
    stream.capture("results")
    with tw.run(flow, engine="local") as job:
        feed(job, [1])
        job.wait(1)


def test_outside_of_loops_a_complete_time_is_ready() -> None:
    """No time waits for one that is in no order with it, so a driver may wait for a time before it closes others."""
    seen: list[Any] = []
    flow = tw.Dataflow("test", tw.progress.ProductDomain(tw.progress.IntegerDomain(), tw.progress.IntegerDomain()))
    flow.input("n").unary(build_in_order(seen, sequential=True), name="subject").capture("results")
    with tw.run(flow, engine="local") as job:
        ahead = job.input("n")
        behind = ahead.clone()
        behind.advance_to((0, 5))
        ahead.advance_to((1, 0))
        ahead.send([7])
        ahead.advance_to((1, 1))
        settle(job)
        assert [time for _, time in seen] == [(1, 0)]
        ahead.close()
        behind.close()
        job.stop()
