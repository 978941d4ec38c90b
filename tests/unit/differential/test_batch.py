"""Batches: keys are found by a table of all numbers as they are by a search."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.differential import batch as batches
from tidewheel.differential.batch import batch_of
from tidewheel.differential.updates import at_time

BIG = np.iinfo(np.int64)
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


@pytest.mark.parametrize("by", ["index", "table", "search"])
def test_keys_are_where_they_are_expected(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a batch with an index, and in one without by a table or by a search among its words."""
    monkeypatch.setattr(batches, "_MANY_ROWS", 0 if by == "table" else BIG.max)
    if by != "index":
        monkeypatch.setattr(batches, "MOST_INDEXED", 0)
        monkeypatch.setattr(batches, "_MOST_PLACES", 0)
    monkeypatch.setattr(batches, "_MANY_KEYS", 0)
    kinds = set()

    @law_settings(200)
    @given(Keys, Keys)
    @example({1}, {1, 2})
    @example({1, 1000}, {1})
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
    assert kinds == ({(False, True), (False, False)} if by == "index" else {(True, False), (False, False)})
