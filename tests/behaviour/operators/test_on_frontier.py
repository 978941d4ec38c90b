"""The on_frontier operator."""

from typing import Any

from hypothesis import given

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, bags, cases, expected, operator_settings, run, settle


@operator_settings()
@given(cases())
def test_nothing_comes_behind_a_frontier_that_was_told(case: Case) -> None:
    """On every worker, frontiers only move forward, at the end to the empty one, and no record comes behind one."""
    told: dict[int, list[tw.progress.Antichain]] = {worker: [] for worker in range(case.workers)}

    def came(batch: Any, time: int, worker: int) -> None:
        assert all(frontier.less_equal(time) for frontier in told[worker])

    def describe(stream: tw.Stream[Any]) -> tw.Stream[Any]:
        moved = stream.exchange(case.kind.number)
        return moved.on_frontier(lambda frontier, worker: told[worker].append(frontier)).inspect_batches(came)

    assert bags(run(describe, case), case.kind) == expected(case.feed)
    for frontiers in told.values():
        assert len(frontiers[-1]) == 0
        first = tw.progress.Antichain(tw.progress.IntegerDomain(), [0])
        for before, after in zip([first, *frontiers], frontiers, strict=False):
            assert before.dominates(after)
            assert before != after


def test_a_frontier_in_a_loop_may_have_several_times() -> None:
    """A frontier is an antichain: within a loop, of times (t, round)."""
    told: list[set[Any]] = []

    def body(numbers: tw.Stream[int]) -> tw.Stream[int]:
        return numbers.on_frontier(lambda frontier, worker: told.append(set(frontier)))

    flow = tw.Dataflow("test")
    flow.input("numbers").iterate(body, max_rounds=3)
    with tw.run(flow, engine="local") as job:
        job.input("numbers").send([1])
        job.input("numbers").advance_to(5)
        settle(job)
        assert told == [{(0, 1), (5, 0)}, {(0, 2), (5, 0)}, {(5, 0)}]
        job.input("numbers").close()
        job.wait()
    assert told[3:] == [set()]


def test_a_function_that_raises_fails_the_job() -> None:
    """The error names the operator."""

    def complain(frontier: tw.progress.Antichain, worker: int) -> None:
        raise RuntimeError("too late")

    with raises(tw.JobError):
        run(lambda stream: stream.on_frontier(complain), Case([(1, [1])]))
