"""State machine: state by key that ends, and any number of results for each record."""

from typing import Any

import numpy as np
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Bags, Case, Feed, bags, run
from tests.kit.operators.operator_case import OperatorCase, by_time, number_of


def three_of_a_kind(key: int, seen: list[int], record: Any) -> tuple[bool, list[tuple[int, ...]]]:
    """Gather numbers of a remainder; with the third, send them and begin anew."""
    seen.append(number_of(record))
    return (True, [(key, *seen)]) if len(seen) == 3 else (False, [])


def triples(feed: Feed) -> Bags:
    seen: dict[int, list[int]] = {}
    made: list[tw.types.Captured] = []
    for time, numbers in by_time(feed).items():
        for number in sorted(numbers):
            group = seen.setdefault(number % 2, [])
            group.append(number)
            if len(group) == 3:
                made.append(tw.types.Captured(time, [(number % 2, *seen.pop(number % 2))]))
    return bags(made)


CASES = [
    OperatorCase(
        "state_machine",
        lambda stream: stream.state_machine(lambda record: number_of(record) % 2, list, three_of_a_kind, number_of),
        triples,
    )
]


def test_a_key_that_is_done_is_forgotten() -> None:
    """Its next record finds a new state, and nothing is kept meanwhile."""
    flow = tw.Dataflow("test")
    numbers = flow.source("numbers", tw.IterableSource([[(time, [1, 1, 1]) for time in range(3)]]))
    numbers.state_machine(lambda n: n % 2, list, three_of_a_kind).capture("results")
    with tw.run(flow, engine="local") as job:
        (instance,) = (
            instance
            for core in job._cores  # type: ignore[attr-defined]
            for instance in core._instances
            if instance.name == "state_machine"
        )
        job.wait()
        assert [result.batch for result in job.captured("results")] == [[(1, 1, 1, 1)]] * 3
        assert instance.kept.by_key == {"kept": {}}
        assert instance.kept.states == {"epochs": {}}


def test_outputs_may_be_any_iterable() -> None:
    """A generator too; and what says whether a key is done may be NumPy's."""

    def repeat(key: int, state: list[int], number: int) -> tuple[Any, Any]:
        return np.bool_(number > 1), (key for _ in range(number))

    results = run(lambda stream: stream.state_machine(lambda n: n, list, repeat), Case([(0, [1, 2, 3])]))
    assert bags(results) == {0: {1: 1, 2: 2, 3: 3}}


def test_in_a_loop_an_epochs_rounds_come_before_the_next_epoch() -> None:
    """The loop ends when all keys are done; the next epoch begins with what the one before has left."""

    def until_known(key: int, known: set[int], number: int) -> tuple[bool, list[int]]:
        new = number not in known
        known.add(number)
        return False, [number] if new else []

    def body(stream: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        new = stream.state_machine(lambda n: 0, set, until_known, lambda n: n)
        return new.map(lambda n: n * 3 % 10), new

    results = run(lambda stream: stream.iterate(body), Case([(0, [1]), (1, [2]), (2, [7, 4])], workers=2))
    assert bags(results) == {0: {1: 1, 3: 1, 9: 1, 7: 1}, 1: {2: 1, 6: 1, 8: 1, 4: 1}}


@pytest.mark.parametrize("which", ["key", "start", "step", "order"])
def test_an_argument_that_is_none_is_refused(which: str) -> None:
    """The error says which it was."""
    stream: tw.Stream[int] = tw.Dataflow("test").input("numbers")
    arguments: dict[str, Any] = {"key": "n", "start": int, "step": divmod, "order": "n", which: 0}
    with raises(tw.GraphError):
        stream.state_machine(**arguments)


@pytest.mark.parametrize("returned", [None, 7, (True,), (None, []), ([1], True), (True, 7), (True, None)])
def test_a_step_that_returns_something_else_is_an_error(returned: Any) -> None:
    """The error names operator and time, and shows what was returned for which record of which key."""
    message = (
        r"operator 'state_machine' failed on worker 0 at time 3: TypeError: step must return a pair .*, not .*, for"
    )
    with pytest.raises(tw.JobError, match=message + " the record 5 of the key 1"):
        run(lambda stream: stream.state_machine(lambda n: 1, int, lambda key, state, n: returned), Case([(3, [5])]))
