"""Batches: keys are found by a table of all numbers as they are by a search."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.differential import batch as batches
from tidewheel.differential.batch import Batch, batch_of, merged
from tidewheel.differential.updates import Updates, at_time

BIG = np.iinfo(np.int64)
Rows = st.lists(
    st.tuples(
        st.sampled_from((BIG.min, -3, 0, 1, 2, 3, 2**59)),
        st.sampled_from((-1, 0, 1, 500)),
        st.integers(0, 3),
        st.sampled_from((-1, 1, 1, 2, 2**55)),
    ),
    max_size=12,
)
Keys = st.sets(st.sampled_from((BIG.min, -7, -2, -1, 0, 1, 2, 3, 50, BIG.max)), min_size=1)


def test_a_large_batch_keeps_an_index_of_few_keys_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of keys with a row each would take twice the memory of the batch."""
    monkeypatch.setattr(batches, "MOST_INDEXED", 500)
    for rows, keys, expected in ((400, 400, True), (6000, 6000, False), (6000, 1000, False), (6000, 10, True)):
        values = np.arange(rows)
        batch = batch_of(at_time(values % keys, values, np.ones(rows, np.int64), (0,)))
        assert batch is not None
        assert (batch.index()[0] is batch.index()[0]) == expected
        placed = batch.place(np.array([3, 5]))
        assert placed is not None
        assert placed.counts.tolist() == [rows // keys] * 2


@pytest.mark.parametrize("indexed", [True, False])
def test_keys_are_where_they_are_expected(indexed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a batch with an index by a search or a table, and else by a search among its words."""
    if not indexed:
        monkeypatch.setattr(batches, "MOST_INDEXED", 0)
        monkeypatch.setattr(batches, "_MOST_PLACES", 0)
    monkeypatch.setattr(batches, "_MANY_KEYS", 0)
    kinds = set()

    @law_settings(200)
    @given(Keys, Keys)
    def holds(present: set[int], asked: set[int]) -> None:
        have, keys = np.array(sorted(present)), np.array(sorted(asked))
        rows = np.repeat(have, 2)
        values = np.arange(len(rows)) % 2 * 7
        batch = batch_of(at_time(rows, values, np.ones(len(rows), np.int64), (0,)))
        assert batch is not None
        placed = batch.place(keys)
        if placed is None:
            assert not present & asked
            return
        both = sorted(present & asked)
        assert keys[placed.found].tolist() == both == batch.column(0, placed.starts).tolist()
        assert placed.counts.tolist() == [2] * len(both)
        assert placed.places is None or batch.keys[placed.places].tolist() == both
        kinds.add((placed.places is None, max(present) - min(present) < batches._MOST_PLACES * len(keys)))

    holds()
    assert kinds == ({(False, True), (False, False)} if indexed else {(True, False), (False, False)})


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_two_batches_become_their_sum(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they are merged at once or some keys at a time, and whether or not words have room for the sums."""
    monkeypatch.setattr(batches, "_MOST_MERGED", most)
    kinds = set()

    @law_settings(150)
    @given(Rows, Rows, st.integers(0, 3))
    @example([(1, 0, 0, 2**61)], [(1, 0, 0, 2**61)], 0)  # the sum needs a bit more than merged words leave to diffs
    def holds(some: list[tuple[int, ...]], others: list[tuple[int, ...]], since: int) -> None:
        one, other = batch_of(updates_of(some)), batch_of(updates_of(others))
        if one is None or other is None:
            return
        made = merged(one, other, (since,))
        late = [(key, value, max(time, since), diff) for key, value, time, diff in (*some, *others)]
        expected = batch_of(updates_of(late))
        assert rows_of(made) == rows_of(expected)
        kinds.add(made is not None and made._words is not None)

    holds()
    assert kinds == {True, False}


def updates_of(rows: Sequence[tuple[int, ...]]) -> Updates:
    keys, values, times, diffs = np.array(rows, np.int64).reshape(-1, 4).T
    return Updates(keys, values, (times,), diffs)


def rows_of(batch: Batch | None) -> list[tuple[int, ...]]:
    if batch is None:
        return []
    updates = batch.updates
    columns = (updates.keys, updates.values, *updates.times, updates.diffs)
    return list(zip(*(column.tolist() for column in columns), strict=True))
