"""The worker core, driven by hand: what a step is, and what leaves with it."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.runtime.busy_flow import busy_flow, collected, plain_counts
from tests.kit.runtime.one_operator import flow_of, ignore, scheduled
from tests.kit.runtime.worker_group import WorkerGroup
from tests.laws.strategies import SEEDS, law_settings
from tidewheel.progress import Time
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.worker.worker_core import WorkerCore

FEEDS = st.lists(st.lists(st.integers(0, 40), max_size=5), max_size=4)
OF_THE_OTHER = next(key for key in range(9) if owner_of(key, 2) == 1)
"""A record that worker 1 owns, of two workers."""


def holding_group() -> tuple[WorkerGroup, list[tw.TimestampToken]]:
    """Return two workers with an operator that retains a token for each message, and the tokens."""
    tokens: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        tokens.extend(lent.retain() for lent, _ in input)

    flow = tw.Dataflow("test")
    flow.input("numbers").unary(scheduled(schedule), exchange=lambda number: number, name="hold").probe("done")
    group = WorkerGroup(flow)
    group.run()
    group.sent.clear()
    return group, tokens


def test_a_message_leaves_with_the_progress_that_speaks_of_it() -> None:
    """What is sent and that it was sent are one envelope."""
    group, _ = holding_group()
    group.send("numbers", [OF_THE_OTHER], worker=0)
    group.deliver(0)
    [(receiver, envelope)] = group.step(0)
    assert (receiver, envelope.sender) == (1, 0)
    [message] = envelope.messages
    assert (message.target, message.time, message.batch) == (group.location("hold"), 0, [OF_THE_OTHER])
    assert envelope.progress == [((message.target, 0), 1)]


def test_taking_a_message_and_retaining_its_token_are_one_batch() -> None:
    """Nobody ever sees the message gone and the token not there yet: no frontier could tell them otherwise."""
    group, tokens = holding_group()
    group.send("numbers", [OF_THE_OTHER], worker=0)
    group.deliver(0)
    group.step(0)
    group.deliver(1)
    [(receiver, envelope)] = group.step(1)
    output = group.cores[1]._compiled.index[Source(1, 0)]
    assert (receiver, envelope.messages) == (0, [])
    assert dict(envelope.progress) == {(group.location("hold"), 0): -1, (output, 0): 1}
    tokens[0].downgrade(7)
    [(_, envelope)] = group.step(1)
    assert dict(envelope.progress) == {(output, 0): -1, (output, 7): 1}
    tokens.pop().discard()
    [(_, envelope)] = group.step(1)
    assert dict(envelope.progress) == {(output, 7): -1}


def test_what_cancels_out_within_a_step_is_never_told() -> None:
    """A message that was sent and taken by the same worker in one step, and a token that came and went, are no news."""
    flow = tw.Dataflow("test")

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            with lent.retain() as token, token.delayed(5):
                output.send(token, batch)

    flow.input("numbers").map(abs).unary(scheduled(schedule), name="subject").capture("results")
    group = WorkerGroup(flow)
    group.run()
    group.send("numbers", [1], worker=0)
    group.deliver(0)
    assert group.step(0) == []
    assert group.captured("results") == [(0, [1])]


def test_a_step_ends_where_it_has_much_to_send() -> None:
    """Peers can receive that while the next step runs the operators that have not had their turn; each runs once."""
    flow = tw.Dataflow("test")
    numbers, calls = flow.input("numbers").map(abs), list[str]()
    numbers.exchange(lambda _: OF_THE_OTHER).inspect(lambda *_: calls.append("far"))
    numbers.inspect(lambda *_: calls.append("near"))
    group = WorkerGroup(flow)
    group.run()
    for count, is_much in ((10, False), (100_000, True)):
        calls.clear()
        group.send("numbers", np.arange(count), worker=0)
        group.deliver(0)
        [(_, envelope)] = group.step(0)
        assert (len(envelope.messages), len(calls)) == (1, 0 if is_much else count)
        assert group.cores[0].is_idle != is_much
        group.step(0)
        assert (calls, group.cores[0].is_idle) == (["near"] * count, True)


def test_what_always_has_much_to_send_lets_others_run() -> None:
    """At least in every second step, all operators that have something to do have their turn."""
    calls = Counter[str]()

    def build(name: str) -> Callable[[tw.OperatorContext], Schedule]:
        def begin(context: tw.OperatorContext) -> Schedule:
            token = context.token()

            def schedule(output: tw.OutputPort) -> None:
                calls[name] += 1
                output.send(token, [bytes(300_000)])
                context.activate()

            return schedule

        return begin

    flow = tw.Dataflow("test")
    for name in ("first", "second", "third"):
        flow.operator([], 1, build(name), name=name)[0].exchange(lambda _: OF_THE_OTHER).probe(name)
    group = WorkerGroup(flow)
    for _ in range(8):
        group.step(0)
    assert {name: count >= 4 for name, count in calls.items()} == dict.fromkeys(("first", "second", "third"), True)


def test_a_step_without_news_sends_nothing() -> None:
    """An operator that is only scheduled changes no count, and an empty batch is not sent."""
    contexts: list[tw.OperatorContext] = []

    def build(context: tw.OperatorContext) -> Schedule:
        contexts.append(context)
        return ignore

    group = WorkerGroup(flow_of(build))
    group.run()
    contexts[0].activate()
    assert not group.cores[0].is_idle
    assert group.step(0) == []
    assert group.step(0) == []


def test_progress_goes_to_all_and_messages_to_whom_they_are_for() -> None:
    """Every peer hears what happened; only the owner gets the records; nobody writes to itself."""
    flow = tw.Dataflow("test")
    flow.input("numbers").exchange(lambda number: number).capture("results")
    group = WorkerGroup(flow, workers=3)
    group.run()
    owned = next(key for key in range(9) if owner_of(key, 3) == 2)
    group.send("numbers", [owned], worker=0)
    group.deliver(0)
    sent = dict(group.step(0))
    assert sorted(sent) == [1, 2]
    assert [len(sent[peer].messages) for peer in (1, 2)] == [0, 1]
    assert sent[1].progress == sent[2].progress != []


@law_settings(15)
@given(FEEDS, st.integers(2, 3))
def test_envelopes_are_numbered_without_gaps(epochs: list[list[int]], workers: int) -> None:
    """For each sender and receiver the numbers count from 0; no envelope is empty, or comes from another life."""
    group = WorkerGroup(busy_flow(), workers, incarnation=7)
    group.feed("numbers", *epochs)
    group.run()
    numbers: dict[tuple[int, int], list[int]] = {}
    for receiver, envelope in group.sent:
        numbers.setdefault((envelope.sender, receiver), []).append(envelope.sequence)
        assert envelope.messages or envelope.progress or envelope.commands
        assert envelope.incarnation == (7 if envelope.sender >= 0 else 0)
        assert envelope.sender != receiver
    assert all(found == list(range(len(found))) for found in numbers.values())


@law_settings(25)
@given(FEEDS, st.integers(2, 3), SEEDS)
def test_after_every_step_the_batches_sent_so_far_count_what_is_there(
    epochs: list[list[int]], workers: int, seed: int
) -> None:
    """Somebody who sees all batches counts at each input port exactly the messages on their way, after each step.

    So every batch is the whole of its step: had one half of a step been told, or a half of another, it would be off.
    """
    group = WorkerGroup(busy_flow(), workers)
    group.feed("numbers", *epochs)
    told: Counter[tuple[int, Time]] = Counter()
    inputs = set(group.cores[0]._ports)
    random = Random(seed)
    while any(group.in_flight) or not all(core.is_idle for core in group.cores):
        worker = random.randrange(workers)
        group.deliver(worker)
        sent = group.step(worker)
        if sent:
            told.update({(at, time): count for (at, time), count in sent[0][1].progress if at in inputs})
        assert {at: count for at, count in told.items() if count} == dict(group.messages_on_their_way())
    assert group.is_complete
    assert collected(group.captured("counts")) == plain_counts(epochs)


@law_settings(20)
@given(FEEDS, st.integers(1, 3))
def test_two_runs_send_the_same_envelopes(epochs: list[list[int]], workers: int) -> None:
    """The same envelopes in the same order give the same steps: nothing depends on hashes, addresses or the clock."""
    runs = []
    for _ in range(2):
        group = WorkerGroup(busy_flow(), workers)
        group.feed("numbers", *epochs)
        group.run()
        runs.append((group.sent, group.captured("counts")))
    assert runs[0] == runs[1]


def test_operators_run_once_a_step_in_the_order_of_description() -> None:
    """What an operator sends, those described after it see in the same step, and those before it in the next."""
    calls: list[str] = []

    def noting(name: str, sends: bool) -> Any:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            calls.append(name)
            for lent, batch in input:
                if sends:
                    output.send(lent, batch)

        return scheduled(schedule)

    flow = tw.Dataflow("test")
    with flow.scope("loop") as loop:
        back = loop.feedback()
        head = flow.input("numbers").enter(loop).concat(back).unary(noting("head", sends=True), name="head")
        tail = head.unary(noting("tail", sends=True), name="tail")
        tail.unary(noting("last", sends=False), name="last")
        back.connect(tail.filter(lambda number: number > 0).map(lambda number: number - 1))
    group = WorkerGroup(flow, workers=1)
    group.run()
    calls.clear()
    group.send("numbers", [2])
    group.deliver(0)
    for _ in range(3):
        group.step(0)
        assert Counter(calls) == {"head": 1, "tail": 1, "last": 1}
        assert calls == ["head", "tail", "last"]
        calls.clear()
    group.run()
    assert calls == []


def test_many_operators_run_in_the_order_of_description() -> None:
    """In whatever order they were asked for."""
    contexts: list[tw.OperatorContext] = []
    calls: list[str] = []

    def build(context: tw.OperatorContext) -> Schedule:
        contexts.append(context)

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            calls.append(context.name)

        return schedule

    flow = tw.Dataflow("test")
    stream = flow.input("numbers")
    for index in range(20):
        stream = stream.unary(build, name=f"{index:02}")
    group = WorkerGroup(flow, workers=1)
    group.run()
    for chosen in ([17, 8, 1], [1, 8, 17], [15, 7, 16, 0], [19, 3]):
        calls.clear()
        for index in chosen:
            contexts[index].activate()
        group.step(0)
        assert calls == [f"{index:02}" for index in sorted(chosen)]


def test_a_core_is_complete_when_nothing_can_happen_any_more() -> None:
    """Idle is not complete: while an input is open, or a token lives anywhere, something may still come."""
    group, tokens = holding_group()
    assert [core.is_idle for core in group.cores] == [True, True]
    assert [core.is_complete for core in group.cores] == [False, False]
    group.send("numbers", [OF_THE_OTHER])
    group.close("numbers")
    group.run()
    assert [core.is_idle for core in group.cores] == [True, True]
    assert [core.is_complete for core in group.cores] == [False, False]
    tokens.pop().discard()
    assert [core.is_idle for core in group.cores] == [True, False]
    group.step(1)
    assert [core.is_complete for core in group.cores] == [False, True]
    group.deliver(0)
    assert [core.is_complete for core in group.cores] == [True, True]
    assert list(group.cores[0].probes.frontier("done")) == []


@pytest.mark.parametrize("when", ["building", "running"])
def test_the_wake_function_is_called_when_a_token_is_used(when: str) -> None:
    """A worker that sleeps has to hear of it, whenever and by whom a token is used."""
    woken: list[int] = []
    tokens: list[tw.TimestampToken] = []

    def build(context: tw.OperatorContext) -> Schedule:
        tokens.append(context.token())
        return ignore

    core = WorkerCore(description_of(flow_of(build)).plan(), 0, 1, wake=lambda: woken.append(1))
    if when == "running":
        core.step()
    before = len(woken)
    tokens.pop().discard()
    assert len(woken) == before + 1
    assert not core.is_idle
