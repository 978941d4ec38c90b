"""The select operator."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidewheel as tw

ROWS = pa.table({"n": pa.array([1, 2, None], pa.int32()), "word": ["a", "b", "c"]})


def selected(batch: Any, *names: str, **expressions: Any) -> Any:
    """Return what select makes of one batch."""
    flow = tw.Dataflow("test")
    flow.source("rows", tw.IterableSource([[(3, batch)]])).select(*names, **expressions).capture("results")
    with tw.run(flow, engine="local") as job:
        job.wait()
        (captured,) = job.captured("results")
    return captured.batch


def rows_of(schema: pa.Schema | None = None) -> tw.Stream[Any]:
    stream = tw.Dataflow("test").input("rows")
    return stream if schema is None else stream.with_schema(schema)


def test_columns_that_are_only_named_are_not_touched() -> None:
    """They are in the order in which they are named, and their memory is that of the columns that came."""
    result = selected(ROWS, "word", "n")
    assert result.equals(ROWS.select(["word", "n"]))
    for name in ROWS.column_names:
        came, went = ROWS[name].chunk(0), result[name].chunk(0)
        assert [b and b.address for b in went.buffers()] == [b and b.address for b in came.buffers()]


def test_expressions_are_arrows() -> None:
    """Each gives what the same function of Arrow's makes of the columns, with its type; nulls stay null."""
    upper = pc.utf8_upper(pc.field("word"))
    result = selected(ROWS, "n", up=upper, half=pc.field("n").cast("float64") / 2, one=pc.scalar(1))
    assert result.equals(
        pa.table(
            {
                "n": ROWS["n"],
                "up": ["A", "B", "C"],
                "half": [0.5, 1.0, None],
                "one": [1, 1, 1],
            }
        )
    )


def test_many_rows_stay_in_order() -> None:
    """What was worked out stands beside the rows that it was worked out of."""
    numbers = np.arange(100_000)
    result = selected(pa.table({"n": numbers}), "n", twice=pc.field("n") * 2)
    assert (result["n"].to_numpy() == numbers).all()
    assert (result["twice"].to_numpy() == 2 * numbers).all()


def test_structured_arrays_have_columns_too() -> None:
    """A field that is only named costs nothing; with expressions a table comes of it."""
    array = np.array([(1, 2.5), (2, 3.5)], dtype=[("n", "i8"), ("x", "f8")])
    kept = selected(array, "x")
    assert kept.dtype.names == ("x",)
    assert np.shares_memory(kept, array)
    assert selected(array, "n", y=pc.field("x") * 2).to_pydict() == {"n": [1, 2], "y": [5.0, 7.0]}


def test_the_schema_is_handed_on() -> None:
    """What is known of the columns goes through select, filter and exchange."""
    rows = rows_of(ROWS.schema)
    assert rows.schema == ROWS.schema
    made = rows.select("word", double=pc.field("n") * 2).filter(pc.field("double") > 2).exchange("word")
    assert made.schema == pa.schema({"word": pa.string(), "double": pa.int32()})
    assert rows_of().select("word").schema is None


@pytest.mark.parametrize(
    ("names", "expressions", "message"),
    [
        (["m"], {}, "'select': there is no column 'm'; the stream has \\(n: int32, word: string\\)"),
        ([3], {}, "the name of a column is a non-empty string, not 3"),
        ([], {}, "no column is asked for"),
        (["n", "n"], {}, "'n' is asked for twice"),
        (["n"], {"n": pc.field("n") * 2}, "'n' is asked for twice"),
        ([], {"m": 3}, "'m' is an expression of pyarrow.compute, .*, not 3"),
        ([], {"m": pc.field("q") * 2}, "m = .*q.* is not possible with the columns \\(n: int32, word: string\\): .*q"),
        (["word"], {"n": pc.field("n"), "m": pc.field("word") * 2}, "m = .*word.* is not possible .*: Function"),
    ],
)
def test_what_does_not_fit_is_refused_beforehand(names: list[Any], expressions: Any, message: str) -> None:
    """With a schema that is known, an error at the call names operator, column and the columns there are."""
    with pytest.raises(tw.GraphError, match=message):
        rows_of(ROWS.schema).select(*names, **expressions)


@pytest.mark.parametrize(
    ("batch", "expressions", "message"),
    [
        ([1, 2], {}, "TypeError: a list has no columns"),
        (np.arange(2), {}, "TypeError: an array of int64 has no columns"),
        (pa.table({"m": [1]}), {}, "TypeError: there is no column 'n'; a batch came with \\(m: int64\\)"),
        (pa.table([[1], [2]], names=["n", "n"]), {}, "TypeError: there are 2 columns 'n'"),
        (np.zeros(1, dtype=[("m", "i8")]), {}, "TypeError: there is no column 'n'"),
        (ROWS, {"x": pc.field("n"), "y": pc.field("word") + 1}, "ValueError: y = .* is not possible with the columns"),
        (ROWS, {"x": pc.field("n") / 0}, "ValueError: x = .* is not possible with .*: divide by zero"),
    ],
)
def test_what_does_not_fit_fails_the_job(batch: Any, expressions: Any, message: str) -> None:
    """Without, an error names operator, worker, time, column, and what came."""
    with pytest.raises(tw.JobError, match=f"'select' failed on worker 0 at time 3: {message}"):
        selected(batch, "n", **expressions)
