"""Join by names of columns: tables in, tables out."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import TABLES, Case, operator_settings, run
from tests.kit.operators.two_sides import (
    NAN,
    WORKERS,
    Feed,
    Row,
    each_epoch_joined,
    numbers_in_tables,
    row_feeds,
    run_two,
    table_of,
)
from tidewheel.operators.joins.table_join import KnownSchemas
from tidewheel.progress import IntegerDomain, ProductDomain

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int64": (pa.int64(), [None, 0, 1, 2, -1, 2**53 + 1, 2**63 - 1]),
    "int8": (pa.int8(), [None, 0, 1, -1]),
    "uint64": (pa.uint64(), [None, 0, 1, 2**64 - 1, 2**63]),
    "float64": (pa.float64(), [None, NAN, 0.0, -0.0, 1.0, 0.5, float(2**53), float(2**63)]),
    "float32": (pa.float32(), [None, NAN, -0.0, 1.0, 0.5]),
    "bool": (pa.bool_(), [None, False, True]),
    "decimal": (pa.decimal128(9, 1), [None, Decimal(1), Decimal("0.5"), Decimal(0)]),
    "string": (pa.string(), [None, "", "a", "b"]),
    "large string": (pa.large_string(), [None, "", "a", "c"]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), [None, "", "a"]),
    "binary": (pa.binary(), [None, b"", b"a"]),
    "null": (pa.null(), [None]),
}


@st.composite
def typed_sides(draw: st.DrawFn) -> tuple[tuple[Feed, Feed], tuple[pa.DataType, pa.DataType]]:
    """Draw rows for two sides, and the type of the keys on each; mostly types whose values can be equal."""
    one = draw(st.sampled_from(sorted(TYPES)))
    other = draw(st.one_of(st.just(one), st.sampled_from(sorted(TYPES))))
    feeds = (draw(row_feeds(TYPES[one][1])), draw(row_feeds(TYPES[other][1])))
    return feeds, (TYPES[one][0], TYPES[other][0])


@operator_settings(100)
@given(typed_sides(), st.sampled_from(("inner", "left")), WORKERS)
def test_it_is_the_nested_loop(sides: Any, how: Any, workers: int) -> None:
    """Tables with keys of all types, also different ones on both sides, join as lists of their values do."""
    feeds, (one, other) = sides
    make = (table_of(one, "k", "l"), table_of(other, "j", "r"))
    (results,) = run_two(lambda left, right: [left.join(right, "k", "j", how=how)], feeds, workers, make)
    assert numbers_in_tables(results) == each_epoch_joined(feeds[0], feeds[1], how)


@operator_settings(60)
@given(typed_sides(), st.sampled_from(("right", "outer")), WORKERS)
def test_rows_of_the_other_side_are_kept(sides: Any, how: Any, workers: int) -> None:
    """The other's rows without a partner come once, with their key in the column of the key."""
    feeds, (one, _) = sides
    same = (feeds[0], feeds[0])
    make = (table_of(one, "k", "l"), table_of(one, "j", "r"))
    (results,) = run_two(lambda left, right: [left.join(right, "k", "j", how=how)], same, workers, make)
    assert numbers_in_tables(results) == each_epoch_joined(feeds[0], feeds[0], how)
    keys = {row.number: row.key for _, rows in feeds[0] for row in rows}
    for row in (row for result in results for row in result.batch.to_pylist()):
        key = keys[row["r"] if row["l"] is None else row["l"]]
        assert row["k"] == key or (key != key and row["k"] != row["k"])  # noqa: PLR0124


@operator_settings(40)
@given(row_feeds([1, 2, None]), row_feeds([1, 2, None]), WORKERS)
def test_two_columns_can_be_the_key(left: Feed, right: Feed, workers: int) -> None:
    """A key of several columns matches where all of them do."""

    def two(name: str) -> Any:
        def make(rows: list[Row]) -> Any:
            keys = pa.array([row.key for row in rows], pa.int64())
            half = pa.array([row.number % 2 for row in rows], pa.float64() if name == "l" else pa.int8())
            return pa.table({"k": keys, "half": half, name: pa.array([row.number for row in rows], pa.int64())})

        return make

    (results,) = run_two(
        lambda one, other: [one.join(other, ("k", "half"))], (left, right), workers, (two("l"), two("r"))
    )

    def with_two(feed: Feed) -> Feed:
        return [(time, [Row((row.key, row.number % 2), row.number) for row in rows]) for time, rows in feed]

    assert numbers_in_tables(results) == each_epoch_joined(with_two(left), with_two(right), "inner")


