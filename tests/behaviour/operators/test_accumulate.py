"""Accumulate: the state of each key over all epochs, at each."""

from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Bags, Case, Feed, bags, run
from tests.kit.operators.operator_case import ONLY_ARROW, OperatorCase, by_time, number_of


def totals(feed: Feed) -> Bags:
    """Return (remainder, total so far) of each epoch's remainders."""
    found: dict[int, int] = {}
    made: Bags = {}
    for time, numbers in by_time(feed).items():
        for number in numbers:
            found[number % 3] = found.get(number % 3, 0) + number
        made[time] = bags([tw.types.Captured(time, [(key, found[key]) for key in {n % 3 for n in numbers}])])[time]
    return made


def counts(feed: Feed) -> Bags:
    """Return how often each number of an epoch has come so far."""
    times = by_time(feed)
    return bags(
        tw.types.Captured(time, [(n, sum(times[t].count(n) for t in times if t <= time)) for n in set(numbers)])
        for time, numbers in times.items()
    )


CASES = [
    OperatorCase(
        "accumulate",
        lambda stream: stream.accumulate(
            lambda record: number_of(record) % 3, start=int, add=lambda total, record: total + number_of(record)
        ),
        totals,
    ),
    OperatorCase(
        "accumulate",
        lambda stream: stream.accumulate(
            "n", start=int, add=lambda many, row: many + 1, finish=lambda key, many: (key, many)
        ),
        counts,
        kinds=ONLY_ARROW,
        name="column",
    ),
]


def no_walks() -> tuple[tuple[int, int], ...]:
    return ()


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


def test_in_a_loop_an_epochs_rounds_come_before_the_next_epoch() -> None:
    """Also when the next epoch's first round is complete long before."""

    def body(stream: tw.Stream[tuple[int, int]]) -> tuple[tw.Stream[tuple[int, int]], tw.Stream[Any]]:
        seen = stream.accumulate(
            lambda walk: 0, start=no_walks, add=lambda state, walk: (*state, walk), finish=lambda _, state: state
        )
        return stream.filter(lambda walk: walk[1] > 0).map(lambda walk: (walk[0], walk[1] - 1)), seen

    results = run(
        lambda stream: stream.map(lambda n: (n, n)).iterate(body), Case([(0, [3]), (1, [1]), (2, [2])], workers=2)
    )
    order = [(3, 3), (3, 2), (3, 1), (3, 0), (1, 1), (1, 0), (2, 2), (2, 1), (2, 0)]
    seen = sorted((len(state), result.time, state) for result in results for state in result.batch)
    assert [(time, state) for _, time, state in seen] == [
        ((0 if size <= 4 else 1 if size <= 6 else 2), tuple(order[:size])) for size in range(1, 10)
    ]


@pytest.mark.parametrize("which", ["key", "start", "add", "finish"])
def test_what_is_no_function_is_refused(which: str) -> None:
    """The error says which argument it was."""
    stream: tw.Stream[int] = tw.Dataflow("test").input("numbers")
    arguments: dict[str, Any] = {"key": "n", "start": int, "add": int.__add__, "finish": divmod, which: 0}
    with pytest.raises(tw.GraphError, match=f"accumulate(, for {which}, takes|': a key is) a function.*not 0"):
        stream.accumulate(**arguments)


def test_an_add_that_returns_nothing_is_an_error() -> None:
    """The error names operator and time."""
    with raises(tw.JobError):
        run(lambda stream: stream.accumulate(lambda n: n, start=list, add=list.append), Case([(3, [5])]))
