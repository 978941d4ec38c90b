"""State machine: state by key that ends, and any number of results for each record."""

from typing import Any

import numpy as np
import pytest

import tidewheel as tw
from tests.kit.operators.harness import Case, bags, run
from tests.kit.operators.operator_case import number_of


def three_of_a_kind(key: int, seen: list[int], record: Any) -> tuple[bool, list[tuple[int, ...]]]:
    """Gather numbers of a remainder; with the third, send them and begin anew."""
    seen.append(number_of(record))
    return (True, [(key, *seen)]) if len(seen) == 3 else (False, [])


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


@pytest.mark.parametrize("returned", [None, 7, (True,), (None, []), ([1], True), (True, 7), (True, None)])
def test_a_step_that_returns_something_else_is_an_error(returned: Any) -> None:
    """The error names operator and time, and shows what was returned for which record of which key."""
    message = (
        r"operator 'state_machine' failed on worker 0 at time 3: TypeError: step must return a pair .*, not .*, for"
    )
    with pytest.raises(tw.JobError, match=message + " the record 5 of the key 1"):
        run(lambda stream: stream.state_machine(lambda n: 1, int, lambda key, state, n: returned), Case([(3, [5])]))
