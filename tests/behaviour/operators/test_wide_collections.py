"""Collections of named columns used in a wrong way say which operator, column and collection, and what to do."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.operators.collections.stages import updates_of

SALES = pa.table({"user": ["ann", "ann", "bob"], "item": ["tea", None, "oil"], "price": [3, 4, 5], "day": [1, 1, 2]})
NAMES = SALES.column_names


def changes_of(describe: Callable[[tw.Collection], tw.Collection], columns: Any = True, table: Any = SALES) -> Any:
    """Return all changes as columns, sorted by all of them."""
    flow = tw.Dataflow("test")
    sales = flow.source("sales", tw.IterableSource([[(0, table)]])).as_collection(columns=NAMES)
    describe(sales).changes(columns=columns).capture("changes")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait(60)
        made = pa.concat_tables([one.batch for one in job.captured("changes")], promote_options="permissive")
    return made.sort_by([(name, "ascending") for name in made.column_names]).to_pydict()


@pytest.mark.parametrize(
    ("describe", "said"),
    [
        (
            lambda c: c.select("prize"),
            "no column 'prize'; the collection of 'as_collection' has user, item, price, day",
        ),
        (
            lambda c: c.select("user", twice=pc.field("prize") * 2),
            "there is no column 'prize', which .* needs; the coll",
        ),
        (lambda c: c.filter(pc.field("prize") > 1, name="dear"), "operator 'dear': there is no column 'prize'"),
        (lambda c: c.map(lambda sale: sale).select("user"), "collection of 'map' has columns without names: name them"),
        (lambda c: c.reduce(max).filter(pc.field("n") > 1), "collection of 'reduce' has columns without names"),
        (lambda c: c.select("user", "user"), "the key first and each once, not .'user', 'user'."),
        (lambda c: c.select(), "the key first and each once"),
        (lambda c: c.select("user", price=3), "'price' is an expression of pyarrow.compute, such as"),
        (lambda c: c.map(lambda *sale: sale, columns=[]), "operator 'map': columns= has the names"),
        (
            lambda c: c.reduce_sum(),
            r"adds up one column .* has user, item, price, day: .* as in select\('user', 'day'\)",
        ),
        (lambda c: c.reduce_mean(), "operator 'reduce_mean' adds up one column"),
        (lambda c: c.join(c, name="meet"), "operator 'meet': .* two columns would be named 'item': rename one before"),
        (lambda c: c.concat(c.select("user", "item")), "operator 'concat': .* bring them to as many, in one order, by"),
        (lambda c: c.concat(c.select(*NAMES[::-1])), "has day, price, item, user: bring them to as many, in one order"),
        (lambda c: c.semijoin(c), r"'semijoin' takes the keys alone, and .*: choose the key before, .* select\('user'"),
        (lambda c: c.antijoin(c), "operator 'antijoin: semijoin' takes the keys alone"),
        (lambda c: c.changes(columns=["user", "item"]), "has a name for each column, .* has user, item, price, day"),
        (lambda c: c.map(lambda sale: sale).changes(columns=True), "operator 'changes': columns= has the names"),
    ],
)
def test_columns_that_are_not_there_are_refused(describe: Any, said: str) -> None:
    """When the dataflow is described."""
    sales = tw.Dataflow("test").input("sales").as_collection(columns=NAMES)
    with pytest.raises(tw.GraphError, match=said):
        describe(sales)


@pytest.mark.parametrize(
    ("describe", "columns", "said"),
    [
        (lambda c: c.map(lambda *sale: sale[:2], columns=NAMES), True, "2 columns: return one for each of user, item"),
        (lambda c: c.map(lambda *sale: sale, columns=True), ["n"], "For more, name them, as in columns="),
        (lambda c: c.filter(pc.field("price") + 1), True, "is no condition, as it is of type int64"),
        (lambda c: c.select("user", up=pc.utf8_upper(pc.field("price"))), True, "up = .* is not possible with the col"),
        (
            lambda c: c.map(lambda sale: (1, 2)),
            NAMES,
            r"\('key', 2\) is none: name as many columns as the records have",
        ),
        (lambda c: c.map(lambda sale: (1, 2)), ["n"], r"records that are single values, and \(1, 2\) is none"),
        (lambda c: c.map(lambda sale: 7), NAMES, "columns user, item, price, day takes pairs .*, and 7 is none"),
        (
            lambda c: c.select("user", "item").reduce_max(),
            True,
            "the values of key '...' have no order, .* leave out nulls",
        ),
        (
            lambda c: c.map(lambda s: (s[0], s[1][0] or 7)),
            ["user", "item"],
            "'item' has values that are not of one type",
        ),
        (
            lambda c: c.map(lambda s: (s[0], 2**64)),
            ["user", "item"],
            "'item' has values .* no type for whole numbers from 18446744073709551616",
        ),
        (
            lambda c: c.select("item"),
            pa.schema({"item": pa.int64()}),
            "column 'item' has values that are not of int64: ",
        ),
    ],
)
def test_records_that_do_not_fit_fail_the_job(describe: Any, columns: Any, said: str) -> None:
    with pytest.raises(tw.JobError, match=said):
        changes_of(describe, columns)


@pytest.mark.parametrize("wrong", [None, 1.5, float("nan"), "1", 2**63])
def test_counts_that_are_no_whole_numbers_are_refused(wrong: Any) -> None:
    counts = pa.array([1.0, wrong] if isinstance(wrong, float) else [wrong], pa.uint64() if wrong == 2**63 else None)
    with pytest.raises(TypeError, match=f"as_collection\\(diff='n'\\) takes whole numbers .* has {wrong!r}: leave out"):
        updates_of(["user"], "n", pa.table({"user": ["a"] * len(counts), "n": counts}))


def test_counts_may_be_of_any_type_of_numbers() -> None:
    for counts in (pa.array([2, -1], pa.int8()), pa.array([2.0, -1.0]), pa.array([], pa.null())):
        found = updates_of(["user"], "n", pa.table({"user": ["a"] * len(counts), "n": counts}))
        assert found["diff"].tolist() == counts.to_pylist()


def test_columns_keep_their_names() -> None:
    """Through all operators that keep records, and through loops."""
    sales: Any = tw.Dataflow("test").input("sales").as_collection(columns=NAMES)
    for made in (
        sales.filter(bool),
        sales.filter(pc.field("price") > 1),
        sales.concat(sales),
        sales.negate(),
        sales.consolidate(),
        sales.distinct(),
        sales.threshold(min),
        sales.semijoin(sales.select("user")),
        sales.antijoin(sales.select("user")),
        sales.reduce_min(),
        sales.reduce_max(),
        sales.top_k(1),
        sales.iterate(lambda inner: inner.filter(pc.field("price") > 1)),
        *sales.iterate(lambda one, two: (two.distinct(), one), sales),
    ):
        assert made.columns == tuple(NAMES)
    assert sales.select("item", "price").join(sales.select("item", "day")).columns == ("item", "price", "day")
    assert sales.select("item", "price").reduce_sum().columns == ("item", "price")
    assert sales.map(lambda sale: sale).columns == sales.count().columns == sales.concat(sales.map(bool)).columns == ()


def test_nulls_and_no_rows_at_all_are_fine() -> None:
    """A column in which a batch has only nulls is a column of texts, numbers or times where an expression needs one."""
    nulls = pa.table({"user": ["ann"], "item": pa.nulls(1), "price": pa.nulls(1), "day": pa.nulls(1)})
    item, price, day = map(pc.field, ("item", "price", "day"))
    made = lambda c: c.select("user", up=pc.utf8_upper(item), cost=pc.sqrt(price), year=pc.year(day))  # noqa: E731
    expected = {"user": ["ann"], "up": [None], "cost": [None], "year": [None], "diff": [1]}
    assert changes_of(made, table=nulls) == expected
    assert changes_of(lambda c: c.filter(price > 3), table=SALES)["price"] == [4, 5]
    kept = lambda c: c.concat(c.filter(lambda user, *_: np.zeros(len(user), bool), columns=True).select(*NAMES))  # noqa: E731
    assert changes_of(kept)["price"] == [3, 4, 5]


DAY, NOON = date(2024, 1, 1), datetime.fromisoformat("2024-01-01T12:00")
UTC_NOON = NOON.replace(tzinfo=UTC)
KOLKATA = timezone(timedelta(hours=5, minutes=30))


def table_of(values: Sequence[Any], describe: Callable[[tw.Collection], tw.Collection]) -> list[Any]:
    """Return values that are records with their numbers, in their order, as a table has them."""
    flow = tw.Dataflow("test")
    pairs = flow.source("pairs", tw.IterableSource([[(0, list(enumerate(values)))]])).as_collection()
    describe(pairs).changes(columns=["number", "value"]).capture("changes")
    with tw.run(flow, engine="local") as job:
        job.wait(60)
        found: list[Any] = job.captured("changes")[0].batch.sort_by("number")["value"].to_pylist()
    return found


@pytest.mark.parametrize(
    "values",
    [
        (2**63, 1),
        (0.5, 2**53, None),
        (UTC_NOON, UTC_NOON.astimezone(KOLKATA)),
        (Decimal("1.50"), 2),
        ((1, 2), (1, 2, 3)),
        (DAY, None),
        (NOON, None),
        (1.0, float("nan")),
    ],
)
def test_tables_have_the_values_of_records(values: tuple[Any, ...]) -> None:
    found = table_of(values, tw.Collection.distinct)
    same = [list(value) if isinstance(value, tuple) else value for value in values]
    assert same == found or repr(same) == repr(found)


@pytest.mark.parametrize(
    "values",
    [
        (DAY, NOON),
        (NOON, DAY),
        ("b", b"a"),
        (NOON, UTC_NOON),
        (NOON.time(), UTC_NOON.timetz()),
        (UTC_NOON.timetz(), None),
        (DAY, 3),
        (timedelta(1), 3),
        (2**53 + 1, 0.5),
        (-1, 2**63),
        ((DAY, 1), (NOON, 1)),
        (("a",), (b"a",)),
        ((2**63,), (1,)),
    ],
)
@pytest.mark.parametrize("turn", [1, -1])
def test_values_that_a_table_would_change_are_refused(values: tuple[Any, ...], turn: int) -> None:
    """In whatever order they come, also within tuples; and where an expression needs a table."""
    said = "column 'value' has values that are not of one type: "
    with pytest.raises(tw.JobError, match=f"operator 'changes' .* {said}"):
        table_of(values[::turn], tw.Collection.distinct)
    names = ["number", "value"]
    with pytest.raises(tw.JobError, match=f"operator 'filter' .* {said}"):
        table_of(values[::turn], lambda c: c.map(lambda *pair: pair, columns=names).filter(pc.field("number") >= 0))


def test_whole_numbers_from_2_to_the_63_on_are_filtered() -> None:
    """As well as lesser ones, which come in epochs of their own; an error says how to write numbers beside them."""
    batches = [(0, [1, 2**63, 2**64 - 1]), (1, [2, 3]), (2, [2**63 + 1])]
    tables = [(epoch, pa.table({"n": pa.array(numbers, pa.uint64())})) for epoch, numbers in batches]

    def kept(condition: Any, *, as_collection: bool) -> list[int]:
        flow = tw.Dataflow("test")
        source = flow.source("numbers", tw.IterableSource([tables]))
        if as_collection:
            source.as_collection(columns=["n"]).filter(condition).changes(columns=True).capture("kept")
        else:
            source.filter(condition).capture("kept")
        with tw.run(flow, engine="local") as job:
            job.wait(60)
            return [n for one in job.captured("kept") for n in one.batch["n"].to_pylist()]

    for as_collection in (True, False):
        for least in (2, 2**63):
            condition = pc.field("n") >= pa.scalar(least, pa.uint64())
            wanted = [n for _, numbers in batches for n in numbers if n >= least]
            assert kept(condition, as_collection=as_collection) == wanted
        with raises(tw.JobError):
            kept(pc.field("n") > 1, as_collection=as_collection)


def test_tables_have_the_types_of_a_schema() -> None:
    """Also where all values are null, so that the tables of all epochs go together; the stream knows it."""
    schema = pa.schema({"user": pa.string(), "item": pa.string(), "price": pa.int32()})
    flow = tw.Dataflow("test")
    rows = [(epoch, SALES.slice(epoch, 1)) for epoch in range(3)]
    sales = flow.source("sales", tw.IterableSource([rows])).as_collection(columns=NAMES)
    changes = sales.select(*schema.names).changes(columns=schema).capture("changes")
    with tw.run(flow, engine="local") as job:
        job.wait(60)
        found = [one.batch.schema for one in job.captured("changes")]
    assert found == [changes.schema] * 3
    assert found[0] == schema.append(pa.field("diff", pa.int64()))
