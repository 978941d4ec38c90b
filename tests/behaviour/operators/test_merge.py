"""Merge: several streams as one in order."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, operator_settings, run
from tests.kit.operators.two_sides import WORKERS, Feed, Row, row_feeds, rows_at, run_two, table_of
from tidewheel.batches.batches import records


@operator_settings(60)
@given(row_feeds([0, 1, 1.0, 2]), row_feeds([0, 1, 1.0, 2]), WORKERS)
def test_each_epoch_is_one_batch_in_order(left: Feed, right: Feed, workers: int) -> None:
    """Records come by (epoch, key, stream, content), in one batch an epoch, on any number of workers."""
    marked = [
        [(time, [Row(row.key, row.number + more) for row in rows]) for time, rows in feed]
        for feed, more in ((left, 0), (right, 10_000))
    ]
    (results,) = run_two(lambda one, other: [one.merge(other, by=lambda row: row.key)], (marked[0], marked[1]), workers)
    lefts, rights = (rows_at(feed) for feed in marked)
    assert len({result.time for result in results}) == len(results)
    assert [result.time for result in results] == sorted(result.time for result in results)
    for result in results:
        rows = lefts.get(result.time, []) + rights.get(result.time, [])
        in_order = sorted(result.batch, key=lambda row: (row.key, row.number >= 10_000))
        assert sorted(result.batch) == sorted(rows)
        assert [(row.key, row.number >= 10_000) for row in result.batch] == [
            (row.key, row.number >= 10_000) for row in in_order
        ]


@operator_settings(40)
@given(row_feeds([None, 0, 1, 2]), row_feeds([None, 0, 1, 2]), WORKERS)
def test_columns_are_compared_by_arrow(left: Feed, right: Feed, workers: int) -> None:
    """By names of columns it is Arrow that sorts, nulls last; equal rows come by stream."""

    def make(stream: int) -> Any:
        return lambda rows: table_of(pa.int64(), "k", "n")(rows).append_column(
            "s", pa.array([stream] * len(rows), pa.int8())
        )

    (results,) = run_two(lambda one, other: [one.merge(other, by="k")], (left, right), workers, (make(0), make(1)))
    lefts, rights = rows_at(left), rows_at(right)
    for result in results:
        rows = [(row.key, 0) for row in lefts.get(result.time, [])] + [
            (row.key, 1) for row in rights.get(result.time, [])
        ]
        last = sorted(rows, key=lambda row: (row[0] is None, row[0] or 0, row[1]))
        assert [(row["k"], row["s"]) for row in result.batch.to_pylist()] == last
    assert {result.time for result in results} == {
        time for side in (lefts, rights) for time, rows in side.items() if rows
    }


def test_fields_of_arrays_and_dicts_are_compared_by_name() -> None:
    """Structured arrays are merged as arrays, by several fields too; with dicts among them all become plain records."""

    def structured(rows: list[Row]) -> Any:
        return np.array([tuple(row) for row in rows], dtype=[("k", "i8"), ("n", "i8")])

    feeds: tuple[Feed, Feed] = ([(0, [Row(2, 1), Row(1, 2)])], [(0, [Row(1, 1), Row(2, 0)])])
    (results,) = run_two(lambda one, other: [one.merge(other, by=("k", "n"))], feeds, 1, (structured, structured))
    assert [result.batch.tolist() for result in results] == [[(1, 1), (1, 2), (2, 0), (2, 1)]]
    (results,) = run_two(
        lambda one, other: [one.merge(other, by="k")],
        feeds,
        1,
        (table_of(pa.int64(), "k", "n"), lambda rows: [row._asdict() | {"k": row.key} for row in rows]),
    )
    assert [row["k"] for row in results[0].batch] == [1, 1, 2, 2]
    assert isinstance(results[0].batch, list)


def test_records_that_cannot_be_compared_are_an_error() -> None:
    """The error names the operator, and what to do."""
    with raises(tw.JobError):
        run(lambda stream: stream.map(lambda n: n or None).merge(by=lambda n: n), Case([(0, [1, 0])]))


def test_nan_comes_last() -> None:
    """From whichever stream, in lists as in columns."""
    for make in (list, np.array, lambda numbers: pa.table({"n": numbers})):
        flow = tw.Dataflow("test")
        one, other = (
            flow.source(name, tw.IterableSource([[(0, make(numbers))]]))
            for name, numbers in (("one", [math.nan, 2.0]), ("other", [3.0, math.nan, 1.0]))
        )
        by: Any = "n" if make not in {list, np.array} else lambda number: number
        one.merge(other, by=by).capture("results")
        with tw.run(flow, engine="local") as job:
            job.wait()
            (result,) = job.captured("results")
        values = [row["n"] if isinstance(row, dict) else row for row in records(result.batch)]
        assert list(map(str, values)) == ["1.0", "2.0", "3.0", "nan", "nan"]


def test_an_array_beside_a_table_is_merged_by_name() -> None:
    """Its fields are columns there, whichever stream it comes from."""
    flow = tw.Dataflow("test")
    array = np.array([(3, 0), (1, 0)], dtype=[("n", "i8"), ("m", "i8")])
    one = flow.source("one", tw.IterableSource([[(0, array)]]))
    other = flow.source("other", tw.IterableSource([[(0, pa.table({"n": [2], "m": [1]}))]]))
    one.merge(other, by="n").capture("merged")
    with tw.run(flow, engine="local") as job:
        job.wait()
        (result,) = job.captured("merged")
    assert [row["n"] for row in records(result.batch)] == [1, 2, 3]
