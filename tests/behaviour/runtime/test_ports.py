"""Ports: what an operator receives from and sends to."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import (
    fail_flow,
    fail_operator,
    flow_of,
    run_operator,
    scheduled,
)
from tests.kit.runtime.worker_group import WorkerGroup


def test_receiving_takes_messages_in_order_of_arrival() -> None:
    """Iterating gives each message once; iterating again in the same call gives none."""
    seen: list[list[Any]] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        seen.append([(lent.time, batch) for lent, batch in input])
        assert list(input) == []

    group = WorkerGroup(flow_of(scheduled(schedule)), workers=1)
    group.feed("numbers", [1], [2], [3])
    group.run()
    assert [message for call in seen for message in call] == [(0, [1]), (1, [2]), (2, [3])]


def test_an_operator_may_take_one_message_a_call() -> None:
    """Who leaves messages behind is called again until they are gone, and times wait for them meanwhile."""
    calls: list[int] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        calls.append(0)
        for lent, batch in input:
            output.send(lent, batch)
            break

    flow = flow_of(scheduled(schedule))
    group = WorkerGroup(flow, workers=1)
    group.step(0)
    calls.clear()
    for number in range(3):
        group.send("numbers", [number])
    group.close("numbers")
    group.deliver(0)
    for step in range(1, 4):
        group.step(0)
        assert (len(calls), len(group.captured("results"))) == (step, step)
        assert set(group.cores[0].probes.frontier("done")) == ({0} if step < 3 else set())
    group.run()
    assert group.captured("results") == [(0, [0]), (0, [1]), (0, [2])]
    assert group.is_complete


def test_an_operator_that_takes_nothing_is_not_called_for_ever() -> None:
    """It is called for news only; its messages hold their times open, so nobody thinks that all is done."""
    calls: list[int] = []
    group = WorkerGroup(flow_of(scheduled(lambda input, output: calls.append(0))), workers=1)
    group.feed("numbers", [1], [2])
    group.run()
    assert len(calls) < 10
    assert not group.is_complete
    assert set(group.cores[0].probes.frontier("done")) == {0}


def test_sending_outside_the_call_is_refused() -> None:
    """A thread or a callback that kept the output may not use it between calls; the error says what to do.

    The worker fails with it, too, as it does not know who has heard of it.
    """
    outputs: list[tw.OutputPort] = []
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        outputs.append(output)
        kept.extend(lent.retain() for lent, _ in input)

    group = WorkerGroup(flow_of(scheduled(schedule)), workers=1)
    group.feed("numbers", [1])
    group.run()
    with raises(tw.errors.TokenError):
        outputs[0].send(kept[0], [1])
    kept.pop().discard()
    with raises(tw.JobError):
        group.run()
    assert group.captured("results") == []


@pytest.mark.parametrize("batch", [None, 1, "text", (1, 2), {1: 2}, range(2), iter([1]), np.array(3), pa.array([1])])
def test_only_batches_can_be_sent(batch: Any) -> None:
    """A single record or an iterator is refused with operator, worker and time."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            output.send(lent, batch)

    error = fail_operator(schedule, [], [1])
    assert (error.operator, error.worker, error.time) == ("subject", 0, 1)
    assert "TypeError: a batch is a list, a pyarrow.Table, a pyarrow.RecordBatch or a numpy.ndarray, not" in str(error)


@pytest.mark.parametrize("nothing", [[], np.empty((0, 2)), pa.table({"n": pa.array([], pa.int8())})])
def test_an_empty_batch_is_not_sent_but_its_token_is_checked(nothing: Any) -> None:
    """Nothing arrives; a wrong token is an error even so, or it would be found only with data."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            output.send(lent, nothing)
            token = lent.retain()
            token.discard()
            with pytest.raises(tw.errors.TokenError):
                output.send(token, nothing)

    assert run_operator(schedule, [1]) == []


def test_a_list_of_ones_own_kind_is_a_list() -> None:
    """A subclass of list is a batch."""

    class Numbers(list[int]):
        pass

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            output.send(lent, Numbers(batch))

    assert run_operator(schedule, [1, 2]) == [(0, [1, 2])]


def test_a_frontier_is_kept_only_for_who_wants_one() -> None:
    """An operator described with notify=False that asks for it all the same is told."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        assert input.frontier is not None

    flow = tw.Dataflow("test")
    (made,) = flow.operator([flow.input("numbers")], 1, scheduled(schedule), notify=False, name="subject")
    made.capture("results")
    error = fail_flow(flow, [1])
    assert "operator 'subject' was described with notify=False, so no frontier is kept for it" in str(error)


def test_who_wants_no_frontier_is_not_called_when_it_moves() -> None:
    """Calls are for messages only then."""
    calls: dict[bool, int] = {}
    for notify in (True, False):
        seen: list[int] = []
        flow = tw.Dataflow("test")
        flow.operator(
            [flow.input("numbers")], 1, scheduled(lambda i, o, seen=seen: seen.append(0)), notify=notify, name="subject"
        )
        group = WorkerGroup(flow, workers=1)
        group.run()
        for time in range(1, 5):
            group.advance("numbers", time)
            group.run()
        calls[notify] = len(seen)
    assert calls == {True: 5, False: 1}


def test_a_frontier_inside_a_call_is_that_of_its_beginning() -> None:
    """What this step does itself takes effect after it: taking a message does not yet complete its time."""
    seen: list[tuple[set[Any], set[Any]]] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        before = set(input.frontier)
        taken = [lent.time for lent, _ in input]
        if taken:
            seen.append((before, set(input.frontier)))

    group = WorkerGroup(flow_of(scheduled(schedule)), workers=1)
    group.run()
    group.send("numbers", [1])
    group.run()
    group.close("numbers")
    group.run()
    assert seen == [({0}, {0})]


@pytest.mark.parametrize("wrong", [0, None, "token"])
def test_sending_needs_a_token(wrong: Any) -> None:
    """A time is no token: the error says so."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for _, batch in input:
            output.send(wrong, batch)

    assert isinstance(fail_operator(schedule, [1]).__cause__, tw.errors.TokenError | TypeError)