@pytest.mark.parametrize("workers", [1, 4])
def test_every_row_has_all_columns_on_every_worker(workers: int) -> None:
    """A worker without a row of the other side fills its columns with nulls all the same: tables fit together."""
    left: Feed = [(0, [Row(key, key) for key in range(20)])]
    right: Feed = [(0, [Row(3, 30), Row(99, 99)])]
    make = (table_of(pa.int64(), "k", "l"), table_of(pa.int64(), "k", "r"))
    (results,) = run_two(lambda one, other: [one.join(other, "k", how="outer")], (left, right), workers, make)
    joined = pa.concat_tables([result.batch for result in results])
    assert joined.schema == pa.schema({"k": pa.int64(), "l": pa.int64(), "r": pa.int64()})
    assert joined.num_rows == 21
    assert joined["r"].null_count == 19
    assert joined["l"].null_count == 1


@pytest.mark.parametrize("how", ["right", "outer"])
def test_the_key_keeps_its_name_before_the_left_side_is_known(how: Any) -> None:
    """A column of the other side that has the name of the key gets the suffix in all epochs, or is an error in all."""
    right = pa.table({"rid": [1, 2], "id": [10, 20], "x": ["a", "b"]})
    left = pa.table({"id": [1], "v": [5]})

    def run(suffix: str) -> tw.types.CapturedBatches:
        flow = tw.Dataflow("test")
        lefts = flow.source("left", tw.IterableSource([[(1, left)]]))
        rights = flow.source("right", tw.IterableSource([[(0, right), (1, right)]]))
        lefts.join(rights, "id", "rid", how=how, suffix=suffix).capture("results")
        with tw.run(flow, engine="local") as job:
            job.wait()
            return job.captured("results")

    first, second = run("_r")
    assert (first.time, second.time) == (0, 1)
    assert first.batch.to_pylist() == [{"id": 1, "id_r": 10, "x": "a"}, {"id": 2, "id_r": 20, "x": "b"}]
    assert second.batch.select(["id", "id_r", "x"]).to_pylist() == first.batch.to_pylist()
    with raises(tw.JobError):
        run("")


@pytest.mark.parametrize("how", ["left", "outer"])
def test_columns_that_no_row_has_shown_are_left_out(how: Any) -> None:
    """Up to the first epoch with rows of the other side nobody knows its columns; from then on they are filled."""
    left: Feed = [(0, [Row(1, 1)]), (1, [Row(2, 2)]), (2, [Row(3, 3)])]
    right: Feed = [(1, [Row(9, 9)])]
    make = (table_of(pa.int64(), "k", "l"), table_of(pa.int64(), "j", "r"))
    (results,) = run_two(lambda one, other: [one.join(other, "k", "j", how=how)], (left, right), 2, make)
    names = {result.time: result.batch.column_names for result in results}
    assert names == {0: ["k", "l"], 1: ["k", "l", "r"], 2: ["k", "l", "r"]}


def test_rows_alone_have_the_names_that_the_key_has_here() -> None:
    """In a right join the key has this side's name, also where nothing is known of this side."""
    make = (table_of(pa.int64(), "k", "l"), table_of(pa.int64(), "j", "r"))
    (results,) = run_two(
        lambda one, other: [one.join(other, "k", "j", how="right")], ([], [(0, [Row(9, 5)])]), make=make
    )
    assert [result.batch.to_pylist() for result in results] == [[{"k": 9, "r": 5}]]


def test_a_schema_is_known_from_its_time_on() -> None:
    """In loops, where times may be in no order, workers know a schema at the same times: from where it was seen on."""
    rounds = ProductDomain(IntegerDomain(), IntegerDomain())
    schema = pa.schema({"k": pa.int64()})
    known = KnownSchemas()
    assert known.learn(rounds, (0, 5), schema)
    assert not known.learn(rounds, (1, 5), schema)
    assert known.learn(rounds, (1, 0), schema)
    assert known.empty_table(rounds, (0, 4)) is None
    assert known.empty_table(rounds, (1, 0)) == schema.empty_table()
    assert known.learn(rounds, (0, 0), schema)
    assert list(known.schemas) == [(0, 0)]


