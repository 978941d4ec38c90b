"""The map operator."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import Case, bags, cases, expected, operator_settings, run
from tests.kit.operators.operator_case import OperatorCase, each_epoch, number_of

CASES = [
    OperatorCase(
        "map",
        lambda stream: stream.map(lambda record: 3 * number_of(record) - 1),
        each_epoch(lambda numbers: [3 * number - 1 for number in numbers]),
    )
]


@operator_settings()
@given(cases())
def test_map_is_pythons_map(case: Case) -> None:
    """Each record is replaced once, at its time, however the input is split, whatever the kind of batch."""
    results = run(lambda stream: stream.map(lambda record: case.kind.number(record) * 2 + 1), case)
    assert bags(results) == expected(case.feed, lambda numbers: [number * 2 + 1 for number in numbers])


def test_map_keeps_order_and_batches() -> None:
    """On one worker, records come out in the order in which they went in, a batch for a batch."""
    case = Case([(0, [3, 1, 2]), (0, [5]), (1, [4])])
    results = run(lambda stream: stream.map(str), case)
    assert [(result.time, result.batch) for result in results] == [(0, ["3", "1", "2"]), (0, ["5"]), (1, ["4"])]


async def fetched(number: int) -> int:
    return number


class Fetching:
    """A function with state, whose call is async."""

    async def __call__(self, number: int) -> int:
        """Return the number."""
        return number


@pytest.mark.parametrize("function", [fetched, partial(fetched), Fetching()])
@pytest.mark.parametrize("name", ["map", "filter", "flat_map", "inspect", "try_map"])
def test_a_function_that_is_async_is_refused(name: str, function: Any) -> None:
    """The records would be coroutines that no code awaits; the error names the operator that does."""
    stream = tw.Dataflow("test").input("numbers")
    with pytest.raises(tw.GraphError, match=rf"^{name} takes .* is async: stream\.map_async\(function\) calls it"):
        getattr(stream, name)(function)
    stream.map_async(function)
