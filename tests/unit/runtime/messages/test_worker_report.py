"""`WorkerLoop.report`: answered between two steps, else with what keeps the worker, and never not at all."""

import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tidewheel as tw
from tests.behaviour.runtime.test_token_threads import in_threads
from tests.kit.runtime.one_operator import flow_of, ignore, scheduled
from tests.kit.runtime.stuck_flows import hoarding
from tests.unit.runtime.worker.test_worker_loop import command, loop_of, running, squares, watch_until
from tests.waiting import eventually
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.messages.feeder_status import Phase
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.worker.worker_loop import WorkerLoop

DEADLINE_S = 30.0


def report_of(loop: WorkerLoop) -> WorkerReport:
    """Ask, with plenty of time."""
    report = loop.report(DEADLINE_S)
    assert isinstance(report, WorkerReport)
    return report


class Gate:
    """An operator that stays inside its function until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.leave = threading.Event()

    def build(self) -> Build:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                self.entered.set()
                assert self.leave.wait(DEADLINE_S)
                output.send(lent, batch)

        return scheduled(schedule)


@contextmanager
def blocked(time: int = 3) -> Iterator[tuple[WorkerLoop, Gate]]:
    """Run a worker that is inside the operator ``gate``; let it go in the end."""
    gate = Gate()
    with running(flow_of(gate.build(), "gate")) as loop:
        command(loop, 0, "advance", time)
        command(loop, 1, "send", time, [1])
        assert gate.entered.wait(DEADLINE_S)
        try:
            yield loop, gate
        finally:
            gate.leave.set()


def test_an_idle_worker_answers_at_once() -> None:
    """With what it has done, though nothing else happens and it sleeps; each time anew."""
    with running(squares()) as loop:
        command(loop, 0, "send", 0, [2, 3])
        command(loop, 1, "advance", 5)
        watch_until(loop, lambda status: status.probes.get("done") == (5,))
        first = report_of(loop)
        assert first.statistics.operators["map"].records_in == 2
        assert first.tokens == {(loop._core._compiled.index[Source(0, 0)], 5): 1}
        assert (first.queued, first.scheduled, first.worker) == ({}, frozenset(), 0)
        steps = first.statistics.steps
        assert report_of(loop).statistics.steps == steps
        command(loop, 2, "close")
        watch_until(loop, lambda status: status.phase is Phase.COMPLETE)
        last = report_of(loop)
        assert last.tokens == {}


def test_a_report_travels() -> None:
    """It is pickled on its way to the driver, whatever it reports."""
    kept: list[tw.TimestampToken] = []
    with running(flow_of(hoarding(kept), "leaky")) as loop:
        command(loop, 0, "send", 0, [1])
        command(loop, 1, "close")
        assert eventually(lambda: len(kept) == 1)
        report = report_of(loop)
        assert pickle.loads(pickle.dumps(report)) == report
        kept.pop().discard()
        watch_until(loop, lambda status: status.phase is Phase.COMPLETE)


def test_a_worker_that_steps_without_end_answers() -> None:
    """An operator that asks to be scheduled again and again leaves room between two steps."""
    stepped = threading.Event()

    def build(context: tw.OperatorContext) -> Schedule:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            stepped.set()
            context.activate()

        return schedule

    with running(flow_of(build)) as loop:
        assert stepped.wait(DEADLINE_S)
        steps = [report_of(loop).statistics.steps for _ in range(20)]
        assert steps == sorted(steps)
        assert 1 in report_of(loop).scheduled


def test_a_worker_inside_an_operator_says_which() -> None:
    """Within the time that is given, with operator, time and for how long; and properly again afterwards."""
    with blocked(time=3) as (loop, gate):
        first = loop.report(0.05)
        assert isinstance(first, BusyWorker)
        assert (first.worker, first.operator, first.time) == (0, "gate", 3)
        assert first.seconds >= 0.05
        second = loop.report(0)
        assert isinstance(second, BusyWorker)
        assert second.seconds > first.seconds
        gate.leave.set()
        report = report_of(loop)
        assert report.statistics.operators["gate"].records_out == 1


def test_a_report_comes_as_soon_as_the_operator_returns() -> None:
    """Who waits long enough gets it, and need not wait for the time to be over."""
    with blocked() as (loop, gate):
        answers: list[WorkerReport | BusyWorker] = []
        asking = threading.Thread(target=lambda: answers.append(loop.report(DEADLINE_S)))
        asking.start()
        assert eventually(lambda: len(loop._asked) == 1)
        gate.leave.set()
        asking.join(DEADLINE_S)
        assert isinstance(answers[0], WorkerReport)


def test_many_may_ask_at_once() -> None:
    """Each gets an answer of a moment after it asked."""
    with running(squares()) as loop:
        command(loop, 0, "send", 0, [2])
        command(loop, 1, "advance", 1)
        watch_until(loop, lambda status: status.probes.get("done") == (1,))
        seen: list[int] = []
        ask: Callable[[], None] = lambda: seen.append(report_of(loop).statistics.operators["map"].records_in)  # noqa: E731
        in_threads(*[ask] * 8)
        assert seen == [1] * 8


def test_what_happened_before_the_question_is_in_the_answer() -> None:
    """A report is not an old one, though somebody else got one just now."""
    with running(squares()) as loop:
        for sequence in range(30):
            command(loop, sequence, "send", 0, [sequence])
            assert eventually(lambda sent=sequence: len(loop.captured("results")) == sent + 1)  # type: ignore[misc]
            assert report_of(loop).statistics.operators["map"].records_in == sequence + 1


@pytest.mark.parametrize("stops", [True, False])
def test_a_worker_that_has_ended_answers(stops: bool) -> None:
    """Stopped, or not started yet, it has no thread that could answer, and the caller looks for itself."""
    loop = loop_of(squares())
    if stops:
        loop.start()
        loop.stop()
        loop._thread.join(DEADLINE_S)
    assert report_of(loop).worker == 0
    loop.stop()
    assert report_of(loop).worker == 0


def test_a_worker_that_has_failed_answers() -> None:
    """An operator that raised has ended the thread in the middle of a step; nobody who asks then is left waiting."""

    def fail(input: tw.InputPort, output: tw.OutputPort) -> None:
        for _ in input:
            raise LookupError("no model")

    with running(flow_of(scheduled(fail), "predict")) as loop:
        command(loop, 0, "send", 0, [1])
        status = watch_until(loop, lambda status: status.phase is Phase.FAILED)
        assert "operator 'predict' failed" in str(status.failure)
        assert loop.report(0.2) is not None
        loop._thread.join(DEADLINE_S)
        assert isinstance(loop.report(DEADLINE_S), WorkerReport)


def test_a_worker_that_fails_while_somebody_asks_lets_them_go() -> None:
    """After the time that was given at the latest, whatever becomes of the worker."""
    gate = Gate()

    def fail(input: tw.InputPort, output: tw.OutputPort) -> None:
        for _ in input:
            gate.entered.set()
            assert gate.leave.wait(DEADLINE_S)
            raise LookupError("no model")

    with running(flow_of(scheduled(fail), "predict")) as loop:
        command(loop, 0, "send", 0, [1])
        assert gate.entered.wait(DEADLINE_S)
        answers: list[Any] = []
        asking = threading.Thread(target=lambda: answers.append(loop.report(0.3)))
        asking.start()
        assert eventually(lambda: len(loop._asked) == 1)
        gate.leave.set()
        asking.join(DEADLINE_S)
        assert not asking.is_alive()
        assert len(answers) == 1


def test_stopping_while_somebody_asks_lets_them_go() -> None:
    """A worker that is told to stop answers what it was asked before."""
    with blocked() as (loop, gate):
        answers: list[Any] = []
        asking = threading.Thread(target=lambda: answers.append(loop.report(1.0)))
        asking.start()
        assert eventually(lambda: len(loop._asked) == 1)
        loop.stop()
        gate.leave.set()
        asking.join(DEADLINE_S)
        assert not asking.is_alive()
        assert isinstance(answers[0], WorkerReport | BusyWorker)


def test_an_operator_may_ask_for_a_report_of_its_own_worker() -> None:
    """It is told that the worker is busy, with itself."""
    answers: list[Any] = []
    loops: list[WorkerLoop] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        answers.extend(loops[0].report(0.05) for _ in input)

    with running(flow_of(scheduled(schedule), "curious")) as loop:
        loops.append(loop)
        command(loop, 0, "send", 0, [1])
        command(loop, 1, "close")
        watch_until(loop, lambda status: status.phase is Phase.COMPLETE)
    [answer] = answers
    assert isinstance(answer, BusyWorker)
    assert (answer.operator, answer.time) == ("curious", 0)


def test_asking_often_keeps_nobody_from_working() -> None:
    """A thousand reports while a thousand records pass: all of them arrive."""
    with running(flow_of(scheduled(ignore))) as loop:
        working = threading.Event()
        asked: list[int] = []

        def ask() -> None:
            while not working.wait(0):
                asked.append(report_of(loop).statistics.steps)

        asking = threading.Thread(target=ask)
        asking.start()
        for sequence in range(1000):
            command(loop, sequence, "send", 0, [sequence])
        command(loop, 1000, "close")
        watch_until(loop, lambda status: status.phase is Phase.COMPLETE)
        working.set()
        asking.join(DEADLINE_S)
        assert asked == sorted(asked)
        assert report_of(loop).statistics.operators["subject"].records_in == 1000
