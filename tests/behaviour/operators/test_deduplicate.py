"""Deduplicate: the first record of each key, of all epochs."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.batches.batches import records


def deduplicated(*batches: Any, workers: int = 1, key: Any = None, order: Any = None) -> list[Any]:
    """Return what passes of some batches of one epoch."""
    flow = tw.Dataflow("test")
    stream = flow.source("records", tw.IterableSource([[(0, batch)] for batch in batches]))
    stream.deduplicate(key, order).capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait()
        return [record for result in job.captured("results") for record in records(result.batch)]


@pytest.mark.parametrize("order", [None, lambda visit: visit[1]], ids=["none", "time"])
def test_which_of_several_is_first_does_not_depend_on_how_they_came(order: Any) -> None:
    """The order decides, and where it leaves a choice the content, on any number of workers."""
    visits = [("ann", 3, "x"), ("ann", 2, "y"), ("bob", 5, "x"), ("ann", 2, "z"), ("bob", 5, "y")]
    found = set()
    for turn in range(len(visits)):
        turned = visits[turn:] + visits[:turn]
        for workers in (1, 2):
            passed = deduplicated(turned[:2], turned[2:], workers=workers, key=lambda visit: visit[0], order=order)
            found.add(tuple(sorted(passed)))
    ((ann, bob),) = found
    assert (ann[0], bob[0]) == ("ann", "bob")
    assert order is None or ann[1] == 2


def test_the_epoch_decides_and_not_the_arrival() -> None:
    """A record of a later epoch that is there first waits for the earlier epoch's."""
    flow = tw.Dataflow("test")
    late = tw.IterableSource([[(2, ["a", "b"])]])
    early = tw.IterableSource([[(0, []), (0, []), (0, []), (1, ["a"])]])
    flow.source("late", late).concat(flow.source("early", early)).deduplicate().capture("results")
    with tw.run(flow, engine="local") as job:
        job.wait()
        assert job.captured("results") == [tw.types.Captured(1, ["a"]), tw.types.Captured(2, ["b"])]


def test_whole_records_of_any_kind_are_compared() -> None:
    """Rows, lists and NaN, from tables and lists alike."""
    table = pa.table({"a": [1, 1, None], "b": [[1], [1], [2]]})
    assert sorted(map(str, deduplicated(table, table.to_pylist(), workers=2))) == [
        "{'a': 1, 'b': [1]}",
        "{'a': None, 'b': [2]}",
    ]
    assert sorted(deduplicated(np.array([[1, 2], [1, 2], [3, 4]]))) == [[1, 2], [3, 4]]
    assert len(deduplicated([math.nan], [float("nan"), math.nan], workers=2)) == 1
    assert len(deduplicated([(math.nan, 1)], [(float("nan"), 1)], workers=2)) == 1


def test_what_cannot_be_a_key_fails_the_job() -> None:
    """The error says what it is, the record or the result of the function."""
    with raises(tw.JobError):
        deduplicated([{1}])
    with raises(tw.JobError):
        deduplicated([1], key=lambda n: [n])


def test_names_find_the_fields_of_structured_arrays() -> None:
    """For the key and the order."""
    array = np.array([(1, 7), (1, 5), (2, 3)], dtype=[("k", "i8"), ("n", "i8")])
    assert sorted(deduplicated(array, key="k", order="n")) == [(1, 5), (2, 3)]


def test_equal_float_keys_are_one_and_the_order_decides() -> None:
    """Of 0.0 and -0.0 in a column, and of NaN with other bits, the first in order passes."""
    nans = np.array([0xFFF8000000000001, 0x7FF8000000000000], np.uint64).view(np.float64)
    for values, ns in (([0.0, -0.0, 1.0, *nans], [2, 1, 3, 5, 4]), ([-0.0, 0.0, 1.0, *nans], [1, 2, 3, 4, 5])):
        table = pa.table({"x": values, "n": ns})
        for batch in (table, table.to_pylist(), table.to_batches()[0]):
            for workers in (1, 2):
                passed = deduplicated(batch, workers=workers, key="x", order="n")
                assert sorted(row["n"] for row in passed) == [1, 3, 4]


def test_times_that_would_be_merged_are_refused() -> None:
    """Python's times of day have no nanoseconds."""
    table = pa.table({"x": pa.array([1, 2], pa.time64("ns"))})
    with raises(tw.JobError):
        deduplicated(table, key="x")
