"""Top k: the greatest records of an epoch, or of each key in it."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.batches.batches import records


def greatest(stream_of: Any, *batches: Any, workers: int = 2) -> list[Any]:
    """Return the batches that come out for some of one epoch."""
    flow = tw.Dataflow("test")
    stream_of(flow.source("records", tw.IterableSource([[(0, batch)] for batch in batches]))).capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait()
        return [result.batch for result in job.captured("results")]


def test_the_greatest_come_first_as_one_batch() -> None:
    """In descending order; where keys are, the records of each key are together."""
    assert greatest(lambda stream: stream.top_k(3), [3, 1, 4], [1, 5, 9]) == [[9, 5, 4]]
    found = greatest(lambda stream: stream.top_k(2, key=lambda n: n % 2), [3, 1, 4, 2], [6, 5, 9], workers=1)
    assert found == [[9, 5, 6, 4]]


@pytest.mark.parametrize("workers", [1, 2])
def test_columns_stay_columns(workers: int) -> None:
    """Tables are never taken apart, whether keys and order are columns or functions; null is a key."""
    table = pa.table({"k": ["a", "b", "a", None, "a", None], "v": [1, 5, 3, 2, 2, None], "o": [1, 1, 1, 1, 1, 1]})
    expected = ["('a', 2, 1)", "('a', 3, 1)", "('b', 5, 1)", "(None, 2, 1)", "(None, None, 1)"]
    for key in ("k", ("k", "o")):
        found = greatest(lambda stream, by=key: stream.top_k(2, key=by, order="v"), table, workers=workers)
        assert all(isinstance(batch, pa.Table) for batch in found)
        assert sorted(str(tuple(row.values())) for batch in found for row in batch.to_pylist()) == expected
    found = greatest(lambda stream: stream.top_k(2, key=lambda row: row["k"], order=lambda row: row["v"] or 0), table)
    assert all(isinstance(batch, pa.Table) for batch in found)
    assert sorted(str(tuple(row.values())) for batch in found for row in batch.to_pylist()) == expected


def test_no_more_travels_than_can_matter() -> None:
    """A worker sends as many records as are asked for, of all that it has."""
    flow = tw.Dataflow("test")
    source = tw.IterableSource([[(0, list(range(start, start + 500))) for start in range(0, 10_000, 500)]])
    flow.source("numbers", source).top_k(7).capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait()
        assert job.captured("results") == [tw.types.Captured(0, list(range(9999, 9992, -1)))]
        assert sum(edge.records for edge in job.statistics().edges if edge.target.endswith("'top_k'")) == 7


def test_which_of_equal_ones_are_taken_does_not_depend_on_how_they_came() -> None:
    """Their content decides."""
    words = ["tide", "wheel", "time", "flow", "loop", "data", "ray", "epoch"]
    found = set()
    for turn in range(len(words)):
        turned = words[turn:] + words[:turn]
        for workers in (1, 2):
            (batch,) = greatest(lambda stream: stream.top_k(3, order=len), turned[:5], turned[5:], workers=workers)
            found.add(tuple(batch))
            rows = [pa.table({"w": part, "n": list(map(len, part))}) for part in (turned[:5], turned[5:])]
            (batch,) = greatest(lambda stream: stream.top_k(3, order="n"), *rows, workers=workers)
            found.add(tuple(batch["w"].to_pylist()))
    assert len(found) <= 2, "lists choose by one rule and tables by another, each always the same"
    assert all(taken[:2] in {("wheel", "epoch"), ("epoch", "wheel")} for taken in found)


def test_a_structured_array_is_ranked_by_its_fields() -> None:
    """And stays an array."""
    array = np.array([(1, 2.5), (1, 0.5), (2, 4.0)], dtype=[("k", "i8"), ("v", "f8")])
    (batch,) = greatest(lambda stream: stream.top_k(1, order="v"), array)
    assert batch.tolist() == [(2, 4.0)]
    found = greatest(lambda stream: stream.top_k(1, key="k", order=lambda record: record[1]), array)
    assert sorted(record for part in found for record in records(part)) == [(1, 2.5), (2, 4.0)]


def test_a_column_that_is_not_there_fails_the_job() -> None:
    """The error says which one."""
    with raises(tw.JobError):
        greatest(lambda rows: rows.top_k(1, key="b", order="a"), pa.table({"a": [1]}))


def test_nan_is_never_among_the_greatest() -> None:
    """While there is something else, in every kind of batch, wherever it stands; and also in tuples."""
    for turn in range(4):
        numbers = [3.0, math.nan, 1.0, 2.0]
        numbers = numbers[turn:] + numbers[:turn]
        array = np.array([(n,) for n in numbers], [("n", "f8")])
        for k, expected in ((1, ["3.0"]), (4, ["3.0", "2.0", "1.0", "nan"])):
            for batch in (numbers, np.array(numbers), array, pa.table({"n": numbers}), [(0, n) for n in numbers]):
                (found,) = greatest(lambda stream, k=k: stream.top_k(k), batch, workers=1)
                assert [str(record).strip("(),") for record in map(last, records(found))] == expected


def last(record: Any) -> Any:
    if isinstance(record, dict):
        return record["n"]
    return record[-1] if isinstance(record, tuple) else record


def test_names_find_the_fields_of_structured_arrays() -> None:
    """For the key and for the order, or one of them by a function; also beside a table."""
    array = np.array([(1, 5), (1, 7), (2, 3)], dtype=[("k", "i8"), ("n", "i8")])
    beside = pa.table({"k": [2, 1], "n": [4, 6]})
    for key in ("k", lambda row: row["k"] if isinstance(row, dict) else row[0]):
        for batches, expected in (((array,), [(1, 7), (2, 3)]), ((array, beside), [(1, 7), (2, 4)])):
            found = greatest(lambda stream, key=key: stream.top_k(1, key=key, order="n"), *batches, workers=1)
            rows = [record for batch in found for record in records(batch)]
            assert sorted(tuple(row.values()) if isinstance(row, dict) else row for row in rows) == expected
    objects = array.astype([("k", "i8"), ("n", object)])
    (batch,) = greatest(lambda stream: stream.top_k(1, key="k", order="n"), objects, workers=1)
    assert sorted(batch.tolist()) == [(1, 7), (2, 3)]


def test_equal_float_keys_are_one_in_columns_too() -> None:
    """0.0 and -0.0 are, and NaN whatever its bits are."""
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    table = pa.table({"x": [0.0, -0.0, 1.0, *nans], "n": [2, 3, 1, 5, 4]})
    found = greatest(lambda stream: stream.top_k(1, key="x", order="n"), table, workers=1)
    assert sorted(n for batch in found for n in batch["n"].to_pylist()) == [1, 3, 5]
