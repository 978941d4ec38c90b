"""Batches: keys are found by a table of all numbers as they are by a search."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.differential import batch as batches
from tidewheel.differential.batch import batch_of
from tidewheel.differential.updates import at_time

BIG = np.iinfo(np.int64)
Keys = st.sets(st.sampled_from((BIG.min, -7, -2, -1, 0, 1, 2, 3, 50, BIG.max)), min_size=1)


def test_keys_are_where_a_search_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_MANY_KEYS", 0)
    by_table = []

    @law_settings(200)
    @given(Keys, Keys)
    def holds(present: set[int], asked: set[int]) -> None:
        have, keys = np.array(sorted(present)), np.array(sorted(asked))
        batch = batch_of(at_time(have, have, np.ones(len(have), np.int64), (0,)))
        assert batch is not None
        by_table.append(max(present) - min(present) < batches._MOST_PLACES * len(keys))
        placed = batch.place(keys)
        if placed is None:
            assert not present & asked
            return
        assert keys[placed.found].tolist() == sorted(present & asked) == batch.keys[placed.places].tolist()
        assert batch.values_at(placed.starts).tolist() == sorted(present & asked)

    holds()
    assert any(by_table)
    assert not all(by_table)
