"""The with_schema operator, and what is done with schemas that are known."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.unit.operators.operator_case import ONLY_ARROW, OperatorCase, each_epoch

CASES = [
    OperatorCase(
        "with_schema",
        lambda stream: stream.with_schema(pa.schema({"n": pa.int64()})),
        each_epoch(list),
        ONLY_ARROW,
    )
]

SCHEMA = pa.schema({"word": pa.string(), "n": pa.int64()})


def passed(batch: Any) -> Any:
    """Return what comes of one batch."""
    flow = tw.Dataflow("test")
    flow.source("rows", tw.IterableSource([[(3, batch)]])).with_schema(SCHEMA).capture("results")
    with tw.run(flow, engine="local") as job:
        job.wait()
        (captured,) = job.captured("results")
    return captured.batch


def test_a_batch_that_has_it_goes_on_as_it_is() -> None:
    """The very object; metadata and which columns may be null do not count."""
    rows = pa.table({"word": ["a"], "n": [1]})
    assert passed(rows) is rows
    schema = pa.schema([pa.field("word", pa.string(), nullable=False), pa.field("n", pa.int64())], {"made": "here"})
    assert passed(rows.cast(schema)).schema.equals(schema, check_metadata=True)


def test_a_structured_array_becomes_a_table() -> None:
    """Of what was promised."""
    array = np.array([("a", 1)], dtype=[("word", "U1"), ("n", "i8")])
    assert passed(array).equals(pa.table({"word": ["a"], "n": [1]}))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([("a", 1)], r"a list came, where an Arrow table is expected with \(word: string, n: int64\)"),
        (np.arange(3), "an array of int64 has no columns"),
        (pa.table({"word": ["a"]}), r"column 'n' is missing; a batch came with \(word: string\), \(word: string, n"),
        (pa.table({"word": ["a"], "n": [1], "m": [2]}), "column 'm' is one too many"),
        (pa.table({"n": [1], "word": ["a"]}), "the columns are in another order"),
        (pa.table({"word": ["a"], "n": [1.0]}), "column 'n' is double, not int64; a batch came with"),
        (pa.table([["a"], [1], [2]], names=["word", "n", "n"]), "column 'n' is one too many"),
    ],
)
def test_a_batch_that_has_not_fails_the_job(batch: Any, message: str) -> None:
    """The error names operator, worker, time, the column, what came and what was expected."""
    with pytest.raises(tw.JobError, match=f"'with_schema' failed on worker 0 at time 3: TypeError: {message}"):
        passed(batch)


def test_a_promise_that_is_none_is_refused() -> None:
    """It takes a schema, and one that does not contradict what is known."""
    stream = tw.Dataflow("test").input("rows", SCHEMA)
    assert stream.with_schema(SCHEMA).schema == SCHEMA
    with pytest.raises(tw.GraphError, match=r"'with_schema' takes a pyarrow\.Schema, not 'n'"):
        stream.with_schema("n")  # type: ignore[arg-type,unused-ignore]
    with pytest.raises(tw.GraphError, match=r"the stream has \(word: string, n: int64\), and not \(n: int64\)"):
        stream.with_schema(pa.schema({"n": pa.int64()}))


def test_an_exchange_by_a_column_that_is_not_there_is_refused() -> None:
    """The error names the operator, the column and those there are."""
    stream = tw.Dataflow("test").input("rows", SCHEMA)
    with pytest.raises(tw.GraphError, match=r"'exchange': there is no column 'm'; the stream has \(word: string, n:"):
        stream.exchange(("word", "m"))


def test_what_is_known_goes_where_records_go_unchanged() -> None:
    """Other operators make records of which nothing is known."""
    stream = tw.Dataflow("test").input("rows", SCHEMA)
    for same in (stream.exchange("n"), stream.broadcast(), stream.rebalance(), stream.filter(bool)):
        assert same.schema == SCHEMA
    assert stream.map(len).schema is None
