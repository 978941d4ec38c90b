"""Accumulate: the state of each key over all epochs, at each."""

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, run


def put(state: list[int], number: int) -> list[int]:
    state.append(number)
    return state


def test_what_was_sent_does_not_change_with_the_state() -> None:
    """A state that is changed in place is copied, so that receivers keep what they got."""
    results = run(
        lambda stream: stream.accumulate(lambda n: 0, start=list, add=put), Case([(0, [1]), (1, [2]), (2, [3])])
    )
    assert [result.batch for result in results] == [[(0, [1])], [(0, [1, 2])], [(0, [1, 2, 3])]]


def test_epochs_that_come_in_any_order_are_added_in_order_of_time() -> None:
    """A later epoch's records may be there first; they wait."""
    flow = tw.Dataflow("test")
    early = tw.IterableSource([[(0, [1]), (2, [3])]])
    late = tw.IterableSource([[(1, [20])]])
    numbers = flow.source("early", early).concat(flow.source("late", late))
    numbers.accumulate(lambda n: 0, start=list, add=put).map(lambda pair: tuple(pair[1])).capture("results")
    with tw.run(flow, engine="local") as job:
        job.wait()
        assert [result.batch for result in job.captured("results")] == [[(1,)], [(1, 20)], [(1, 20, 3)]]


def test_state_is_where_the_runtime_finds_it() -> None:
    """What is kept is in `context.keyed_state`; epochs that are over are not."""
    flow = tw.Dataflow("test")
    numbers = flow.source("numbers", tw.IterableSource([[(time, [time]) for time in range(20)]]))
    numbers.accumulate(lambda n: n % 2, start=int, add=int.__add__).capture("results")
    with tw.run(flow, engine="local") as job:
        (instance,) = (
            instance
            for core in job._cores  # type: ignore[attr-defined]
            for instance in core._instances
            if instance.name == "accumulate"
        )
        job.wait()
        assert instance.kept.by_key == {"kept": {0: sum(range(0, 20, 2)), 1: sum(range(1, 20, 2))}}
        assert instance.kept.states == {"epochs": {}}


def test_an_add_that_returns_nothing_is_an_error() -> None:
    """The error names operator and time."""
    with raises(tw.JobError):
        run(lambda stream: stream.accumulate(lambda n: n, start=list, add=list.append), Case([(3, [5])]))
