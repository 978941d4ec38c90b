"""The with_schema operator, and what is done with schemas that are known."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import ignore_others

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
    with raises(tw.GraphError):
        stream.with_schema("n")  # type: ignore[arg-type,unused-ignore]
    with raises(tw.GraphError):
        stream.with_schema(pa.schema({"n": pa.int64()}))


def test_an_exchange_by_a_column_that_is_not_there_is_refused() -> None:
    """The error names the operator, the column and those there are."""
    stream = tw.Dataflow("test").input("rows", SCHEMA)
    with raises(tw.GraphError):
        stream.exchange(("word", "m"))


def test_what_is_known_goes_where_records_go_unchanged() -> None:
    """Other operators make records of which nothing is known."""
    stream = tw.Dataflow("test").input("rows", SCHEMA)
    for same in (stream.exchange("n"), stream.broadcast(), stream.rebalance(), stream.filter(bool)):
        assert same.schema == SCHEMA
    assert stream.map(len).schema is None


KEEPING: dict[str, Callable[[tw.Stream[Any]], Sequence[tw.Stream[Any]]]] = {
    "branch": lambda rows: rows.branch(lambda row: row["n"] > 1),
    "branch_when": lambda rows: rows.branch_when(lambda time: time < 1),
    "concat": lambda rows: [rows.concat(rows)],
    "deduplicate": lambda rows: [rows.deduplicate("word"), rows.deduplicate()],
    "delay": lambda rows: [rows.delay(lambda row, time: time + row["n"])],
    "distinct": lambda rows: [rows.distinct()],
    "exchange": lambda rows: [rows.exchange("word"), rows.broadcast(), rows.rebalance()],
    "filter": lambda rows: [rows.filter(lambda row: row["n"] > 1), rows.filter(pc.field("n") > 1)],
    "inspect": lambda rows: [
        rows.inspect(look_away),
        rows.inspect_batches(look_away),
        rows.on_frontier(look_away),
    ],
    "interval_join": lambda rows: [
        (joined := rows.interval_join(rows.select("word", "n"), "word", at="n", within=(0, 0), suffix="2")).late,
        joined.other_late,
    ],
    "merge": lambda rows: [rows.merge(rows, by="n")],
    "partition": lambda rows: rows.partition(2, lambda row: row["n"] % 2),
    "sample": lambda rows: [rows.sample(1.0)],
    "select": lambda rows: [rows.select("word", "n")],
    "sort": lambda rows: [rows.sort("n"), rows.sort(lambda row: row["n"])],
    "top_k": lambda rows: [rows.top_k(2, key="word", order="n"), rows.top_k(1, order=lambda row: row["n"])],
    "enter": lambda rows: [in_and_out(rows)],
}
"""Operators whose streams have the columns of the one that they read."""

JOINS: dict[str, Callable[[tw.Stream[Any], tw.Stream[Any]], tw.Stream[Any]]] = {
    **{how: partial(tw.Stream.join, on="word", how=how, suffix="2") for how in ("inner", "left", "right", "outer")},
    "across epochs": partial(tw.Stream.join_across_epochs, on="word", suffix="2"),
    "interval": lambda rows, other: rows.interval_join(other, "word", at="n", within=(-9, 9), suffix="2").results,
}


def look_away(*_: object) -> None:
    """Look at nothing."""


def in_and_out(rows: tw.Stream[Any]) -> tw.Stream[Any]:
    """Return the stream when it has been in a loop."""
    with rows.flow.scope("loop") as loop:
        return rows.enter(loop).leave().concat(rows.enter_at(loop, lambda row: row["n"]).leave())


def schemas_of(flow: tw.Dataflow, streams: Sequence[tw.Stream[Any]], workers: int) -> list[set[pa.Schema]]:
    """Return which schemas the batches of each stream have that is not empty."""
    for number, stream in enumerate(streams):
        stream.capture(f"results {number}")
    ignore_others(flow)
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait()
        return [
            {captured.batch.schema for captured in job.captured(f"results {number}")} for number in range(len(streams))
        ]


def rows_of(flow: tw.Dataflow, name: str, words: list[str]) -> tw.Stream[Any]:
    """Return a source of one table an epoch whose schema is known."""
    epochs = [(epoch, pa.table({"word": [word, "z"], "n": [epoch, epoch + 2]})) for epoch, word in enumerate(words)]
    return flow.source(name, tw.IterableSource([epochs])).with_schema(SCHEMA)


@pytest.mark.parametrize("operator", KEEPING)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_schema_travels_with_rows_that_stay_what_they_are(operator: str, workers: int) -> None:
    """It is known of what comes out, and what comes out has it."""
    flow = tw.Dataflow("test")
    streams = KEEPING[operator](rows_of(flow, "rows", ["a", "b", "a"]))
    assert [stream.schema for stream in streams] == [SCHEMA] * len(streams)
    assert set().union(*schemas_of(flow, streams, workers)) == {SCHEMA}


@pytest.mark.parametrize("how", JOINS)
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("words", [(["a", "b"], ["b", "a"]), (["a"], []), ([], ["a"])], ids=["both", "one", "other"])
def test_the_schema_of_a_join_is_known(how: str, workers: int, words: tuple[list[str], list[str]]) -> None:
    """Each table has it, also before a row of the other side has come, on any worker."""
    flow = tw.Dataflow("test")
    joined = JOINS[how](*(rows_of(flow, name, given) for name, given in zip(("one", "other"), words, strict=True)))
    assert joined.schema == pa.schema([*SCHEMA, pa.field("n2", pa.int64())])
    (found,) = schemas_of(flow, [joined], workers)
    one, other = words
    is_empty = {"left": not one, "right": not other, "outer": False}.get(how, not (one and other))
    assert found == (set() if is_empty else {joined.schema})


@pytest.mark.parametrize(
    ("describe", "message"),
    [
        (
            lambda rows, other: rows.concat(other),
            r"'concat': one stream has \(word: string, n: int64\) and another \(m",
        ),
        (lambda rows, other: rows.merge(other, by="n"), r"'merge': one stream has \(word: string, n: int64\) and anot"),
        (lambda rows, other: rows.join(other, "word"), r"'join': there is no column 'word'; the stream has \(m: str"),
        (
            lambda rows, other: rows.join(other, "n", "m", how="outer"),
            r"'join': .*int64.*string.*; one side has \(word: string, n",
        ),
        (lambda rows, other: rows.join(rows, "word"), r"'join': both sides of the join have a column 'n'"),
        (
            lambda rows, other: rows.aggregate("key", start=int, add=int.__add__),
            r"'aggregate': there is no column 'key'; the st",
        ),
        (lambda rows, other: rows.count("m"), "'count': there is no column 'm'"),
        (lambda rows, other: rows.sort("m"), "'sort': there is no column 'm'"),
        (lambda rows, other: rows.top_k(2, order="m"), "'top_k': there is no column 'm'"),
        (lambda rows, other: rows.stateful_map("m", start=int, step=print), "'stateful_map': there is no column 'm'"),
        (lambda rows, other: rows.deduplicate("m"), "'deduplicate': there is no column 'm'"),
        (lambda rows, other: rows.unary(print, exchange="m", name="own"), "'own': there is no column 'm'"),
    ],
)
def test_what_does_not_fit_a_known_schema_is_refused(describe: Any, message: str) -> None:
    """When the dataflow is described, where the mistake is."""
    flow = tw.Dataflow("test")
    rows, other = flow.input("rows", SCHEMA), flow.input("other", pa.schema({"m": pa.string()}))
    with pytest.raises(tw.GraphError, match=message):
        describe(rows, other)
