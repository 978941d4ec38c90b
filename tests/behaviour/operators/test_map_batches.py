"""The map_batches operator."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import ARRAYS, TABLES, Case, bags, cases, expected, operator_settings, run


@operator_settings()
@given(cases())
def test_batches_reach_the_function_as_they_are(case: Case) -> None:
    """The function gets whole batches of the kind that was sent, and what it returns goes on as it is."""
    seen: list[Any] = []

    def keep(batch: Any) -> Any:
        seen.append(batch)
        return batch

    results = run(lambda stream: stream.map_batches(keep), case)
    assert {type(batch) for batch in seen} <= {type(case.kind.make([]))}
    assert {id(result.batch) for result in results} == {id(batch) for batch in seen}
    assert bags(results, case.kind) == expected(case.feed)


@operator_settings(10)
@given(cases(TABLES))
def test_arrow_stays_arrow(case: Case) -> None:
    """A columnar function never sees a Python record."""

    def double(table: Any) -> Any:
        return pa.table({"n": pa.array(table["n"].to_numpy() * 2)})

    results = run(lambda stream: stream.map_batches(double), case)
    assert bags(results, TABLES) == expected(case.feed, lambda numbers: [2 * number for number in numbers])


@pytest.mark.parametrize("nothing", [[], pa.table({"n": pa.array([], pa.int64())}), np.empty(0)])
def test_an_empty_result_is_not_sent(nothing: Any) -> None:
    """A function that has nothing to say for a batch says so by an empty batch of any kind."""
    assert run(lambda stream: stream.map_batches(lambda _: nothing), Case([(0, [1])], ARRAYS)) == []


@pytest.mark.parametrize("result", [None, (1, 2), 7, "text", {1: 2}, np.array(3)])
def test_a_result_that_is_no_batch_is_an_error(result: Any) -> None:
    """The error names operator, worker and time, and says what a batch is."""
    message = r"'map_batches' failed on worker 0 at time 4: TypeError: a batch is a list, .*single record"
    with pytest.raises(tw.JobError, match=message):
        run(lambda stream: stream.map_batches(lambda _: result), Case([(4, [1])]))
