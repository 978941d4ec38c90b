"""A time is complete only when nothing at it can still come: what that means while a loop goes on circulating.

A record of epoch 0 goes round a loop until it is told to stop. Meanwhile:

- Outside the loop, epoch 0 is open: it may still leave at any moment. So no later epoch is complete there either, since
  epochs are totally ordered and a frontier is a lower bound. But records of later epochs leave all the same.
- Inside, times are (epoch, round) in product order. With the record at (0, r), the times (0, 0) .. (0, r - 1) are
  complete, and so are (1, 0) .. (1, r - 1) once epoch 1 has passed them: (0, r) is not at or before (1, r - 1). The
  times (1, r) and later are not complete, as the record is still to come before them.
"""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import captured, settle
from tidewheel.progress import Time
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.engines.local_job import LocalJob

SPIN = -1
"""The record that goes round until it is told to stop; others go round as often as they say."""


def noting_completed(completed: list[Time]) -> Build:
    """Return the build of an operator that passes everything on and notes times when they are complete here."""

    def build(context: tw.OperatorContext) -> Schedule:
        waiting: set[Time] = set()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                waiting.add(lent.time)
                output.send(lent, batch)
            for time in sorted(time for time in waiting if not input.frontier.less_equal(time)):
                waiting.discard(time)
                completed.append(time)

        return schedule

    return build


