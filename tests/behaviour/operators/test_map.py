"""The map operator."""

from functools import partial
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.operators.harness import Case, run


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
def test_a_function_that_is_async_is_refused(function: Any) -> None:
    """The records would be coroutines that no code awaits; the error names the operator that does."""
    stream = tw.Dataflow("test").input("numbers")
    with pytest.raises(tw.GraphError, match=r"^map takes .* is async: stream\.map_async\(function\) calls it"):
        stream.map(function)
    stream.map_async(function)
