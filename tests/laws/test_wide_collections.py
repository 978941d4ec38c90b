"""Collections of records of four columns, with strings and nulls, against plain Python on the input of each epoch."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.collections.plain_collection import PlainCollection
from tests.laws.strategies import law_settings

Row: TypeAlias = tuple[Any, ...]
Program: TypeAlias = tuple[Callable[[Any, Any], Any], Callable[[PlainCollection, PlainCollection], PlainCollection]]

DEADLINE_S = 60.0
SALES = ("user", "item", "price", "day")
USERS = ("user", "city")
SCHEMA = pa.schema({"user": pa.string(), "item": pa.string(), "price": pa.int32(), "day": pa.float64()})
TEXTS = pa.schema({"user": pa.string(), "city": pa.string()})

Price, Day = pc.field("price"), pc.field("day")


def record_of(row: Row) -> Any:
    """Return the record of a row: (key, value), or (key, tuple of the other values)."""
    return row if len(row) == 2 else (row[0], row[1:])


def row_of(record: Any) -> Row:
    key, value = record
    return (key, *value) if isinstance(value, tuple) else (key, value)


def on_rows(function: Callable[..., Row | None]) -> Callable[[PlainCollection, PlainCollection], PlainCollection]:
    """Return the plain program that makes a row of each row of the sales, or leaves it out for None."""

    def program(sales: PlainCollection, users: PlainCollection) -> PlainCollection:
        rows = sales.map(lambda record: function(*row_of(record)))
        return rows.filter(lambda row: row is not None).map(record_of)

    return program


def without_nulls(sales: Any) -> Any:
    return sales.filter(Price.is_valid() & pc.field("item").is_valid())


def valid(sales: PlainCollection) -> PlainCollection:
    return sales.filter(lambda record: None not in record[1])


def per_item(sales: PlainCollection) -> PlainCollection:
    return valid(sales).map(lambda record: (record[1][0], record[1][1]))


PROGRAMS: Mapping[str, Program] = {
    "as it is": (lambda sales, users: sales, lambda sales, users: sales),
    "filter": (
        lambda sales, users: sales.filter((Price > 1) | (Day < 1)),
        on_rows(lambda u, i, p, d: (u, i, p, d) if d < 1 or (p is not None and p > 1) else None),
    ),
    "filter columns": (
        lambda sales, users: sales.filter(lambda u, i, p, d: (d > 1) & (i != "tea"), columns=True),
        on_rows(lambda u, i, p, d: (u, i, p, d) if d > 1 and i != "tea" else None),
    ),
    "filter records": (
        lambda sales, users: sales.filter(lambda sale: sale[1][1]),
        on_rows(lambda u, i, p, d: (u, i, p, d) if p else None),
    ),
    "select": (
        lambda sales, users: sales.select("item", "day", "user"),
        on_rows(lambda u, i, p, d: (i, d, u)),
    ),
    "select expressions": (
        lambda sales, users: sales.select("day", cost=Price * 2, item=pc.utf8_upper(pc.field("item"))),
        on_rows(lambda u, i, p, d: (d, p if p is None else p * 2, i if i is None else i.upper())),
    ),
    "map columns": (
        lambda sales, users: sales.map(lambda u, i, p, d: (i, d * 2, u), columns=["item", "twice", "user"]),
        on_rows(lambda u, i, p, d: (i, d * 2, u)),
    ),
    "map columns of Arrow": (
        lambda sales, users: sales.map(
            lambda u, i, p, d: (pc.fill_null(pa.array(u, pa.string()), "-"), d), columns=["user", "day"]
        ),
        on_rows(lambda u, i, p, d: ("-" if u is None else u, d)),
    ),
    "distinct": (lambda sales, users: sales.distinct(), lambda sales, users: sales.distinct()),
    "distinct columns": (
        lambda sales, users: sales.distinct().select("user", "price", "item"),
        lambda sales, users: on_rows(lambda u, i, p, d: (u, p, i))(sales.distinct(), users),
    ),
    "distinct pairs": (
        lambda sales, users: users.distinct().filter(pc.field("city") == "Bonn"),
        lambda sales, users: users.distinct().filter(lambda user: user[1] == "Bonn"),
    ),
    "negate": (
        lambda sales, users: sales.concat(sales.filter(Price == 1).negate()),
        on_rows(lambda u, i, p, d: None if p == 1 else (u, i, p, d)),
    ),
    "least": (lambda sales, users: without_nulls(sales).reduce_min(), lambda sales, users: valid(sales).reduce_min()),
    "greatest": (
        lambda sales, users: without_nulls(sales).reduce_max(),
        lambda sales, users: valid(sales).reduce_max(),
    ),
    "top": (lambda sales, users: without_nulls(sales).top_k(2), lambda sales, users: valid(sales).top_k(2)),
    "sum": (
        lambda sales, users: without_nulls(sales).select("item", "price").reduce_sum(),
        lambda sales, users: per_item(sales).reduce_sum(),
    ),
    "mean": (
        lambda sales, users: without_nulls(sales).select("item", "price").reduce_mean(),
        lambda sales, users: per_item(sales).reduce_mean(),
    ),
    "reduce": (
        lambda sales, users: sales.reduce(lambda user, found: [len({item for item, _, _ in found})]),
        lambda sales, users: sales.reduce(lambda user, found: [len({item for item, _, _ in found})]),
    ),
    "join": (
        lambda sales, users: sales.join(users),
        lambda sales, users: sales.join(users, lambda key, left, city: (key, (*left, city))),
    ),
    "join the other way": (
        lambda sales, users: users.join(sales),
        lambda sales, users: users.join(sales, lambda key, city, right: (key, (city, *right))),
    ),
    "join columns": (
        lambda sales, users: sales.join(users, lambda u, i, p, d, c: (c, i, d), columns=["city", "item", "day"]),
        lambda sales, users: sales.join(users, lambda key, left, city: (city, (left[0], left[2]))),
    ),
    "join records": (
        lambda sales, users: sales.join(users, lambda user, sale, city: (city, sale[0])),
        lambda sales, users: sales.join(users, lambda user, sale, city: (city, sale[0])),
    ),
    "join with the best": (
        lambda sales, users: (
            without_nulls(sales)
            .join(without_nulls(sales).select("user", best=Price).reduce_max())
            .filter(Price == pc.field("best"))
        ),
        lambda sales, users: (
            valid(sales)
            .join(
                valid(sales).map(lambda record: (record[0], record[1][1])).reduce_max(),
                lambda key, sale, best: (key, (*sale, best)),
            )
            .filter(lambda record: record[1][1] == record[1][3])
        ),
    ),
    "semijoin": (
        lambda sales, users: sales.semijoin(users.select("user")).select("item", "user", "day"),
        lambda sales, users: on_rows(lambda u, i, p, d: (i, u, d))(
            sales.semijoin(users.map(lambda user: user[0])), users
        ),
    ),
    "antijoin": (
        lambda sales, users: sales.antijoin(users.select("user")).filter(Day > 1),
        lambda sales, users: sales.antijoin(users.map(lambda user: user[0])).filter(lambda record: record[1][2] > 1),
    ),
    "iterate": (
        lambda sales, users: sales.distinct().iterate(
            lambda inner: (
                inner.select("user", "item", "price", day=pc.if_else(Day > 4, Day, Day + 1)).concat(inner).distinct()
            )
        ),
        lambda sales, users: sales.distinct().iterate(
            lambda inner: (
                on_rows(lambda u, i, p, d: (u, i, p, d if d > 4 else d + 1))(inner, users).concat(inner).distinct()
            )
        ),
    ),
}

Sales = st.tuples(
    st.sampled_from(("ann", "bob", None)),
    st.sampled_from(("tea", "oil", None)),
    st.sampled_from((0, 1, 2, None)),
    st.sampled_from((0.5, 2.0, 3.25)),
)
Users = st.tuples(st.sampled_from(("ann", "bob", None)), st.sampled_from(("Rome", "Bonn")))
Counts = st.sampled_from((1, 1, 1, -1, 2))
Epoch: TypeAlias = tuple[list[tuple[Row, int]], list[tuple[Row, int]]]
Histories = st.lists(
    st.tuples(st.lists(st.tuples(Sales, Counts), max_size=4), st.lists(st.tuples(Users, Counts), max_size=2)),
    min_size=1,
    max_size=3,
)


def tables(rows: Sequence[Sequence[tuple[Row, int]]], schema: pa.Schema) -> tw.IterableSource[Any]:
    """Return a source of one table for each epoch that has rows."""
    found = []
    for epoch, changes in enumerate(rows):
        if changes:
            columns = zip(*(row for row, _ in changes), strict=True)
            table = pa.table(
                [pa.array(one, kind) for one, kind in zip(columns, schema.types, strict=True)], schema.names
            )
            found.append((epoch, table.append_column("diff", pa.array([count for _, count in changes], pa.int64()))))
    return tw.IterableSource([found])


def described(history: Sequence[Epoch], names: Sequence[str]) -> tw.Dataflow:
    """Return a dataflow that captures the changes of what programs make of both inputs, as records and as tables."""
    flow = tw.Dataflow("wide")
    sales = flow.source("sales", tables([epoch[0] for epoch in history], SCHEMA)).probe("sales")
    users = flow.source("users", tables([epoch[1] for epoch in history], TEXTS)).probe("users")
    inputs = [sales.as_collection(columns=SALES, diff="diff"), users.as_collection(columns=USERS, diff="diff")]
    for name in names:
        made = PROGRAMS[name][0](*inputs)
        made.changes().capture(f"records of {name}")
        made.changes(columns=made.columns or ["key", "value"]).capture(f"tables of {name}")
    return flow


def check(job: tw.types.Job, history: Sequence[Epoch], name: str) -> None:
    """Compare the sum of all changes until each epoch with plain Python."""
    for epoch in range(len(history)):
        inputs = [
            PlainCollection(
                _summed((record_of(row), count) for one in history[: epoch + 1] for row, count in one[side])
            )
            for side in (0, 1)
        ]
        expected = PROGRAMS[name][1](*inputs).counts
        records = [one.batch for one in job.captured(f"records of {name}") if one.time <= epoch]
        assert _present(change for batch in records for change in batch) == expected, f"records of {name} at {epoch}"
        rows = [one.batch.to_pylist() for one in job.captured(f"tables of {name}") if one.time <= epoch]
        changes = ((record_of(tuple(row.values())[:-1]), row["diff"]) for batch in rows for row in batch)
        assert _present(changes) == expected, f"tables of {name} at {epoch}"


@law_settings(60)
@given(st.sampled_from(sorted(PROGRAMS)), Histories, st.sampled_from((1, 2, 4)))
def test_each_epoch_is_what_plain_python_says(name: str, history: list[Epoch], workers: int) -> None:
    """Any operator on any tables, whether the changes are read as records or as tables."""
    with tw.run(described(history, [name]), workers=workers, engine="local") as job:
        job.wait(DEADLINE_S)
        check(job, history, name)


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.usefixtures("ray_cluster")
@law_settings(3)
@given(Histories)
def test_programs_on_ray_are_what_plain_python_says(history: list[Epoch]) -> None:
    """All operators in one job, with workers to which expressions and rows travel. A NaN in a row is found again."""
    flow = described(history, sorted(PROGRAMS))
    row = ("ann", "tea", 1, float("nan"))
    rows = flow.source("NaN", tables([[(row, 1)], [(row, -1)]], SCHEMA)).as_collection(columns=SALES, diff="diff")
    rows.select("item", "user", "day").distinct().changes().capture("NaN")
    with tw.run(flow, workers=2) as job:
        job.wait(DEADLINE_S)
        for name in PROGRAMS:
            check(job, history, name)
        assert sum(count for one in job.captured("NaN") for _, count in one.batch) == 0
        assert len(job.captured("NaN")) == 2


def _summed(changes: Any) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for record, count in changes:
        found[record] += count
    return found


def _present(changes: Any) -> dict[Any, int]:
    return {record: count for record, count in _summed(changes).items() if count}