class Spinning:
    """A job whose loop keeps a record going round, and what its operators saw of completed times."""

    def __init__(self, workers: int) -> None:
        self.stop = threading.Event()
        self.inside: list[Time] = []
        self.outside: list[Time] = []
        flow = tw.Dataflow("spinning")
        flow.input("numbers").iterate(self._body).unary(noting_completed(self.outside), name="outside").probe(
            "outside"
        ).capture("results")
        self.job = tw.run(flow, workers=workers, engine="local")

    def _body(self, numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        here = (
            numbers.exchange(lambda number: number).unary(noting_completed(self.inside), name="inside").probe("inside")
        )
        return here.filter(self._stays).map(lambda n: n if n == SPIN else n - 1), here.filter(
            lambda n: not self._stays(n)
        )

    def _stays(self, number: int) -> bool:
        return not self.stop.is_set() if number == SPIN else number > 0

    def frontier(self, probe: str) -> set[Time]:
        return set(self.job.probe(probe).frontier)

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Run rounds until it holds; the loop always has something to do, so a job that cannot get there is stuck."""
        assert isinstance(self.job, LocalJob)
        for _ in range(1000):
            assert self.job.run_round()
            if condition():
                return
        pytest.fail("it did not come true within 1000 rounds")

    def run_rounds(self, rounds: int) -> None:
        assert isinstance(self.job, LocalJob)
        for _ in range(rounds):
            assert self.job.run_round()


@pytest.fixture(params=[1, 2, 3])
def spinning(request: pytest.FixtureRequest) -> Any:
    """A job in which epoch 0 spins, epochs 1 and 2 have records that go round 3 times, and epoch 3 is open."""
    spinning = Spinning(request.param)
    numbers = spinning.job.input("numbers")
    numbers.send([SPIN])
    for epoch in (1, 2):
        numbers.advance_to(epoch)
        numbers.send([3])
    numbers.advance_to(3)
    with spinning.job:
        spinning.run_until(lambda: len(spinning.job.captured("results")) == 2)
        yield spinning
        spinning.job.stop()


def test_results_of_later_epochs_do_not_wait(spinning: Spinning) -> None:
    """Epochs 1 and 2 go through the loop and out of it while epoch 0 is still inside."""
    assert sorted(captured(spinning.job)) == [(1, [0]), (2, [0])]


def test_outside_no_epoch_completes_before_the_one_that_circulates(spinning: Spinning) -> None:
    """However long it goes round, epoch 0 is open outside, and so are those after it, though all of theirs is there."""
    spinning.run_rounds(100)
    assert spinning.frontier("outside") == {0}
    assert spinning.outside == []
    with raises(TimeoutError):
        spinning.job.probe("outside").wait_until(1, timeout_s=0)


def test_inside_the_frontier_is_the_round_that_circulates(spinning: Spinning) -> None:
    """It shows the time of the record and the open input, which are not ordered, and the round only grows."""
    rounds: list[int] = []
    for _ in range(20):
        spinning.run_rounds(2)
        frontier = spinning.frontier("inside")
        (circulating,) = frontier - {(3, 0)}
        assert (3, 0) in frontier
        assert circulating[0] == 0
        rounds.append(circulating[1])
    assert rounds == sorted(rounds)
    assert rounds[0] < rounds[-1]


def test_inside_rounds_of_later_epochs_complete(spinning: Spinning) -> None:
    """(1, 2) is complete as soon as epoch 0 is past round 2: nothing of epoch 0 can come back to an earlier round."""
    probe = spinning.job.probe("inside")
    spinning.run_until(lambda: probe.has_completed((2, 3)))
    (round_of_epoch_0,) = (time[1] for time in spinning.frontier("inside") if time[0] == 0)
    assert round_of_epoch_0 >= 4
    assert not probe.has_completed((1, round_of_epoch_0))
    assert not probe.has_completed((0, round_of_epoch_0))
    assert not probe.has_completed((3, 0))
    spinning.run_rounds(2 * spinning.job.workers + 2)
    assert {(epoch, turn) for epoch in (1, 2) for turn in range(4)} <= set(spinning.inside)
    assert not any(time[0] == 3 for time in spinning.inside)


def test_each_time_is_complete_once_and_in_order(spinning: Spinning) -> None:
    """No time is told complete and then another at or before it; in the end all are, and then the job is."""
    spinning.run_rounds(50)
    before = len(spinning.inside)
    assert before > 0
    spinning.stop.set()
    spinning.job.input("numbers").close()
    spinning.job.wait()
    assert spinning.frontier("inside") == spinning.frontier("outside") == set()
    assert sorted(spinning.outside) == [0, 1, 2]
    assert sorted(captured(spinning.job)) == [(0, [SPIN]), (1, [0]), (2, [0])]
    assert len(set(spinning.inside)) == len(spinning.inside)
    for index, later in enumerate(spinning.inside):
        assert not any(later[0] <= time[0] and later[1] <= time[1] for time in spinning.inside[:index])


def test_once_it_stops_all_epochs_complete_at_once(spinning: Spinning) -> None:
    """The last record of epoch 0 leaves, and nothing holds the later ones back any more."""
    spinning.stop.set()
    spinning.job.probe("outside").wait_until(3)
    assert spinning.frontier("outside") == {3}
    assert (0, [SPIN]) in captured(spinning.job)


def test_an_input_can_tell_the_loop_to_stop() -> None:
    """A second input that enters the loop is an input like any other: it ends the circulation from the driver."""

    def build(context: tw.OperatorContext) -> Schedule:
        stopped: list[int] = []

        def schedule(spin: tw.InputPort, stop: tw.InputPort, output: tw.OutputPort) -> None:
            for _, batch in stop:
                stopped.extend(batch)
            for lent, batch in spin:
                if not stopped:
                    output.send(lent, batch)

        return schedule

    flow = tw.Dataflow("test")
    with flow.scope("loop") as loop:
        back = loop.feedback()
        head = flow.input("numbers").enter(loop).concat(back)
        back.connect(head.binary(flow.input("stop").enter(loop), build, name="gate"))
        head.leave().probe("seen").capture("results")
    with tw.run(flow, engine="local") as job:
        job.input("numbers").send(["round"])
        job.input("numbers").close()
        with pytest.raises(TimeoutError):
            job.probe("seen").wait_until(1, timeout_s=0)
        job.input("stop").send([0])
        job.input("stop").advance_to(1)
        job.probe("seen").wait_until(1)
        rounds = len(captured(job))
        assert rounds >= 1
        settle(job)
        assert len(captured(job)) == rounds
        job.input("stop").close()
        job.wait()
