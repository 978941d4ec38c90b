"""The group_by operator, against Arrow's own grouping of whole epochs."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import operator_settings
from tests.kit.operators.two_sides import WORKERS
from tidewheel.operators.tables import grouped_epoch
from tidewheel.operators.tables.aggregation import FUNCTIONS

SCHEMA = pa.schema(
    {
        "key": pa.string(),
        "other": pa.int8(),
        "int": pa.int32(),
        "float": pa.float32(),
        "bool": pa.bool_(),
        "text": pa.string(),
        "price": pa.decimal128(7, 2),
        "tag": pa.dictionary(pa.int8(), pa.string()),
        "nothing": pa.null(),
    }
)
COLUMNS = st.fixed_dictionaries(
    {
        "key": st.none() | st.sampled_from("abcdef"),
        "other": st.none() | st.integers(-1, 1),
        "int": st.none() | st.integers(-(2**31), 2**31 - 1),
        "float": st.none() | st.integers(-100, 100).map(float),  # of which any sum is exact
        "bool": st.none() | st.booleans(),
        "text": st.none() | st.text("xyz", max_size=2),
        "price": st.none() | st.integers(-9999, 9999).map(lambda cents: Decimal(cents) / 100),
        "tag": st.none() | st.sampled_from(["one", "two"]),
        "nothing": st.none(),
    }
)
ASKED = {
    "rows": "count_all",
    **{f"{function} {column}": (column, function) for function in ("sum", "mean") for column in ("int", "float")},
    **{f"{function} bool": ("bool", function) for function in FUNCTIONS},
    **{f"{function} price": ("price", function) for function in FUNCTIONS if function not in {"any", "all"}},
    **{f"{function} text": ("text", function) for function in ("min", "max", "count", "count_distinct")},
    **{f"{function} tag": ("tag", function) for function in ("count", "count_distinct")},
    **{f"{function} nothing": ("nothing", function) for function in ("count", "sum", "mean", "min")},
}


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def grouped(parts: Iterable[list[tuple[int, Any]]], keys: list[str], asked: Any, workers: int = 1) -> dict[int, Any]:
    """Return the result of each epoch as one table."""
    flow = tw.Dataflow("test")
    flow.source("rows", tw.IterableSource(list(parts))).group_by(*keys).aggregate(**asked).capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait()
        results = job.captured("results")
    times = {captured.time for captured in results}
    return {time: pa.concat_tables(made.batch for made in results if made.time == time) for time in times}


def arrows_own(table: pa.Table, keys: list[str], asked: Any) -> pa.Table:
    what = [([], "count_all") if function == "count_all" else function for function in asked.values()]
    return table.group_by(keys).aggregate(what).rename_columns([*keys, *asked])


def in_order(table: pa.Table, keys: list[str]) -> list[dict[str, Any]]:
    """Return rows in the order of their keys."""
    return sorted(table.to_pylist(), key=lambda row: [(row[key] is not None, row[key]) for key in keys])


@pytest.mark.parametrize("keys", [["key"], ["key", "other"], ["tag"]])
def test_it_is_arrows_grouping_of_the_whole_epoch(keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """For any split over epochs, partitions, batches and workers: the same columns, types and values."""
    monkeypatch.setattr(grouped_epoch, "ENOUGH_ROWS", 4)
    asked = {name: what for name, what in ASKED.items() if what[0] not in keys}

    @operator_settings(15)
    @given(st.lists(st.lists(st.tuples(st.integers(0, 1), st.lists(COLUMNS, max_size=9)))), st.sampled_from((1, 2, 4)))
    def holds(parts: list[list[tuple[int, list[dict[str, Any]]]]], workers: int) -> None:
        for part in parts:
            part.sort(key=lambda sent: sent[0])
        results = grouped([[(time, table_of(rows)) for time, rows in part] for part in parts], keys, asked, workers)
        for time in (0, 1):
            rows = [row for part in parts for when, rows in part if when == time for row in rows]
            assert (time in results) == bool(rows)
            if rows:
                expected = arrows_own(table_of(rows), keys, asked)
                assert results[time].schema == expected.schema
                assert in_order(results[time], keys) == in_order(expected, keys)

    holds()


WHOLE = st.sampled_from([pa.int64(), pa.uint64(), pa.int32()])


@operator_settings(60)
@given(st.lists(st.lists(st.integers(0, 1), max_size=8), min_size=1, max_size=4), WHOLE, WORKERS, st.data())
def test_whole_numbers_of_any_size(parts: Any, kind: pa.DataType, workers: int, data: st.DataObject) -> None:
    """Means are exact before they are rounded; sums are exact, or an error where they have no room; for any split."""
    least, most = (
        (0, 2**64 - 1) if kind == pa.uint64() else (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    )
    numbers = st.integers(least, most) | st.sampled_from([least, most, most // 2 + 1, 1, None])
    parts = [[(key, data.draw(numbers)) for key in keys] for keys in parts]
    tables = [pa.table({"k": [k for k, _ in part], "n": pa.array([n for _, n in part], kind)}) for part in parts]
    batches = [[(0, table.cast(pa.schema({"k": pa.int64(), "n": kind})))] for table in tables]
    by_key: dict[int, list[int]] = {}
    for key, number in [row for part in parts for row in part]:
        by_key.setdefault(key, []).extend([] if number is None else [number])
    room = (0, 2**64 - 1) if kind == pa.uint64() else (-(2**63), 2**63 - 1)
    means = grouped(batches, ["k"], {"mean": ("n", "mean")}, workers)
    found = {row["k"]: row["mean"] for table in means.values() for row in table.to_pylist()}
    assert found.keys() == by_key.keys()
    for key, own in by_key.items():
        assert found[key] == (pytest.approx(Fraction(sum(own), len(own)), rel=1e-15) if own else None)
    if all(room[0] <= sum(own) <= room[1] for own in by_key.values()):
        sums = grouped(batches, ["k"], {"sum": ("n", "sum")}, workers)
        found = {row["k"]: row["sum"] for table in sums.values() for row in table.to_pylist()}
        assert found == {key: sum(own) if own else None for key, own in by_key.items()}
    else:
        with pytest.raises(
            tw.JobError, match=r"OverflowError: sum: the sum of column 'n' has no room in u?int64 where"
        ):
            grouped(batches, ["k"], {"sum": ("n", "sum")}, workers)


def test_the_mean_of_times_in_nanoseconds() -> None:
    """Whose sum has no room in 64 bits; that of small numbers beside them is exact."""
    rows = pa.table({"k": ["a"] * 10 + ["b"] * 3, "n": [1_700_000_000_000_000_000] * 10 + [1, 2, 4]})
    halves = [[(0, rows[:5]), (0, rows[5:])]]
    assert in_order(grouped(halves, ["k"], {"m": ("n", "mean")})[0], ["k"]) == [
        {"k": "a", "m": 1.7e18},
        {"k": "b", "m": 7 / 3},
    ]
    with raises(tw.JobError):
        grouped(halves, ["k"], {"total": ("n", "sum")})


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()], ids=str)
def test_floats_that_are_equal_are_one_key(kind: pa.DataType) -> None:
    """So 0.0 and -0.0, and any NaNs, as they are for records; nulls are another."""
    other_nan = np.array([0xFFF8_0000_0000_0001], np.uint64).view(np.float64)[0]
    values = [0.0, -0.0, np.nan, other_nan, None, 1.5]
    column = pa.array(values, pa.float64(), from_pandas=False)
    rows = pa.table({"x": column.cast(kind), "n": [1] * 6})
    parts = [[(0, rows[:1]), (0, rows[1:3])], [(0, rows[3:])]]
    found = grouped(parts, ["x"], {"rows": "count_all"}, workers=2)[0]
    assert found.schema.field("x").type == kind
    assert sorted((str(row["x"]), row["rows"]) for row in found.to_pylist()) == [
        ("0.0", 2),
        ("1.5", 1),
        ("None", 1),
        ("nan", 2),
    ]


def test_floats_in_dictionaries_that_are_equal_are_one_key() -> None:
    """As they are outside."""
    kind = pa.dictionary(pa.int8(), pa.float64())
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 0], pa.int8()), [0.0, -0.0, 1.5])
    rows = pa.table({"x": column})
    found = grouped([[(0, rows[:2])], [(0, rows[2:])]], ["x"], {"rows": "count_all"}, workers=2)[0]
    assert found.schema.field("x").type == kind
    assert sorted((str(row["x"]), row["rows"]) for row in found.to_pylist()) == [("0.0", 3), ("1.5", 1), ("None", 1)]


def test_keys_in_dictionaries_have_room() -> None:
    """Categories of pandas have indices of one byte where a batch has few; all batches together may have many."""
    batches = [[(0, pa.table({"x": pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), names)}))]
               for names in ([f"{place} {n}" for n in range(100)] for place in range(3))]  # fmt: skip
    found = grouped(batches, ["x"], {"rows": "count_all"}, workers=2)[0]
    assert sorted(found["x"].to_pylist()) == sorted(f"{place} {n}" for place in range(3) for n in range(100))


def test_many_groups() -> None:
    """More than are kept apart, over more batches than are put together at once."""
    numbers = np.random.default_rng(1).integers(300_000, size=(8, 100_000))
    parts = [[(0, pa.table({"n": some})) for some in half] for half in (numbers[:4], numbers[4:])]
    result = grouped(parts, ["n"], {"rows": "count_all"}, workers=2)[0]
    values, counts = np.unique(numbers, return_counts=True)
    order = np.argsort(result["n"].to_numpy())
    assert (result["n"].to_numpy()[order] == values).all()
    assert (result["rows"].to_numpy()[order] == counts).all()


def test_nothing_has_no_distinct_values() -> None:
    """Nulls are not counted, whatever the type of their column; Arrow counts one where it is that of nulls."""
    rows = pa.table({"n": [1, 1], "x": pa.nulls(2)})
    assert grouped([[(0, rows)]], ["n"], {"x": ("x", "count_distinct")})[0].to_pydict() == {"n": [1], "x": [0]}


def test_without_aggregates_it_is_the_distinct_keys() -> None:
    """Each once for each epoch."""
    rows = pa.table({"a": [1, 1, 2, 1], "b": ["x", "x", "x", "y"]})
    found = grouped([[(0, rows)], [(0, rows), (1, rows[:1])]], ["a", "b"], {}, workers=2)
    assert in_order(found[0], ["a", "b"]) == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}]
    assert found[1].to_pylist() == [{"a": 1, "b": "x"}]


def test_groups_are_where_exchange_sends_their_rows() -> None:
    """So an exchange by the same key leaves them on their worker."""
    flow = tw.Dataflow("test")
    rows = pa.table({"a": [*range(20)], "b": ["x", "y"] * 10})
    stream = flow.source("rows", tw.IterableSource([[(0, rows)]]))
    for keys in (("a",), ("a", "b")):
        key: Any = keys if len(keys) > 1 else "a"
        for name, made in (("groups", stream.group_by(*keys).aggregate()), ("rows", stream.exchange(key))):
            made.unary(tag_rows, name="where").capture(f"{name} by {key}")
    with tw.run(flow, workers=3, engine="local") as job:
        job.wait()
        for key in ("a", ("a", "b")):
            found = [
                dict(row for sent in job.captured(f"{name} by {key}") for row in sent.batch)
                for name in ("groups", "rows")
            ]
            assert found[0] == found[1]
            assert len(found[0]) == 20


def tag_rows(context: tw.OperatorContext) -> Callable[..., None]:
    """Build an operator that sends a pair for each row: the column a, and the worker that has it."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            output.send(token, [(number, context.worker) for number in batch["a"].to_pylist()])

    return schedule


