"""Probes: the driver's view of how far a dataflow has come."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Feed, feeds, operator_settings, send
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.engines.local_job import LocalJob


@operator_settings()
@given(feeds(), st.integers(1, 3))
def test_nothing_comes_behind_a_frontier(feed: Feed, workers: int) -> None:
    """Whenever the driver looks, no record arrives later at a time that the frontier had passed; it never goes back."""

    def body(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        spread = numbers.exchange(lambda number: number)
        return spread.filter(lambda n: n > 0).map(lambda n: n // 2), spread.filter(lambda n: n <= 0)

    flow = tw.Dataflow("test")
    flow.input("numbers").iterate(body).probe("end").capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        assert isinstance(job, LocalJob)
        send(job, "numbers", feed)
        frontier = job.probe("end").frontier
        seen: Counter[int] = Counter()
        while job.run_round():
            times = Counter(result.time for result in job.captured("results"))
            assert all(frontier.less_equal(time) for time in times - seen)
            seen = times
            before, frontier = frontier, job.probe("end").frontier
            assert before.dominates(frontier)
        assert len(frontier) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_reached_and_complete(workers: int) -> None:
    """A time is reached when all before it are complete, and complete when it cannot occur any more itself."""
    flow = tw.Dataflow("test")
    flow.input("numbers").map(str).probe("done")
    with tw.run(flow, workers=workers, engine="local") as job:
        done = job.probe("done")
        assert (done.has_reached(0), done.has_completed(0)) == (True, False)
        job.input("numbers").advance_to(2)
        done.wait_until(2)
        assert [done.has_reached(time) for time in range(4)] == [True, True, True, False]
        assert [done.has_completed(time) for time in range(4)] == [True, True, False, False]
        job.input("numbers").close()
        job.wait()
        assert [done.has_reached(9), done.has_completed(9)] == [True, True]


def test_waiting_for_a_time_means_that_its_records_have_come() -> None:
    """After `wait_until` the driver can read everything that was captured before that time."""
    flow = tw.Dataflow("test")
    flow.input("numbers").map(lambda n: n + 1).exchange(lambda n: n).probe("done").capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        for epoch in range(3):
            for number in range(4):
                job.input("numbers").send([number])
            job.input("numbers").advance_to(epoch + 1)
            job.probe("done").wait_until(epoch + 1)
            found = [n for result in job.captured("results") if result.time == epoch for n in result.batch]
            assert sorted(found) == [1, 2, 3, 4]
        job.stop()


def test_a_probe_in_a_loop_shows_rounds() -> None:
    """Inside a loop, times are (t, round), and the probe asks with such times."""
    flow = tw.Dataflow("test")
    loop = flow.scope("loop")
    stream = flow.input("numbers").enter(loop)
    assert stream.probe("inside") is stream
    with tw.run(flow, engine="local") as job:
        job.input("numbers").advance_to(1)
        job.probe("inside").wait_until((1, 0))
        assert job.probe("inside").has_completed((0, 99))
        assert not job.probe("inside").has_completed((1, 0))
        job.stop()


def test_a_probe_costs_an_operator_nothing() -> None:
    """A stream may be probed under several names; no operator is added for it."""
    flow = tw.Dataflow("test")
    stream = flow.input("numbers")
    size = description_of(flow).size
    stream.probe("one").probe("other")
    assert description_of(flow).size == size
    with tw.run(flow, engine="local") as job:
        job.input("numbers").close()
        job.wait()
        frontiers: list[Any] = [set(job.probe(name).frontier) for name in ("one", "other")]
    assert frontiers == [set(), set()]
    assert repr(job.probe("one")) == "ProbeHandle('one')"


def test_a_wait_that_ends_too_early_can_be_taken_up_again() -> None:
    """A timeout says what was waited for and leaves the job as it was."""

    def counting(context: tw.OperatorContext) -> Any:
        token = context.token()

        def schedule(output: tw.OutputPort) -> None:
            token.downgrade(token.time + 1)
            context.activate()

        return schedule

    flow = tw.Dataflow("test")
    flow.operator([], 1, counting, name="clock")[0].probe("clock")
    with tw.run(flow, engine="local") as job:
        with raises(TimeoutError):
            job.probe("clock").wait_until(1_000_000, timeout_s=0)
        job.probe("clock").wait_until(50)
        assert job.probe("clock").has_reached(50)
        job.stop()


@pytest.mark.parametrize("time", ["1", (0, 0), None])
def test_only_a_time_can_be_waited_for(time: Any) -> None:
    """Asking for what is no time of the stream is an error that names the probe, and not one about `<=`."""
    flow = tw.Dataflow("test")
    flow.input("numbers").probe("done")
    with tw.run(flow, engine="local") as job:
        with raises(tw.TidewheelError):
            job.probe("done").wait_until(time)
        job.stop()


@pytest.mark.parametrize("workers", [1, 2])
def test_advances_of_a_probe_can_be_followed(workers: int) -> None:
    """Each frontier is told once, the last one is empty; what is behind a frontier can be read when it is told."""
    flow = tw.Dataflow("test")
    flow.input("numbers").exchange(lambda n: n).probe("done").capture("results")
    told: list[set[int]] = []
    with tw.run(flow, workers=workers, engine="local") as job:
        advances = job.probe("done").advances()
        assert set(next(advances)) == {0}
        for epoch in range(3):
            job.input("numbers").send([epoch, 9])
            job.input("numbers").advance_to(2 * epoch + 1)
            told.append(set(next(advances)))
            assert sorted(n for result in job.captured("results") for n in result.batch)[: epoch + 1] == [
                *range(epoch + 1)
            ]
        job.input("numbers").close()
        told += [set(frontier) for frontier in advances]
    assert told == [{1}, {3}, {5}, set()]


def test_who_follows_a_probe_that_nobody_moves_is_told() -> None:
    """On the local engine that is an error at once, which says what to do; a time limit is one for each move."""
    flow = tw.Dataflow("test")
    flow.input("numbers").probe("done")
    with tw.run(flow, engine="local") as job:
        advances = job.probe("done").advances()
        next(advances)
        with raises(tw.JobError):
            next(advances)
        advances = job.probe("done").advances(timeout_s=0)
        next(advances)
        with raises(TimeoutError):
            next(advances)
        job.stop()
