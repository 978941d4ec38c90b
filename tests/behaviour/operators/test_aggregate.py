"""Aggregate: a state for each key and epoch, made at once or from partial states."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, run
from tests.kit.operators.operator_case import number_of


def remainder(record: Any) -> int:
    return number_of(record) % 3


def combine(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


def test_what_is_combined_travels_as_partial_states() -> None:
    """With `combine`, as many records leave a worker as it has keys, however many batches and records there are."""
    batches = [(0, list(range(100))) for _ in range(20)]
    flow = tw.Dataflow("test")
    stream = flow.source("numbers", tw.IterableSource([batches, batches]))
    stream.aggregate(remainder, start=int, add=lambda total, n: total + n, combine=int.__add__).capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait()
        results = [tuple(record) for result in job.captured("results") for record in result.batch]
        edges = [edge for edge in job.statistics().edges if edge.target.endswith("'aggregate'")]
    assert sorted(results) == [(key, 40 * sum(n for n in range(100) if n % 3 == key)) for key in range(3)]
    assert sum(edge.records for edge in edges) == 2 * 3


@pytest.mark.parametrize("combined", [False, True])
def test_several_names_make_a_tuple_and_nan_is_one_key(combined: bool) -> None:
    """Missing numbers of a column are one group, also as a part of a key, from whichever batch and worker."""
    table = pa.table({"a": [math.nan, math.nan, 1.0], "b": ["x", "x", "x"]})
    flow = tw.Dataflow("test")
    rows = flow.source("rows", tw.IterableSource([[(0, table), (0, table)], [(0, table)]]))
    add_one = lambda total, row: total + 1  # noqa: E731
    rows.aggregate(("a", "b"), start=int, add=add_one, combine=int.__add__ if combined else None).capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait()
        found = [record for result in job.captured("results") for record in result.batch]
    assert sorted((str(key), total) for key, total in found) == [("(1.0, 'x')", 3), ("(nan, 'x')", 6)]


def test_a_field_of_a_structured_array_is_a_key() -> None:
    """NumPy's records are tuples; the key is read from the field."""
    array = np.array([(1, 2.5), (1, 0.5), (2, 4.0)], dtype=[("k", "i8"), ("v", "f8")])
    flow = tw.Dataflow("test")
    rows = flow.source("rows", tw.IterableSource([[(0, array)]]))
    rows.aggregate("k", start=float, add=lambda total, row: total + row[1]).capture("results")
    with tw.run(flow, engine="local") as job:
        job.wait()
        assert job.captured("results") == [tw.types.Captured(0, [(1, 3.0), (2, 4.0)])]


def test_an_add_that_returns_nothing_is_an_error() -> None:
    """A state that was changed in place and not returned is found at once, and the error names operator and time."""
    message = r"(?s)operator 'aggregate' failed on worker 0 at time 3: TypeError: 5 was added to \[5\], and .* None"
    with pytest.raises(tw.JobError, match=message):
        run(lambda stream: stream.aggregate(lambda n: n, start=list, add=list.append), Case([(3, [5])]))


def test_a_combine_that_returns_nothing_is_an_error() -> None:
    """So are partial states that were not returned."""
    message = r"operator 'aggregate' failed on worker \d at time 3: TypeError: combine returned None for the key 1"
    flow = tw.Dataflow("test")
    numbers = flow.source("numbers", tw.IterableSource([[(3, [5])], [(3, [7])]]))
    numbers.aggregate(lambda n: 1, start=list, add=lambda state, n: [*state, n], combine=list.extend)  # type: ignore[misc]
    with pytest.raises(tw.JobError, match=message), tw.run(flow, workers=2, engine="local") as job:
        job.wait()


@pytest.mark.parametrize("combined", [False, True])
def test_a_key_that_cannot_be_hashed_is_named(combined: bool) -> None:
    """The error names the operator, the key or its type, and what a key can be."""
    message = r"(?s)operator 'aggregate.*\[5\] of type list cannot be a key"
    with pytest.raises(tw.JobError, match=message):
        run(
            lambda stream: stream.aggregate(
                lambda n: [n],
                start=int,
                add=int.__add__,
                combine=int.__add__ if combined else None,
            ),
            Case([(0, [5])]),
        )


def test_what_a_function_raises_is_told_with_operator_and_time() -> None:
    """A failing `finish` is reported at the time whose result it makes."""
    with raises(tw.JobError):
        run(
            lambda stream: stream.aggregate(
                lambda n: n, start=int, add=int.__add__, finish=lambda key, total: total // 0
            ),
            Case([(2, [5]), (4, [])]),
        )
