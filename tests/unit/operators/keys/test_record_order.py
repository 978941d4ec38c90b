"""Orders of records: sorted batches of every kind, and what decides where the order does not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tests.laws.strategies import law_settings
from tidewheel.batches.batches import is_arrow, is_numpy, records
from tidewheel.operators.keys.record_order import Order, take

PAIRS = st.lists(st.tuples(st.integers(-2, 2), st.text("ab", max_size=2)), max_size=12)
TYPE = [("n", "i8"), ("w", "U2")]


def rows_of(pairs: list[tuple[int, str]]) -> list[Any]:
    return [{"n": n, "w": w} for n, w in pairs]


def table_of(pairs: list[tuple[int, str]]) -> Any:
    schema = pa.schema([("n", pa.int64()), ("w", pa.string())])
    return pa.Table.from_pylist(rows_of(pairs), schema=schema)


def array_of(pairs: list[tuple[int, str]]) -> Any:
    return np.array(pairs, dtype=TYPE)


def number(record: Any) -> int:
    return int(record["n"] if isinstance(record, dict) else record[0])


def pair(record: Any) -> tuple[int, str]:
    return (record["n"], record["w"]) if isinstance(record, dict) else tuple(record)


MAKERS = pytest.mark.parametrize("make", [rows_of, table_of, array_of, list], ids=lambda make: make.__name__)
ORDERS = st.sampled_from(("n", ("n",), ("w", "n"), number))


@MAKERS
@law_settings(60)
@given(pairs=PAIRS, by=ORDERS, reverse=st.booleans(), random=st.randoms(), limit=st.none() | st.integers(1, 13))
def test_a_batch_of_any_kind_is_sorted(
    make: Any, pairs: list[tuple[int, str]], by: Any, reverse: bool, random: Any, limit: int | None
) -> None:
    """By function or by names: none is lost, each comes in its place, and how they came makes no difference."""
    if make is list and not callable(by):
        by = number
    order = Order(by, reverse)
    batch = make(pairs)
    found = order.sorted(batch, limit)
    assert (is_arrow(found), is_numpy(found)) == (is_arrow(batch), is_numpy(batch))
    in_order = [pair(record) for record in records(found)]
    key: Callable[[Any], Any] = number if by in {"n", ("n",), number} else (lambda record: (record[1], record[0]))
    assert [key(record) for record in in_order] == sorted(map(key, pairs), reverse=reverse)[:limit]
    assert limit is not None or sorted(in_order) == sorted(pairs)
    random.shuffle(pairs)
    assert [pair(record) for record in records(order.sorted(make(pairs), limit))] == in_order


@MAKERS
@law_settings(30)
@given(pairs=PAIRS, reverse=st.booleans())
def test_without_a_function_or_names_records_are_compared(
    make: Any, pairs: list[tuple[int, str]], reverse: bool
) -> None:
    """Rows of tables and arrays by all columns, tuples as Python does; dicts in a list cannot be."""
    batch = make(pairs)
    if make is rows_of:
        if len(pairs) > 1:
            with pytest.raises(TypeError, match="records cannot be compared: '<' not supported between"):
                Order(None).sorted(batch)
        return
    assert [pair(record) for record in records(Order(None, reverse).sorted(batch))] == sorted(pairs, reverse=reverse)


def test_indices_say_where_records_come_from() -> None:
    """For batches of all kinds, up to a limit."""
    pairs = [(3, "a"), (1, "b"), (2, "c")]
    for batch in (rows_of(pairs), table_of(pairs), array_of(pairs)):
        assert list(Order("n" if not isinstance(batch, list) else number).indices(batch)) == [1, 2, 0]
        assert list(Order(number).indices(batch, 2)) == [1, 2]
        assert [pair(record) for record in records(take(batch, [2, 0]))] == [(2, "c"), (3, "a")]


def test_ties_cost_nothing_where_there_are_none() -> None:
    """Records that the order tells apart need no hash, and may be anything."""
    functions = [round, open]  # not print, which Ray replaces
    assert Order(lambda function: function.__name__).sorted(functions) == [open, round]
    with raises(TypeError):
        Order(lambda function: 0).sorted(functions)
    assert Order(lambda function: len(function.__name__), reverse=True).sorted([round, open, len, max], limit=2) == [
        round,
        open,
    ], "those that are equal behind the limit do not matter"


def test_tied_rows_are_told_apart_by_nested_columns_too() -> None:
    """Which Arrow itself does not sort."""
    lists = [[1, 2], [3], None, []]
    found = {
        str(Order("n").sorted(pa.table({"n": [0] * 4, "l": lists[turn:] + lists[:turn]}))["l"].to_pylist())
        for turn in range(4)
    }
    assert len(found) == 1
    with pytest.raises((TypeError, NotImplementedError)):
        Order("l").sorted(pa.table({"l": lists}))


MIXED: st.SearchStrategy[Any] = (
    st.integers(-2, 2)
    | st.text("ab", max_size=1)
    | st.none()
    | st.floats(0, 1)
    | st.tuples(st.integers(0, 1))
    | st.just([])
)


@law_settings(100)
@given(st.lists(MIXED, min_size=1, max_size=8), st.integers(1, 7), st.randoms())
def test_what_content_decides_does_not_depend_on_what_was_compared_before(
    rows: list[Any], middle: int, random: Any
) -> None:
    """The first of all is the first of the firsts of any parts, also where records are of several types."""
    by_content = Order(lambda record: 0)
    (first,) = by_content.sorted(rows, 1)
    random.shuffle(rows)
    firsts = [by_content.sorted(part, 1)[0] for part in (rows[:middle], rows[middle:]) if part]
    assert repr(by_content.sorted(firsts, 1)) == repr([first])
    assert repr(by_content.sorted(rows)[0]) == repr(first)
