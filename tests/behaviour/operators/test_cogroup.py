"""Cogroup: the records of two streams by key."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Bags, operator_settings
from tests.kit.operators.two_sides import KEYS, NAN, WORKERS, Feed, Row, row_feeds, rows_at, run_two, table_of


@operator_settings(60)
@given(row_feeds(KEYS), row_feeds(KEYS), WORKERS)
def test_each_key_of_either_side_comes_once(left: Feed, right: Feed, workers: int) -> None:
    """Keys of all types, None and NaN among them, have one group each, with all records of both sides."""
    (results,) = run_two(lambda one, other: [one.cogroup(other, lambda row: row.key)], (left, right), workers)
    found: Bags = {}
    for result in results:
        found.setdefault(result.time, Counter()).update(map(with_numbers, result.batch))
    lefts, rights = rows_at(left), rows_at(right)
    assert found == {time: bag for time in lefts | rights if (bag := groups(lefts.get(time, []), rights.get(time, [])))}


def with_numbers(group: tuple[Any, list[Row], list[Row]]) -> Any:
    key, lefts, rights = group
    return (key if key == key else "NaN"), *(tuple(sorted(row.number for row in rows)) for rows in (lefts, rights))  # noqa: PLR0124


def groups(lefts: list[Row], rights: list[Row]) -> Counter[Any]:
    """Return the groups by their definition."""

    def is_same(one: Any, other: Any) -> bool:
        return bool(one == other) or (one != one and other != other)  # noqa: PLR0124

    distinct: list[Any] = []
    for row in lefts + rights:
        if not any(is_same(row.key, key) for key in distinct):
            distinct.append(row.key)
    sides = (lefts, rights)
    return Counter(
        with_numbers((key, *([row for row in side if is_same(row.key, key)] for side in sides))) for key in distinct
    )


def test_rows_become_dicts_by_name() -> None:
    """By name of a column the lists have dicts, of tables, structured arrays and dicts alike; keys match across."""

    def structured(rows: list[Row]) -> Any:
        return np.array([tuple(row) for row in rows], dtype=[("k", "f8"), ("n", "i8")])

    feeds: tuple[Feed, Feed] = ([(0, [Row(1, 5)])], [(0, [Row(1, 6), Row(NAN, 7)])])
    (results,) = run_two(
        lambda one, other: [one.cogroup(other, "k")], feeds, 2, (table_of(pa.int64(), "k", "n"), structured)
    )
    found = [group for result in results for group in result.batch]
    assert (1, [{"k": 1, "n": 5}], [{"k": 1.0, "n": 6}]) in found
    assert len(found) == 2


def test_a_key_that_cannot_be_one_is_refused() -> None:
    """The error names the operator."""
    stream: Any = tw.Dataflow("test").input("numbers")
    with raises(tw.GraphError):
        stream.cogroup(stream, None)
