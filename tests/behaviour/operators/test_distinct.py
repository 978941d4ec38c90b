"""Distinct: each record once an epoch."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.batches.batches import records


def distinct(*batches: Any, workers: int = 2) -> list[Any]:
    """Return the batches that come out for some of one epoch."""
    flow = tw.Dataflow("test")
    flow.source("records", tw.IterableSource([[(0, batch)] for batch in batches])).distinct().capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait()
        return [result.batch for result in job.captured("results")]


def test_rows_are_equal_in_all_columns() -> None:
    """Null is equal to null and NaN to NaN; nested columns, which Arrow's kernels do not compare, are compared too."""
    flat = pa.table({"a": [1, 1, None, None], "b": [math.nan, math.nan, 1.0, 1.0]})
    (result,) = distinct(flat, flat, workers=1)
    assert sorted(map(str, result.to_pylist())) == ["{'a': 1, 'b': nan}", "{'a': None, 'b': 1.0}"]
    nested = pa.table({"a": [[1], [1], [2]], "b": [{"c": 1}, {"c": 1}, {"c": 1}]})
    found = distinct(nested, nested)
    assert all(batch.schema == nested.schema for batch in found)
    assert sorted(str(row) for batch in found for row in batch.to_pylist()) == [
        "{'a': [1], 'b': {'c': 1}}",
        "{'a': [2], 'b': {'c': 1}}",
    ]


@pytest.mark.parametrize(
    "batch",
    [
        ["a", "b", "a"],
        [(1, "a"), (1, "a")],
        [[1], [1], [2]],
        [{"n": 1}, {"n": 1}],
        [math.nan, float("nan"), 1.0],
        [(math.nan, 1), (float("nan"), 1)],
        np.array([math.nan, math.nan, 2.0]),
        np.array([(1, 2), (1, 2)], dtype=[("a", "i8"), ("b", "i8")]),
        np.array([[1, 2], [1, 2], [3, 4]]),
        np.array(["x", None, "x"], dtype=object),
    ],
    ids=str,
)
def test_any_records_are_compared(batch: Any) -> None:
    """Rows, lists, NaN, arrays of any shape: each record comes once, from whichever worker."""
    found = [str(record) for part in distinct(batch, batch) for record in records(part)]
    assert sorted(found) == sorted(set(map(str, records(batch))))


def test_kinds_of_batches_may_be_mixed() -> None:
    """A list of rows and a table have equal rows."""
    found = distinct([{"n": 1}, {"n": 2}], pa.table({"n": [2, 3]}))
    assert sorted(row["n"] for batch in found for row in records(batch)) == [1, 2, 3]


def test_a_record_that_cannot_be_compared_is_named() -> None:
    """The error says which record, and in which operator."""
    with raises(tw.JobError):
        distinct([{1}, {1}])


def test_equal_numbers_are_one_in_columns_too() -> None:
    """0.0 and -0.0, and NaN whatever its bits are, as in lists."""
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    for kind in (pa.float64(), pa.float32(), pa.float16()):
        column = pa.array([0.0, -0.0, 1.0, *nans], pa.float64()).cast(kind, safe=False)
        found = distinct(pa.table({"x": column}), workers=2)
        assert all(batch.schema.field("x").type == kind for batch in found)
        assert sorted(str(row["x"]) for batch in found for row in batch.to_pylist()) == ["0.0", "1.0", "nan"]


def test_what_is_no_flat_column_stays_what_it_is() -> None:
    """Structured arrays and those of several dimensions stay arrays, with columns to go on with."""
    array = np.array([(1, math.nan), (1, math.nan), (2, 0.5)], dtype=[("k", "i8"), ("x", "f8")])
    for batch, count in ((array, 2), (np.array([[1, 2], [1, 2], [3, 4]]), 2), (np.array(["x", None, "x"], object), 2)):
        (found,) = distinct(batch, workers=1)
        assert (type(found), found.dtype, found.shape) == (np.ndarray, batch.dtype, (count, *batch.shape[1:]))


def test_record_batches_go_on_as_columns() -> None:
    """What comes behind has columns to select, however many record batches there were."""
    flow = tw.Dataflow("test")
    parts = [(0, pa.record_batch({"n": range(start, start + 500), "m": [1] * 500})) for start in range(0, 2000, 500)]
    flow.source("rows", tw.IterableSource([parts])).distinct().select("n").capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait()
        found = [row["n"] for result in job.captured("results") for row in records(result.batch)]
    assert sorted(found) == list(range(2000))


def test_arrays_in_a_list_are_refused() -> None:
    """They cannot be compared as one record; the error names the first."""
    with raises(tw.JobError):
        distinct([np.array([1, 2]), np.array([1, 2])])
