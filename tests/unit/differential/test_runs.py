"""Runs: a merge is the sum of both, in batches with ever greater keys, and a key is found in the one that has it."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.differential import runs
from tidewheel.differential.batch import Batch, batch_of
from tidewheel.differential.runs import Run, merged_runs
from tidewheel.differential.updates import Updates

BIG = np.iinfo(np.int64)
KEYS = (BIG.min, -3, 0, 1, 2, 3, 2**59, BIG.max)
Row = tuple[int, int, int, int]
Rows = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from((-1, 0, 1, 500)), st.integers(0, 3), st.sampled_from((-1, 1, 2))),
    max_size=12,
)


def test_two_runs_become_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also runs that are merged already, and whether or not words have room for their columns."""
    monkeypatch.setattr(runs, "_MOST_AT_ONCE", 3)
    monkeypatch.setattr(runs, "_PART", 2)
    lengths = set()

    @law_settings(200)
    @given(st.lists(Rows, max_size=4), st.integers(0, 3), st.sets(st.sampled_from(KEYS)))
    @example([[(1, 0, 0, 2**62)], [(1, 0, 0, 2**62 - 1), (2, 0, 0, 1), (3, 0, 0, 1)]], 0, {1})
    @example([[]], 0, set())
    @example([one_row_of(KEYS[:1])], 0, set(KEYS))
    @example([one_row_of(KEYS[:1]), one_row_of(KEYS[-3:])], 0, set(KEYS))
    @example([one_row_of(KEYS[:3]), one_row_of(KEYS[-3:])], 0, set(KEYS))
    @example([one_row_of(KEYS[:3]), one_row_of(KEYS[-5:])], 0, set(KEYS))
    def holds(parts: list[list[Row]], since: int, keys: set[int]) -> None:
        made = list[Batch]()
        for rows in parts:
            batch = batch_of(updates_of(rows))
            if batch is not None:
                made = merged_runs(Run(made), Run([batch]), (since,)) if made else [batch]
        lengths.add(len(made))
        rows = [row for batch in made for row in rows_of(batch)]
        assert sums_of(rows, since) == sums_of([row for part in parts for row in part], since)
        assert all(rows_of(one)[-1][0] < rows_of(other)[0][0] for one, other in pairwise(made))
        sought = np.array(sorted(keys), np.int64)
        placed = Run(made).place(sought) if made and len(sought) else []
        found = {
            key: one.batch.column(0, np.arange(start, start + count)).tolist()
            for one in placed
            for key, start, count in zip(sought[one.found], one.starts, one.counts, strict=True)
        }
        assert found == {key: [key] * count for key in keys if (count := sum(row[0] == key for row in rows))}

    holds()
    assert lengths >= {0, 1, 2, 3, 4}


def one_row_of(keys: Sequence[int]) -> list[Row]:
    return [(key, 0, 0, 1) for key in keys]


def updates_of(rows: Sequence[Row]) -> Updates:
    keys, values, times, diffs = np.array(rows, np.int64).reshape(-1, 4).T
    return Updates(keys, values, (times,), diffs)


def sums_of(rows: Sequence[Row], since: int) -> list[Row]:
    """Return the sums of updates whose times are advanced."""
    batch = batch_of(updates_of([(key, value, max(time, since), diff) for key, value, time, diff in rows]))
    return [] if batch is None else rows_of(batch)


def rows_of(batch: Batch) -> list[Row]:
    updates = batch.updates
    columns = (updates.keys, updates.values, *updates.times, updates.diffs)
    return list(zip(*(column.tolist() for column in columns), strict=True))
