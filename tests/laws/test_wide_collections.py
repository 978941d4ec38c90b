"""Collections of records of four columns, with strings and nulls, against plain Python on the input of each epoch."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
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
    """Return a source of one table for each epoch."""
    found = []
    for epoch, changes in enumerate(rows):
        columns = zip(schema.names, zip(*(row for row, _ in changes), strict=True), strict=False)
        table = (
            pa.table({name: pa.array(values, schema.field(name).type) for name, values in columns}) if changes else None
        )
        if table is not None:
            found.append((epoch, table.append_column("diff", pa.array([count for _, count in changes], pa.int64()))))
    return tw.IterableSource([found])


def run(history: Sequence[Epoch], program: Program, workers: int) -> tuple[list[tw.Captured], list[tw.Captured]]:
    """Return the changes of what a program makes of both inputs, as records and as tables if its columns have names."""
    flow = tw.Dataflow("wide")
    sales = flow.source("sales", tables([epoch[0] for epoch in history], SCHEMA)).probe("sales")
    users = flow.source("users", tables([epoch[1] for epoch in history], TEXTS)).probe("users")
    made = program[0](sales.as_collection(columns=SALES, diff="diff"), users.as_collection(columns=USERS, diff="diff"))
    made.changes().capture("records")
    made.changes(columns=made.columns or ["key", "value"]).capture("tables")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait(DEADLINE_S)
        return list(job.captured("records")), list(job.captured("tables"))


@law_settings(60)
@given(st.sampled_from(sorted(PROGRAMS)), Histories, st.sampled_from((1, 2, 4)))
def test_each_epoch_is_what_plain_python_says(name: str, history: list[Epoch], workers: int) -> None:
    """Any operator on any tables, whether the changes are read as records or as tables."""
    records, found_tables = run(history, PROGRAMS[name], workers)
    for epoch in range(len(history)):
        present = [
            PlainCollection(
                _summed((record_of(row), count) for one in history[: epoch + 1] for row, count in one[side])
            )
            for side in (0, 1)
        ]
        expected = PROGRAMS[name][1](*present).counts
        changes = (change for one in records if one.time <= epoch for change in one.batch)
        assert _present(changes) == expected, f"records at epoch {epoch}"
        rows = (row for one in found_tables if one.time <= epoch for row in one.batch.to_pylist())
        in_columns = ((record_of(tuple(row.values())[:-1]), row["diff"]) for row in rows)
        assert _present(in_columns) == expected, f"tables at epoch {epoch}"


def _summed(changes: Any) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for record, count in changes:
        found[record] += count
    return found


def _present(changes: Any) -> dict[Any, int]:
    return {record: count for record, count in _summed(changes).items() if count}