def test_structured_arrays_have_columns_too() -> None:
    """The result is a table."""
    array = np.array([(1, 2.5), (2, 3.5), (1, 0.5)], dtype=[("n", "i8"), ("x", "f8")])
    result = grouped([[(0, array)]], ["n"], {"x": ("x", "sum")})[0]
    assert result.to_pydict() == {"n": [1, 2], "x": [3.0, 3.5]}


def test_the_schema_is_handed_on() -> None:
    """That of the result is known where that of the rows is."""
    rows = tw.Dataflow("test").input("rows", SCHEMA)
    made = rows.group_by("key").aggregate(total=("int", "sum"), mean=("price", "mean"), n="count_all")
    assert made.schema == pa.schema(
        {
            "key": pa.string(),
            "total": pa.int64(),
            "mean": pa.decimal128(7, 2),
            "n": pa.int64(),
        }
    )


@pytest.mark.parametrize(
    ("keys", "asked", "message"),
    [
        ([], {}, "name one column of the key or more"),
        (["m"], {}, r"'group_by': there is no column 'm'; the stream has \(key: string, other: int8"),
        (["key", "key"], {}, "a column of the key is named once, not as in key, key"),
        (["key"], {"key": "count_all"}, "'key' is a column of the key, an aggregate needs another name"),
        (["key"], {"x": "sum"}, r"'x' is a pair \(column, function\), or 'count_all', .* not 'sum'"),
        (["key"], {"x": ("int", "median")}, "the function is sum, count, .* or count_distinct, not .*median"),
        (["key"], {"x": ("m", "sum")}, "'group_by': there is no column 'm'; the stream has"),
        (["key"], {"x": ("text", "sum")}, "x: Arrow has no 'sum' of column 'text' of string; .*key: string"),
    ],
)
def test_what_does_not_fit_is_refused_beforehand(keys: list[str], asked: Any, message: str) -> None:
    """With a schema that is known, an error at the call names operator, column and the columns there are."""
    rows = tw.Dataflow("test").input("rows", SCHEMA)
    with pytest.raises(tw.GraphError, match=message):
        rows.group_by(*keys).aggregate(**asked)


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([[1]], "TypeError: a list has no columns"),
        ([pa.table({"m": [1]})], r"TypeError: there is no column 'n'; a batch came with \(m: int64\)"),
        (
            [pa.table({"n": [1], "x": ["a"]})],
            "TypeError: total: Arrow has no 'sum' of column 'x' of string; a batch .*: cast the column to",
        ),
        (
            [pa.table({"n": [[1]], "x": [1]})],
            r"TypeError: Arrow cannot group by column 'n' of list<.*; a batch came .*: cast the col",
        ),
        (
            [pa.table({"n": [1], "x": [1]}), pa.table({"n": [1], "x": [1.0]})],
            r"TypeError: column 'x' is double, not int64; a batch came with \(n: int64, x: double\), \(n: int64, x",
        ),
    ],
)
def test_what_does_not_fit_fails_the_job(batches: list[Any], message: str) -> None:
    """Without, an error names operator, worker, time, column, what came and what was expected."""
    with pytest.raises(tw.JobError, match=f"'group_by: partial' failed on worker 0 at time 3: {message}"):
        grouped([[(3, batch) for batch in batches]], ["n"], {"total": ("x", "sum")})


def test_workers_that_have_other_columns_fail_the_job() -> None:
    """Though on each of them all batches are alike."""
    parts = [[(3, pa.table({"n": [1], "x": [1]}))], [(3, pa.table({"n": [1], "x": [1.0]}))]]
    with raises(tw.JobError):
        grouped(parts, ["n"], {"total": ("x", "sum")}, workers=2)
