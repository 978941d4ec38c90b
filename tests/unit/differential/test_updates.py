"""Updates are added up as a Counter does, in whatever ranges their columns are."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.differential import updates as updates_module
from tidewheel.differential.records import decode, encode
from tidewheel.differential.updates import Updates, consolidate, flat, nested, portions, split_by_time

SMALL = st.integers(-3, 3)
ANY = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.one_of(SMALL, ANY)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 3), st.integers(0, 2**62), st.integers(-3, 3)))


def updates_of(rows: list[tuple[int, ...]]) -> Updates:
    keys, values, epochs, rounds, diffs = np.array(rows, np.int64).reshape(-1, 5).T
    return Updates(keys, values, (epochs, rounds), diffs)


def rows_of(updates: Updates) -> list[tuple[int, ...]]:
    columns = (updates.keys, updates.values, *updates.times, updates.diffs)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@law_settings(40)
@given(st.one_of(ROWS, st.lists(st.tuples(SMALL, SMALL, st.integers(0, 2), st.integers(0, 2), st.integers(-2, 2)))))
@example([(2**63 - 1, 0, 0, 0, 1), (-(2**63), 0, 0, 0, 1), (2**63 - 1, 0, 0, 0, -1)])
def test_consolidated_updates_are_sorted_sums(rows: list[tuple[int, ...]]) -> None:
    """Equal ones become one, those that come to nothing go, and the rest is in order."""
    sums: Counter[tuple[int, ...]] = Counter()
    for *row, diff in rows:
        sums[tuple(row)] += diff
    expected = sorted((*row, diff) for row, diff in sums.items() if diff)
    assert rows_of(consolidate(updates_of(rows))) == expected


def test_times_are_flat_and_nested() -> None:
    for time in (3, (3, 1), ((3, 1), 2)):
        assert nested(flat(time)) == time


@law_settings(40)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8))
def test_rows_are_split_by_time(times: list[tuple[int, int]]) -> None:
    columns = [np.array([time[at] for time in times], np.int64) for at in (0, 1)]
    found = {time: np.arange(len(times))[rows].tolist() for time, rows in split_by_time(columns)}
    assert list(found) == sorted(set(times))
    assert all(sorted(rows) == [n for n, one in enumerate(times) if one == time] for time, rows in found.items())


def test_large_arrays_come_in_parts_and_small_ones_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows in order, at their times, and as many at once as is said."""
    monkeypatch.setattr(updates_module, "MOST_ROWS", 3)
    arrays = [encode(list(range(count))) for count in (1, 0, 2, 9, 1, 1)]
    found = list(portions(((number,), array) for number, array in enumerate(arrays)))
    sizes = [[len(array) for array in some] for _, some in found]
    assert sizes == [[1, 2], [3], [3], [3], [1, 1]]
    assert [times for times, _ in found] == [[(0,), (2,)], [(3,)], [(3,)], [(3,)], [(4,), (5,)]]
    assert [row for _, some in found for array in some for row in decode(array)] == [0, 0, 1, *range(9), 0, 0]
