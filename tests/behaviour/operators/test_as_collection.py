"""Collections made of streams: of inserts, of records with counts, of columns, and of upserts."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises


def rows(numbers: Any) -> Any:
    return numbers.map(lambda n: (n % 3, n))


def changes_of(batches: list[tuple[int, Any]], workers: int = 2, **arguments: Any) -> list[tuple[int, Any, int]]:
    """Return (epoch, record, count) of all changes of the collection of some batches."""
    flow = tw.Dataflow("test")
    stream = flow.source("records", tw.IterableSource([batches]))
    stream.as_collection(**arguments).changes().capture("changes")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait(60)
        found = [(one.time, *change) for one in job.captured("changes") for change in one.batch]
    return sorted(found, key=repr)


def test_counts_beside_records_are_added() -> None:
    batches = [(0, [("a", 2), ("b", 1)]), (1, [("a", -1), ("b", 3), ("b", -3)])]
    assert changes_of(batches, diff=True) == [(0, "a", 2), (0, "b", 1), (1, "a", -1)]


def test_columns_of_tables_make_records() -> None:
    """One or two of them, with counts or without, nulls and texts as in Python."""
    table = pa.table({"a": [1, 2, None], "b": ["x", "y", "x"], "c": [0.5, 1.5, 2.5], "diff": [1, 2, -1]})
    assert changes_of([(0, table)], columns=["b"]) == [(0, "x", 2), (0, "y", 1)]
    assert changes_of([(0, table)], columns=("a", "c"), diff="diff") == [
        (0, (1, 0.5), 1),
        (0, (2, 1.5), 2),
        (0, (None, 2.5), -1),
    ]
    array = np.array([(1, 0.5)], dtype=[("a", "i4"), ("c", "f4")])
    assert changes_of([(0, array)], columns=("c", "a")) == [(0, (0.5, 1), 1)]


def test_upserts_replace_and_remove() -> None:
    """A pair with the value that is there already changes nothing, nor does the removal of a key that is not there."""
    batches = [(0, [("a", 1), ("b", 2)]), (1, [("a", 1), ("c", None)]), (2, [("a", 3), ("a", 4)]), (3, [("b", None)])]
    expected = [(0, ("a", 1), 1), (0, ("b", 2), 1), (2, ("a", 1), -1), (2, ("a", 4), 1), (3, ("b", 2), -1)]
    assert changes_of(batches, upserts=True) == expected


def upserts_of(batches: list[tuple[int, Any]], workers: int = 2) -> list[tuple[int, Any, Any]]:
    """Return (epoch, key, value) of all upserts of the collection of some records with counts."""
    flow = tw.Dataflow("test")
    stream = flow.source("records", tw.IterableSource([batches])).as_collection(diff=True)
    stream.upserts().capture("upserts")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait(60)
        return sorted((one.time, *pair) for one in job.captured("upserts") for pair in one.batch)


def test_upserts_have_each_key_whose_value_changes_once() -> None:
    """Changes that cancel out are none; a key that has gone has None."""
    batches = [
        (0, [(("a", 1), 1), (("b", 2), 1)]),
        (1, [(("a", 1), -1), (("a", 3), 1), (("b", 2), 1), (("b", 2), -1)]),
        (2, [(("b", 2), -1)]),
        (3, [(("b", 2), 1), (("a", 3), -1), (("a", 3), 1)]),
    ]
    assert upserts_of(batches) == [(0, "a", 1), (0, "b", 2), (1, "a", 3), (2, "b", None), (3, "b", 2)]
    odd = [(0, [((1, float("nan")), 1)]), (1, [((1, float("nan")), 1), ((1, float("nan")), -1)])]
    assert [(time, key) for time, key, _ in upserts_of(odd)] == [(0, 1)]
    inside = [(0, [((1, (float("nan"), 2)), 1)]), (1, [((1, (float("nan"), 2)), -1), ((1, (float("nan"), 3)), 1)])]
    assert [(time, value[1]) for time, _, value in upserts_of(inside)] == [(0, 2), (1, 3)]
    keys = [(0, [((("a", float("nan")), 1), 1)]), (1, [((("a", float("nan")), 1), -1), ((("a", float("nan")), 2), 1)])]
    assert [(time, value) for time, _, value in upserts_of(keys)] == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    "batches",
    [
        [(0, [(("a", 1), 1), (("a", 2), 1)])],
        [(0, [(("a", 1), 1)]), (1, [(("a", 2), 1)])],
        [(0, [(("a", 1), 1)]), (1, [(("a", 1), 1)])],
        [(0, [(("a", 1), -1)])],
        [(0, [("a", 1)])],
    ],
    ids=["two at once", "two over time", "one twice", "less than none", "no pair"],
)
def test_upserts_refuse_keys_of_several_values(batches: list[tuple[int, Any]]) -> None:
    with raises(tw.JobError):
        upserts_of(batches)


def test_upserts_in_a_loop_are_refused() -> None:
    numbers = tw.Dataflow("test").input("records").as_collection()
    with raises(tw.GraphError):
        numbers.iterate(lambda inner: (inner.upserts(), inner)[1])


def test_changes_make_the_same_collection_again() -> None:
    flow = tw.Dataflow("test")
    numbers = flow.source("numbers", tw.IterableSource([[(0, [1, 2, 2]), (1, [3])]])).as_collection()
    again = numbers.changes().as_collection(diff=True)
    tables = numbers.changes(columns=["n"]).as_collection(columns=["n"], diff="diff")
    again.concat(tables.negate()).changes().capture("differences")
    with tw.run(flow, engine="local") as job:
        job.wait(60)
        assert job.captured("differences") == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"columns": ["a", "b", "a"]},
            "columns= has the names of the columns of a record, the key first and each once",
        ),
        ({"columns": [1]}, "columns= has the names of the columns of a record, the key first and each once"),
        ({"diff": 1.5}, "diff= is True for records that are pairs"),
        ({"columns": ["a"], "diff": True}, "diff= is True for records that are pairs"),
        ({"upserts": True, "diff": True}, "upserts=True takes records"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(tw.GraphError, match=said):
        tw.Dataflow("test").input("records").as_collection(**arguments)


@pytest.mark.parametrize(
    ("batch", "arguments", "said"),
    [
        (pa.table({"a": [1]}), {}, "name its columns, the key first"),
        (pa.table({"a": [1]}), {"columns": ["a", "b"]}, r"there is no column 'b'; a batch came with \(a: int64\)"),
        (pa.table({"a": [1]}), {"columns": ["a"], "diff": "n"}, "there is no column 'n'"),
        ([1], {"columns": ["a"]}, "got a list of records: leave columns= out"),
        ([1], {"diff": True}, r"takes tuples \(record, whole number\), not 1"),
        ([1], {"upserts": True}, r"takes pairs \(key, value\), not 1"),
        ([[1]], {}, r"\[1\] of type list cannot be a key"),
    ],
)
def test_batches_that_do_not_fit_fail_the_job(batch: Any, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(tw.JobError, match=said) as raised:
        changes_of([(0, batch)], **arguments)
    assert str(raised.value.operator).startswith(("as_collection", "changes"))


def test_times_of_other_kinds_are_refused() -> None:
    flow = tw.Dataflow("test", domain=tw.progress.ProductDomain(tw.progress.IntegerDomain(), tw.progress.UnitDomain()))
    with raises(tw.GraphError):
        flow.input("records").as_collection()


def test_an_upsert_finds_a_key_with_nan() -> None:
    """Which is not equal to itself, so that it was never replaced."""
    flow = tw.Dataflow("nan")
    flow.input("rows").as_collection(upserts=True).changes().capture("rows")
    with tw.run(flow, engine="local") as job:
        rows = job.input("rows")
        for epoch, value in enumerate((1, 2, None)):
            rows.send([(float("nan"), value), (("x", float("nan")), value)])
            rows.advance_to(epoch + 1)
        rows.close()
        job.wait(60)
        changes = [(one.time, value, count) for one in job.captured("rows") for (_, value), count in one.batch]
    assert sorted(changes) == [(0, 1, 1)] * 2 + [(1, 1, -1)] * 2 + [(1, 2, 1)] * 2 + [(2, 2, -1)] * 2
