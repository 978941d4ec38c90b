"""The filter operator on expressions of Arrow's."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidewheel as tw


def filtered(batch: Any, condition: Any) -> Any:
    """Return what is left of one batch."""
    flow = tw.Dataflow("test")
    flow.source("rows", tw.IterableSource([[(3, batch)]])).filter(condition).capture("results")
    with tw.run(flow, engine="local") as job:
        job.wait()
        return pa.concat_tables(captured.batch for captured in job.captured("results"))


def test_rows_for_which_it_is_null_are_not_kept() -> None:
    """The others are, with all columns, in their order."""
    rows = pa.table({"n": [5, None, 1, 7], "word": ["a", "b", "c", "d"]})
    assert filtered(rows, pc.field("n") > 2).equals(rows.take([0, 3]))


def test_structured_arrays_have_columns_too() -> None:
    """What is left of one is a table."""
    array = np.array([(1, 2.5), (2, 3.5)], dtype=[("n", "i8"), ("x", "f8")])
    assert filtered(array, pc.field("n") > 1).to_pydict() == {"n": [2], "x": [3.5]}


@pytest.mark.parametrize(
    ("condition", "message"),
    [(pc.field("m") > 2, "No match for FieldRef"), (pc.field("n"), "must evaluate to bool"), ("n", "takes a function")],
)
def test_what_is_no_condition_is_refused_beforehand(condition: Any, message: str) -> None:
    """With a schema that is known, an error at the call says so."""
    stream = tw.Dataflow("test").input("rows", pa.schema({"n": pa.int64()}))
    with pytest.raises(tw.GraphError, match=message):
        stream.filter(condition)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([1], "TypeError: a list has no columns"),
        (pa.table({"m": [1]}), r"ValueError: \(n > 2\) is not possible with the columns \(m: int64\)"),
        (pa.table({"n": ["a"]}), r"ValueError: \(n > 2\) is not possible with the columns \(n: string\)"),
    ],
)
def test_what_does_not_fit_fails_the_job(batch: Any, message: str) -> None:
    """Without, an error names operator, worker, time and what came."""
    with pytest.raises(tw.JobError, match=f"'filter' failed on worker 0 at time 3: {message}"):
        filtered(batch, pc.field("n") > 2)
