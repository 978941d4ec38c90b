"""A join is right at every time of a partial order, in whatever order its updates arrive."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.collections.plain_collection import PlainCollection
from tests.laws.strategies import law_settings
from tidewheel.differential import spine
from tidewheel.differential.joining import JoinState
from tidewheel.differential.records import encode
from tidewheel.differential.updates import FlatTime

Times = st.tuples(st.integers(0, 2), st.integers(0, 2))
Pairs = st.tuples(st.sampled_from((0, 1, 2.0, "a")), st.integers(0, 2))
Batches = st.lists(
    st.tuples(Times, st.lists(st.tuples(Pairs, st.sampled_from((1, -1, 2))), min_size=1, max_size=4)),
    min_size=1,
    max_size=3,
)
Arrivals = st.lists(st.tuples(st.integers(0, 1), Batches), max_size=5)


def less_equal(one: FlatTime, other: FlatTime) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


@law_settings(60)
@given(Arrivals)
def test_the_result_is_right_at_every_time(arrivals: list[tuple[int, Any]]) -> None:
    """Each pair of updates meets once, at the least upper bound of its times."""
    state, found = JoinState(2, "test"), []
    known: tuple[list[Any], list[Any]] = ([], [])
    for side, batches in arrivals:
        times = [time for time, _ in batches]
        arrays = [encode([record for record, _ in batch], [count for _, count in batch]) for _, batch in batches]
        known[side].extend((time, record, count) for time, batch in batches for record, count in batch)
        for joined in state.receive(side, times, arrays):
            rows = zip(*(one.tolist() for one in (*joined.columns, *joined.times, joined.diffs)), strict=True)
            found += [((e, r), (key, (left, right)), diff) for key, left, right, e, r, diff in rows]
            assert all(any(less_equal(early, time) for early in times) for time, _, _ in found[-len(joined.diffs) :])
    for time in [(epoch, number) for epoch in range(3) for number in range(3)]:
        left, right, result = (accumulated(updates, time) for updates in (*known, found))
        assert result.counts == left.join(right).counts


def accumulated(updates: list[Any], time: FlatTime) -> PlainCollection:
    sums: Counter[Any] = Counter()
    for at, record, count in updates:
        if less_equal(at, time):
            sums[record] += count
    return PlainCollection(sums)


def test_a_side_that_nobody_joins_any_more_is_dropped() -> None:
    """The end of one input frees the arrangement of the other."""
    state = JoinState(1, "test")
    assert not list(state.receive(0, [(0,)], [encode([(1, 2)])]))
    state.let_go(left=(1,), right=None)
    assert len(state.spines[0]) == 0
    assert not list(state.receive(0, [(1,)], [encode([(1, 3)])]))
    assert len(state.spines[0]) == 0


def test_keys_out_of_use_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spine, "_SMALL", 0)
    state = JoinState(1, "test")
    for epoch in range(1500):
        state.let_go(left=(epoch,), right=(epoch,))
        assert not list(state.receive(0, [(epoch,)], [encode([(f"key {epoch}", "value")])]))
        assert not list(state.receive(0, [(epoch,)], [encode([(f"key {epoch}", "value")], [-1])]))
    assert len(state.spines[0]) < 20
    assert len(state._keys) < 1100
