"""Count: how often each record, or key, comes in an epoch."""

import copy
import datetime
import math
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import bags
from tidewheel.operators.epochs.fold import MOST_KEPT


def counted(*batches: Any, workers: int = 1, key: Any = None) -> list[Any]:
    """Return what is counted in some batches of one epoch."""
    flow = tw.Dataflow("test")
    stream = flow.source("records", tw.IterableSource([[(0, batch)] for batch in batches]))
    stream.count(key).capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait()
        return [record for result in job.captured("results") for record in result.batch]


def test_words_are_counted() -> None:
    """The example that everyone begins with."""
    flow = tw.Dataflow("words")
    lines = flow.source("lines", tw.IterableSource([[(0, ["to be or"]), (1, ["to be"])], [(0, ["not to be"])]]))
    lines.flat_map(str.split).count().capture("counts")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait()
        found = bags(job.captured("counts"))
    assert found == {
        0: {("to", 2): 1, ("be", 2): 1, ("or", 1): 1, ("not", 1): 1},
        1: {("to", 1): 1, ("be", 1): 1},
    }


def test_only_counts_travel() -> None:
    """However many batches of a word come one after the other, one pair for it leaves its worker."""
    flow = tw.Dataflow("test")
    flow.source("words", tw.IterableSource([[(0, ["a", "b"] * 100) for _ in range(30)]])).count().capture("counts")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait()
        assert sum(edge.records for edge in job.statistics().edges if edge.target.endswith("'count'")) == 2


def test_many_keys_are_not_all_kept_before_they_are_sent() -> None:
    """A worker that sees ever new keys sends counts before the epoch ends, so that it need not hold all of them."""
    most = 0
    size = MOST_KEPT // 4
    numbers = [(0, list(range(start, start + size))) for start in range(0, 20 * size, size)]
    flow = tw.Dataflow("test")
    flow.source("numbers", tw.IterableSource([numbers])).count().count(lambda pair: pair[1]).capture("results")
    with tw.run(flow, engine="local", paused=True) as job:
        instances = [instance for core in job._cores for instance in core._instances]  # type: ignore[attr-defined]
        (partial,) = (instance for instance in instances if instance.name == "count: partial")
        job.start()
        while job.run_round():  # type: ignore[attr-defined]
            most = max(most, *(len(counts) for counts in partial.kept.states["partial"].values()), 0)
        assert job.captured("results") == [tw.types.Captured(0, [(1, 20 * size)])]
    assert 0 < most <= MOST_KEPT


def test_rows_and_lists_are_counted_as_whole_records() -> None:
    """A row is a dict, which cannot be hashed; it is counted all the same, from tables and lists alike."""
    table = pa.table({"b": ["x", "y", "x"], "a": [1, None, 1]})
    expected = [({"a": 1, "b": "x"}, 2), ({"a": None, "b": "y"}, 1)]
    for batch in (table, table.to_pylist(), table.to_batches()[0]):
        found = counted(batch, batch, workers=2)
        assert sorted(found, key=str) == [(row, 2 * count) for row, count in expected]
    assert sorted(counted(np.array([[1, 2], [3, 4], [1, 2]]))) == [([1, 2], 2), ([3, 4], 1)]
    assert sorted(counted([(1, ["a"]), (1, ["a"])])) == [((1, ["a"]), 2)]
    assert sorted(counted(["a", "b", ["a"], {"n": 1}, "a"]), key=str) == [
        ("a", 2),
        ("b", 1),
        (["a"], 1),
        ({"n": 1}, 1),
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_nan_is_one_key(workers: int) -> None:
    """Missing numbers, each another object, are counted together."""
    array = np.array([math.nan, 1.0, math.nan])
    (nan, many), one = sorted(counted(array, array, workers=workers), key=lambda pair: -pair[1])
    assert (math.isnan(nan), many, one) == (True, 4, (1.0, 2))
    assert [count for _, count in counted([(math.nan, 1)], [(float("nan"), 1)], workers=workers)] == [2]


def test_equal_keys_are_one_key() -> None:
    """As Python has it, and so also on several workers."""
    assert counted([1, 1.0, True], [np.int64(1)], workers=2) == [(1, 4)]


@pytest.mark.parametrize(
    ("batch", "key", "what"),
    [
        ([[5]], lambda record: record, r"\[5\] of type list cannot be a key, unhashable type: 'list'"),
        ([{5}], None, r"\{5\} of type set cannot be a key"),
        ([object()], None, r"of type object cannot be a key: a key is None, a number"),
    ],
)
def test_a_key_that_cannot_be_one_is_named(batch: Any, key: Any, what: str) -> None:
    """The error names the operator and shows the key; what cannot be exchanged is refused on one worker too."""
    with pytest.raises(tw.JobError, match=f"(?s)operator 'count.* on worker 0 at time 0: TypeError: .*{what}"):
        counted(batch, key=key)


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    """The error says what could have been meant, for tables and arrays."""
    with raises(tw.JobError):
        counted(pa.table({"n": [1]}), key="m")
    with raises(tw.JobError):
        counted(np.array([1]), key="m")


@pytest.mark.parametrize("kind", ["M8[s]", "m8[s]"])
def test_not_a_time_is_one_key_and_stays_what_it_is(kind: str) -> None:
    """It is no number that is none, and not another kind of key."""
    array = np.array(["NaT", 1, "NaT"], kind)
    for workers in (1, 2):
        (nat, many), (_, one) = sorted(counted(array, list(array), workers=workers), key=lambda pair: -pair[1])
        assert (type(nat), str(nat), many, one) == (array.dtype.type, "NaT", 4, 2)


def test_times_that_would_be_merged_are_refused() -> None:
    """Python's times of day have no nanoseconds; those that have none either are counted."""
    table = pa.table({"x": pa.array([1, 1001, 2], pa.time64("ns"))})
    for key in ("x", ("x",), None):
        with raises(tw.JobError):
            counted(table, key=key)
    whole = pa.table({"x": pa.array([1000, 1000], pa.time64("ns"))})
    assert counted(whole, key="x") == [(datetime.time(0, 0, 0, 1), 2)]


def test_named_tuples_are_records_like_others() -> None:
    """With NaN in them, which is one, and with lists and rows; they stay what they are."""
    for part in (math.nan, ["a"], {"a": 1}):
        rows = [Named(1, copy.copy(part) if part == part else float("nan")) for _ in range(3)]  # noqa: PLR0124
        ((found, count),) = counted(rows[:2], rows[2:], workers=2)
        assert (type(found), str(found), count) == (Named, str(Named(1, part)), 3)


class Named(NamedTuple):
    """A tuple with names."""

    key: int
    part: Any
