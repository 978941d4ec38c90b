"""`TokenSet` in running dataflows: what frontiers downstream see of its moves."""

import gc
import logging
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import DEADLINE_S, captured, fail_operator, feed, flow_of, scheduled, settle
from tests.kit.runtime.stuck_flows import deploy, every_spread
from tests.kit.runtime.worker_group import WorkerGroup
from tests.laws.domains import BITEMPORAL, Bitemporal
from tidewheel.progress import SpreadName
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.tokens.token_ledger import Leak

A, B, AB = Bitemporal(2, 0), Bitemporal(0, 2), Bitemporal(2, 2)


def source_with(sets: list[tw.TokenSet]) -> Build:
    """Return an operator without inputs whose initial token goes into a set that the test holds."""

    def build(context: tw.OperatorContext) -> Schedule:
        sets.append(tw.TokenSet([context.token()]))
        return lambda output: None

    return build


def bitemporal_source(sets: list[tw.TokenSet]) -> tw.Dataflow:
    flow = tw.Dataflow("test", BITEMPORAL)
    (stream,) = flow.operator([], 1, source_with(sets), name="source")
    stream.map(str).probe("done")
    return flow


@every_spread
@pytest.mark.parametrize("workers", [1, 3])
def test_a_frontier_downstream_is_that_of_the_sets(workers: int, progress: SpreadName) -> None:
    """It follows each move, on all workers, and is empty when the last set is."""
    sets: list[tw.TokenSet] = []
    with deploy(bitemporal_source(sets), workers, progress) as job:
        for times in ([A, B], [AB, B], [AB], [Bitemporal(9, 2), Bitemporal(2, 9)], [Bitemporal(9, 9)]):
            for held in sets:
                held.downgrade(times)
            settle(job)
            assert set(job.probe("done").frontier) == set(tw.progress.Antichain(BITEMPORAL, times))
        for held in sets:
            held.discard()
        job.wait(DEADLINE_S)


@every_spread
def test_a_refused_move_moves_no_frontier(progress: SpreadName) -> None:
    """All or nothing: where one of the times is not allowed, no worker ever sees any of the others."""
    sets: list[tw.TokenSet] = []
    with deploy(bitemporal_source(sets), 2, progress) as job:
        for held in sets:
            held.downgrade([A, B])
        settle(job)
        for wrong in (Bitemporal(1, 1), Bitemporal(0, 0), 7, None):
            for held in sets:
                with raises(tw.errors.TokenError):
                    held.downgrade([AB, wrong, Bitemporal(5, 5)])
            settle(job)
            assert set(job.probe("done").frontier) == {A, B}
            assert [core.ledger.held.get((0, AB)) for core in job._cores] == [0, 0]
        for held in sets:
            held.discard()
        job.wait(DEADLINE_S)


@every_spread
def test_a_set_that_follows_the_frontier_of_an_input(progress: SpreadName) -> None:
    """An operator that may send at any time from its input's frontier on holds nothing back, and can send late."""

    def build(context: tw.OperatorContext) -> Schedule:
        held = tw.TokenSet([context.token()])
        sums: dict[int, int] = {}

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                sums[lent.time] = sums.get(lent.time, 0) + sum(batch)
            for time in [time for time in sums if not input.frontier.less_equal(time)]:
                with held.delayed(time) as token:
                    output.send(token, [sums.pop(time)])
            held.downgrade(input.frontier)

        return schedule

    with deploy(flow_of(build), 1, progress) as job:
        numbers = job.input("numbers")
        for time in (0, 3, 4):
            numbers.advance_to(time)
            numbers.send([1, time])
            numbers.send([10])
            settle(job)
            assert list(job.probe("done").frontier) == [time]
        numbers.close()
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, [11]), (3, [14]), (4, [15])]


def test_a_lent_token_is_refused() -> None:
    """It is gone when the operator returns; the error says that a set holds retained ones."""
    held = tw.TokenSet()

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            held.insert(lent)  # type: ignore[arg-type]

    error = fail_operator(schedule, [1])
    assert "a TokenSet holds tokens, as retained or delayed, not LentToken(time=0, operator='subject')" in str(error)


def test_the_tokens_of_another_output_are_refused() -> None:
    """A set is for one output: with its tokens no other can be sent on."""
    refused: list[str] = []

    def build(context: tw.OperatorContext) -> Schedule:
        with tw.TokenSet([context.token(0)]) as held, context.token(1) as other:
            with pytest.raises(tw.errors.TokenError) as error:
                held.insert(other)
            refused.append(str(error.value))
        return lambda left, right: None

    flow = tw.Dataflow("two")
    flow.operator([], 2, build, name="two")
    with deploy(flow, 1) as job:
        job.wait(DEADLINE_S)
    assert refused == [
        "TimestampToken(time=0, operator='two') cannot be put into TokenSet([0]): it is for another output"
    ]


def test_the_tokens_of_a_set_send() -> None:
    """Those that iteration yields, as long as the set has them."""

    def build(context: tw.OperatorContext) -> Schedule:
        held = tw.TokenSet()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, _ in input:
                held.insert(lent.retain())
            if not input.frontier.less_equal(1):
                for token in held:
                    output.send(token, ["now"])
                held.discard()

        return schedule

    with deploy(flow_of(build), 1) as job:
        feed(job, [], [1], [2, 3], [4])
        job.wait(DEADLINE_S)
        assert captured(job) == [(1, ["now"])]


def test_a_set_that_is_forgotten_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Each of its tokens, with operator and time; the job ends all the same."""
    sets: list[tw.TokenSet] = []
    group = WorkerGroup(bitemporal_source(sets), workers=1, on_leak="warn")
    sets[0].downgrade([A, B])
    group.run()
    assert set(group.cores[0].probes.frontier("done")) == {A, B}
    with caplog.at_level(logging.WARNING, logger="tidewheel.runtime"):
        sets.clear()
        gc.collect()
        group.run()
    assert group.is_complete
    assert set(group.cores[0].leaks) == {Leak("source", A), Leak("source", B)}
    assert all("operator 'source' lost a token for time Bitemporal" in text for text in caplog.messages)


def test_a_set_in_a_loop_has_rounds() -> None:
    """Its times are those of the scope of the output; a time of another scope is refused."""
    refused: list[Any] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            with tw.TokenSet([lent.retain()]) as held:
                for wrong in (5, (0,), ((0, 0), 0)):
                    with raises(tw.errors.TokenError):
                        held.downgrade([wrong])
                    refused.append(wrong)
                held.downgrade([(lent.time[0], lent.time[1] + 3)])
                output.send(next(iter(held)), batch)

    flow = tw.Dataflow("test")
    flow.input("numbers").iterate(
        lambda s: (s.filter(lambda n: False), s.unary(scheduled(schedule), name="late").capture("late"))
    ).capture("results")
    with deploy(flow, 1) as job:
        feed(job, [7])
        job.wait(DEADLINE_S)
        assert (captured(job, "late"), captured(job)) == ([((0, 3), [7])], [(0, [7])])
    assert len(refused) == 3