def test_columns_of_any_type_come_along() -> None:
    """Lists, structs and dictionaries are no keys, but they are joined with; Arrow's own join refuses them."""
    left = pa.table({"k": [1, 2], "tags": [["a"], []], "word": pa.array(["x", "y"]).dictionary_encode()})
    right = pa.table({"k": [2, 2], "at": [{"x": 1}, {"x": 2}]})
    flow = tw.Dataflow("test")
    flow.input("left").join(flow.input("right"), "k", how="left").capture("joined")
    with tw.run(flow, engine="local") as job:
        for name, table in (("left", left), ("right", right)):
            with job.input(name) as handle:
                handle.send(table)
        job.wait()
        (result,) = job.captured("joined")
    assert sorted(result.batch.to_pylist(), key=str) == [
        {"k": 1, "tags": ["a"], "word": "x", "at": None},
        {"k": 2, "tags": [], "word": "y", "at": {"x": 1}},
        {"k": 2, "tags": [], "word": "y", "at": {"x": 2}},
    ]
    assert result.batch.schema.field("word").type == left.schema.field("word").type


def test_structured_arrays_have_columns_too() -> None:
    """What can be exchanged by name can be joined by name; plain arrays and lists are refused with what to do."""

    def structured(batch: Any) -> Any:
        return np.array([(n, -n) for n in batch], dtype=[("n", "i8"), ("m", "f8")])

    def describe(stream: tw.Stream[Any]) -> tw.Stream[Any]:
        arrays = stream.map_batches(structured)
        return arrays.join(arrays, "n", suffix="_2")

    (result,) = run(describe, Case([(0, [4])]))
    assert result.batch.to_pylist() == [{"n": 4, "m": -4.0, "m_2": -4.0}]
    with raises(tw.JobError):
        run(lambda stream: stream.map(lambda n: {"n": n}).join(stream.map(lambda n: {"n": n}), "n"), Case([(0, [4])]))


def both_have(names: tuple[str, str], suffix: str) -> Any:
    make = (table_of(pa.int64(), "k", names[0]), table_of(pa.int64(), "k", names[1]))
    feed: Feed = [(0, [Row(1, 7)])]
    (results,) = run_two(lambda one, other: [one.join(other, "k", suffix=suffix)], (feed, feed), make=make)
    return results[0].batch.to_pylist()


def test_columns_of_one_name_need_a_suffix() -> None:
    """Two columns of one name are an error that says so; with a suffix the other's gets it, and only where needed."""
    with raises(tw.JobError):
        both_have(("x", "x"), "")
    assert both_have(("x", "x"), "_b") == [{"k": 1, "x": 7, "x_b": 7}]
    assert both_have(("x", "y"), "_b") == [{"k": 1, "x": 7, "y": 7}]


def test_keys_that_do_not_go_into_one_column_are_named() -> None:
    """An outer join of words with numbers would have both in its key: the error says which columns these are."""
    make = (table_of(pa.string(), "k", "l"), table_of(pa.int64(), "j", "r"))
    feeds: tuple[Feed, Feed] = ([(0, [Row("a", 1)])], [(0, [Row(1, 1)])])
    with raises(tw.JobError):
        run_two(lambda one, other: [one.join(other, "k", "j", how="outer")], feeds, make=make)


def test_a_column_that_is_not_there_is_named() -> None:
    """The error says what could have been meant."""
    make = (table_of(pa.int64(), "k", "l"), table_of(pa.int64(), "j", "r"))
    with raises(tw.JobError):
        run_two(lambda one, other: [one.join(other, "k")], ([], [(0, [Row(1, 1)])]), make=make)


def tables_countdown(numbers: tw.Stream[Any]) -> tw.Stream[Any]:
    """Count down in a loop; in each round join, on the left, its numbers with those of the next."""

    def fewer(table: Any) -> Any:
        left = table["n"].to_numpy() - 1
        return pa.table({"n": left[left > 0]})

    def body(inner: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
        again = inner.map_batches(fewer)
        marked = again.map_batches(lambda table: table.append_column("mark", table["n"]))
        return again, inner.join(marked, "n", how="left")

    return numbers.iterate(body)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_it_joins_the_rounds_of_a_loop(workers: int) -> None:
    """Schemas are known by round too: the last round of each epoch, which has no partners, has all columns."""
    results = run(tables_countdown, Case([(0, [2, 3]), (1, [1])], TABLES, workers))
    assert {tuple(result.batch.column_names) for result in results} == {("n", "mark")}
    rows = [(result.time, row["n"], row["mark"]) for result in results for row in result.batch.to_pylist()]
    assert sorted(rows, key=str) == [
        (0, 1, 1),
        (0, 1, None),
        (0, 2, 2),
        (0, 2, None),
        (0, 3, None),
        (1, 1, None),
    ]
