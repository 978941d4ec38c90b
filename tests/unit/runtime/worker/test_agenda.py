"""`context.activator`: operators that are scheduled by the clock or by another thread."""

import threading
import time
from itertools import pairwise
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import DEADLINE_S, captured
from tests.unit.runtime.worker.test_worker_loop import DEADLINE_S as LOOP_DEADLINE_S
from tests.unit.runtime.worker.test_worker_loop import running, watch_until
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.messages.feeder_status import Phase
from tidewheel.runtime.worker.agenda import Agenda
from tidewheel.runtime.worker.operator_context import Activator


def gone_off(agenda: Agenda) -> list[int]:
    """Take a step; return the operators that were scheduled in it."""
    agenda.begin()
    return list(iter(agenda.pop, None))


def test_timers_go_off_when_their_time_has_come_and_once() -> None:
    """Whoever sets them, and in whatever order; what is left is told."""
    now = [10.0]
    agenda = Agenda(lambda: now[0])
    assert agenda.left_s() is None
    for operator, seconds in ((1, 3.0), (2, 1.0), (3, 2.0), (2, 5.0)):
        agenda.activate_after(operator, seconds)
    assert (agenda.left_s(), agenda.is_empty) == (1.0, True)
    assert gone_off(agenda) == []
    now[0] = 12.0
    assert (agenda.left_s(), agenda.is_empty) == (0.0, False)
    assert gone_off(agenda) == [2, 3]
    assert agenda.left_s() == 1.0
    now[0] = 100.0
    assert gone_off(agenda) == [1, 2]
    assert agenda.left_s() is None


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    """At once, where it is asked for."""
    activator = Activator(Agenda(), 0)
    with raises(ValueError):
        activator.after(seconds)


def ticking(ticks: int, seconds: float, called: list[float]) -> Any:
    """Return the build function of a source that sends a number now and then."""

    def build(context: tw.OperatorContext) -> Schedule:
        token = context.token()

        def schedule(output: tw.OutputPort) -> None:
            called.append(time.monotonic())
            output.send(token, [len(called)])
            if len(called) == ticks:
                token.discard()
            else:
                token.downgrade(len(called))
                context.activator.after(seconds)

        return schedule

    return build


def ticker(ticks: int, seconds: float, called: list[float]) -> tw.Dataflow:
    flow = tw.Dataflow("ticker")
    [numbers] = flow.operator([], 1, ticking(ticks, seconds, called), name="ticker")
    numbers.probe("done").capture("results")
    return flow


def test_a_source_that_ticks_on_the_local_engine() -> None:
    """Waiting waits for the clock, where nothing else is left to do."""
    called: list[float] = []
    with tw.run(ticker(4, 0.02, called), engine="local") as job:
        job.probe("done").wait_until(2, timeout_s=DEADLINE_S)
        job.wait(timeout_s=DEADLINE_S)
        assert captured(job) == [(n, [n + 1]) for n in range(4)]
    assert all(later - earlier >= 0.02 for earlier, later in pairwise(called))


def test_waiting_for_a_timer_has_an_end() -> None:
    """A timeout that comes before the timer is a timeout."""
    called: list[float] = []
    with tw.run(ticker(2, 1000.0, called), engine="local") as job:
        with raises(TimeoutError):
            job.wait(timeout_s=0.05)
        job.stop()
    assert len(called) == 1


def test_a_worker_that_sleeps_wakes_for_its_timer() -> None:
    """Not before, and not only when it would look around anyway."""
    called: list[float] = []
    with running(ticker(20, 0.01, called)) as loop:
        began = time.monotonic()
        watch_until(loop, lambda status: status.phase is Phase.COMPLETE)
        took = time.monotonic() - began
    assert 0.15 < took < LOOP_DEADLINE_S / 3
    assert all(later - earlier >= 0.01 for earlier, later in pairwise(called))


def test_another_thread_may_keep_the_activator() -> None:
    """And use it for as long as the worker runs."""
    activators: list[Any] = []
    called = threading.Semaphore(0)

    def build(context: tw.OperatorContext) -> Schedule:
        activators.append(context.activator)
        token = context.token()
        left = [3]

        def schedule(output: tw.OutputPort) -> None:
            called.release()
            left[0] -= 1
            if not left[0]:
                token.discard()

        return schedule

    flow = tw.Dataflow("outside")
    flow.operator([], 1, build, name="outside")
    with running(flow) as loop:
        for _ in range(2):
            assert called.acquire(timeout=LOOP_DEADLINE_S)
            activators[0]()
        watch_until(loop, lambda status: status.phase is Phase.COMPLETE)
