"""`context.expect_activation`: a job waits for a thread outside as it waits for the clock."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.lazy_source import LazySource
from tests.kit.runtime.one_operator import DEADLINE_S, captured, feed, flow_of, settle
from tests.waiting import eventually
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.engines.local_job import LocalRounds
from tidewheel.runtime.worker.agenda import Agenda


class Desk:
    """What an operator has given to other threads to do, and the answers that they have activated it with."""

    def __init__(self) -> None:
        self.open: list[Any] = []
        self.ready: list[Any] = []
        self.has_more = threading.Semaphore(0)

    def answer(self, context: tw.OperatorContext) -> None:
        self.ready.append(self.open.pop(0))
        context.activate()


def handing_over(desk: Desk, contexts: list[tw.OperatorContext]) -> Build:
    """Return an operator that gives one message at a time away, and sends it when another thread is done with it."""

    def build(context: tw.OperatorContext) -> Schedule:
        contexts.append(context)

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            while desk.ready:
                token, batch = desk.ready.pop()
                with token:
                    output.send(token, batch)
            if not desk.open and (message := next(iter(input), None)) is not None:
                lent, batch = message
                desk.open.append((lent.retain(), batch))
                desk.has_more.release()
            if desk.open:
                context.expect_activation()

        return schedule

    return build


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def contexts() -> list[tw.OperatorContext]:
    return []


@pytest.fixture
def clerk(desk: Desk, contexts: list[tw.OperatorContext]) -> Iterator[threading.Thread]:
    """Run a thread that answers three times; a test starts it."""

    def work() -> None:
        for _ in range(3):
            assert desk.has_more.acquire(timeout=DEADLINE_S)
            desk.answer(contexts[0])

    thread = threading.Thread(target=work)
    yield thread
    thread.join(DEADLINE_S)


def test_waiting_for_the_end_waits_for_threads(
    desk: Desk, contexts: list[tw.OperatorContext], clerk: threading.Thread
) -> None:
    """Until the last of them has activated its operator, which is often asleep in between."""
    with tw.run(flow_of(handing_over(desk, contexts)), engine="local") as job:
        feed(job, [1], [2], [3])
        clerk.start()
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, [1]), (1, [2]), (2, [3])]


def test_a_thread_that_never_comes_is_waited_for_as_long_as_one_likes(
    desk: Desk, contexts: list[tw.OperatorContext]
) -> None:
    """A timeout ends that; once nothing is expected any more, waiting in vain is an error at once."""
    with tw.run(flow_of(handing_over(desk, contexts)), engine="local") as job:
        feed(job, [1])
        with raises(TimeoutError):
            job.wait(timeout_s=0.05)
        [(token, _)] = desk.open
        desk.open.clear()
        contexts[0].activate()
        with raises(tw.JobError):
            job.wait(DEADLINE_S)
        token.discard()
        job.wait(DEADLINE_S)


def test_explain_says_that_the_operator_goes_on(desk: Desk, contexts: list[tw.OperatorContext]) -> None:
    """Messages that it leaves unread meanwhile are no mistake, and its token has not leaked."""
    with tw.run(flow_of(handing_over(desk, contexts), "busy"), engine="local") as job:
        feed(job, [1], [2])
        settle(job)
        said = str(job.explain("done"))
        assert "'busy'" in said
        assert "leaked" not in said
        assert "without reading" not in said
        for _ in range(2):
            desk.answer(contexts[0])
            settle(job)
        job.wait(DEADLINE_S)


def test_messages_that_are_left_unread_meanwhile_hold_sources_back(
    desk: Desk, contexts: list[tw.OperatorContext]
) -> None:
    """Though nothing else is left to do; where nobody is expected, more is let go, or a join would wait for ever."""
    read: list[int] = []

    class Watched(LazySource):
        def batches(self, partition: int) -> Iterator[tuple[int, list[int]]]:
            for number in range(1000):
                read.append(number)
                yield 0, [number] * 100

    flow = tw.Dataflow("test")
    flow.source("numbers", Watched()).unary(handing_over(desk, contexts), name="busy").probe("done")
    with tw.run(flow, engine="local", config=tw.RuntimeConfig(bytes_in_flight=64 << 10)) as job:
        settle(job)
        held = len(read)
        assert held < 100
        with pytest.raises(TimeoutError):
            job.wait(timeout_s=0.3)
        assert len(read) == held
        [(token, _)] = desk.open
        desk.open.clear()
        token.discard()
        desk.open.append((contexts, None))  # so that it reads no more, and expects nobody
        contexts[0].expect_activation = lambda: None  # type: ignore[method-assign]
        contexts[0].activate()
        settle(job)
        assert len(read) == 1000
        job.stop()


def test_an_agenda_forgets_whom_it_expects_when_their_turn_comes() -> None:
    """Those at work count as scheduled, those that wait for something new do not."""
    agenda = Agenda()
    agenda.expected.update({1: True, 2: False})
    assert (agenda.scheduled(), dict(agenda.expected), agenda.is_empty) == (frozenset({1}), {1: True, 2: False}, True)
    for operator in (1, 2):
        agenda.activate_later(operator)
    agenda.begin()
    assert [agenda.pop(), dict(agenda.expected)] == [1, {2: False}]
    assert [agenda.pop(), dict(agenda.expected)] == [2, {}]


def test_who_waits_hears_of_what_others_do() -> None:
    """While one thread waits for an operator that expects somebody, another may feed the job, add to it, or stop it."""
    held = threading.Event()

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                output.send(lent, batch)
            context.expect_activation()
            held.set()

        return schedule

    errors: list[BaseException] = []

    def wait() -> None:
        try:
            job.wait(DEADLINE_S)
        except tw.JobError as error:
            errors.append(error)

    with tw.run(flow_of(build), engine="local") as job:
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert held.wait(DEADLINE_S)
        job.input("numbers").send([1])
        assert eventually(lambda: captured(job) == [(0, [1])])
        other = tw.Dataflow("other")
        other.source("numbers", tw.RecordSource([2])).capture("results")
        added = job.add(other)
        assert eventually(lambda: added.is_complete)
        assert captured(added) == [(0, [2])]
        job.stop()
        waiting.join(DEADLINE_S)
        assert not waiting.is_alive()
    assert "was stopped" in str(errors)


class Member:
    """A dataflow that expects a thread, and has work once that came."""

    stepping = None
    _is_expecting = True
    _has_work = False

    def __init__(self) -> None:
        self.asked = threading.Event()

    def _run_own_round(self) -> bool:
        return False

    def _left_s(self) -> float | None:
        self.asked.set()
        return None


def test_who_sleeps_is_woken_from_any_thread() -> None:
    """Every sleeper is; and work that came before it lay down keeps it awake."""
    rounds = LocalRounds()
    member: Any = Member()
    rounds.join(member)
    slept: list[bool] = []
    sleepers = [threading.Thread(target=lambda: slept.append(rounds.sleep(None))) for _ in range(2)]
    for sleeper in sleepers:
        sleeper.start()
        assert member.asked.wait(DEADLINE_S)
        member.asked.clear()
    while any(sleeper.is_alive() for sleeper in sleepers):
        rounds.wake()
    assert slept == [True, True]
    member._has_work = True
    assert rounds.sleep(None)
    member._has_work = member._is_expecting = False
    assert not rounds.sleep(None)


@pytest.mark.parametrize("sends_in", ["schedule", "thread"])
def test_a_lent_token_that_is_used_late_fails_the_job(sends_in: str) -> None:
    """The job does not complete while a thread is expected that works with a lent token, so no record is lost."""
    may_answer = threading.Event()
    threads: list[threading.Thread] = []

    def build(context: tw.OperatorContext) -> Schedule:
        open_: list[tuple[tw.types.LentToken, Any]] = []
        done: list[tuple[tw.types.LentToken, Any]] = []

        def work(output: tw.OutputPort) -> None:
            assert may_answer.wait(DEADLINE_S)
            lent, batch = open_.pop()
            if sends_in == "thread":
                with suppress(tw.errors.TokenError):  # as a future that no code looks at
                    output.send(lent, batch)
            done.append((lent, batch))
            context.activate()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for message in input:
                open_.append(message)
                threads.append(threading.Thread(target=work, args=[output]))
                threads[-1].start()
            while done:
                output.send(*done.pop())
            if open_:
                context.expect_activation()

        return schedule

    job = tw.run(flow_of(build, "ask"), engine="local")
    feed(job, [1])
    settle(job)
    is_complete = job.is_complete
    may_answer.set()
    with raises(tw.JobError):
        job.wait(DEADLINE_S)
    assert not is_complete
    threads[0].join(DEADLINE_S)


def test_an_operator_that_expects_a_thread_and_keeps_nothing_does_not_keep_the_job_open() -> None:
    """It has no token, so it cannot send any more."""

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                output.send(lent, batch)
            context.expect_activation()

        return schedule

    with tw.run(flow_of(build), engine="local") as job:
        feed(job, [1])
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, [1])]
