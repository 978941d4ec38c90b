"""The ends of values and the times of keys are those of all rows, however few are read."""

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.differential import batch as batches_of
from tidewheel.differential import ends, spine
from tidewheel.differential.ends import ends_of, next_bounds
from tidewheel.differential.spine import Spine
from tidewheel.differential.updates import FlatTime, Updates, consolidate

Times = st.tuples(st.integers(0, 2), st.integers(0, 3))
Rows = st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3), Times, st.sampled_from((1, 1, -1, 2))), max_size=12)
KEYS = np.arange(4)
LATER = [(epoch, number) for epoch in range(3) for number in range(4)]
BIG = np.iinfo(np.int64)


@pytest.fixture(autouse=True)
def one_row_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one row of each key and batch read first, all times by masks, and small batches merged by size only."""
    monkeypatch.setattr(ends, "_FIRST", 1)
    monkeypatch.setattr(ends, "_FEW_ROWS", 0)
    monkeypatch.setattr(spine, "_SMALL", 0)


def spine_of(batches: list[Any]) -> Spine:
    made = Spine(2)
    for rows in batches:
        table = np.array([(key, value, *time, diff) for key, value, time, diff in rows], np.int64).reshape(-1, 5)
        keys, values, epochs, rounds, diffs = table.T
        made.insert(consolidate(Updates(keys, values, (epochs, rounds), diffs)))
    return made


def less_equal(one: FlatTime, other: FlatTime) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("greatest", [False, True])
def test_the_end_is_that_of_all_values_with_a_positive_count(greatest: bool) -> None:
    """At any time, though rows of later times or of values that are gone come before it."""

    @law_settings(60)
    @given(st.lists(Rows, max_size=4), Times)
    def holds(batches: list[Any], time: FlatTime) -> None:
        counts: Counter[tuple[int, int]] = Counter()
        for key, value, at, diff in (row for rows in batches for row in rows):
            if less_equal(at, time):
                counts[key, value] += diff
        found: dict[int, list[int]] = defaultdict(list)
        for (key, value), count in counts.items():
            if count > 0:
                found[key].append(value)
        made = spine_of(batches)
        ends = ends_of(made.place, made.place(KEYS), KEYS, time, greatest=greatest)
        end: Any = max if greatest else min
        now = dict(zip(ends.places.tolist(), ends.values.tolist(), strict=True))
        assert now == {key: end(values) for key, values in found.items()}
        settled = set(KEYS[ends.is_settled].tolist())
        assert settled <= now.keys()
        for later in LATER:
            if less_equal(time, later):
                then = ends_of(made.place, made.place(KEYS), KEYS, later, greatest=greatest)
                ends_then = dict(zip(then.places.tolist(), then.values.tolist(), strict=True))
                assert {key: ends_then.get(key) for key in settled} == {key: now[key] for key in settled}

    holds()


@pytest.mark.parametrize("masks", [True, False])
def test_a_key_has_the_first_of_all_bounds_of_its_times(masks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they are read from masks or, where a batch has too many times for these, from all rows."""
    if not masks:
        monkeypatch.setattr(batches_of, "MASK_BITS", 1)

    @law_settings(60)
    @given(st.lists(Rows, max_size=4), Times)
    def holds(batches: list[Any], time: FlatTime) -> None:
        made = spine_of(batches)
        expected: dict[FlatTime, set[int]] = defaultdict(set)
        for batch in made.batches:
            updates = batch.updates
            for key, *at in zip(updates.keys.tolist(), *(one.tolist() for one in updates.times), strict=True):
                bound = tuple(map(max, at, time))
                if bound != time:
                    expected[bound].add(key)
        found: dict[FlatTime, set[int]] = {}
        for bound, places in next_bounds(made.place(KEYS), len(KEYS), time):
            assert places.tolist() == sorted(set(places.tolist()))
            assert bound not in found
            found[bound] = set(places.tolist())
            assert found[bound] <= expected[bound]
        for bound, keys in expected.items():
            for key in keys:
                assert any(key in found[one] and less_equal(one, bound) for one in found), "or one that comes before"
        is_chain = all(less_equal(a, b) or less_equal(b, a) for a in expected for b in expected)
        assert not is_chain or sum(map(len, found.values())) == len(set().union(*expected.values()))

    holds()


def test_the_largest_values_have_ends() -> None:
    """A value may be as large as a bound that stands for none."""
    made = spine_of([[(0, value, (0, 0), 1) for value in (BIG.min, BIG.max)], [(1, BIG.max, (0, 0), 1)]])
    for greatest, expected in ((False, [BIG.min, BIG.max]), (True, [BIG.max, BIG.max])):
        found = ends_of(made.place, made.place(KEYS), KEYS, (0, 0), greatest=greatest)
        assert dict(zip(found.places.tolist(), found.values.tolist(), strict=True)) == dict(enumerate(expected))
