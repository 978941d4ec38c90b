"""A reduction is right at every time of a partial order, whatever changes when."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.collections.plain_collection import PlainCollection
from tests.kit.messages import raises
from tests.laws.strategies import law_settings
from tidewheel.differential import spine
from tidewheel.differential.records import Array, decode, encode
from tidewheel.differential.reducing import Reducer
from tidewheel.differential.reductions import Count, Extreme, Grouped, Reduction, Sum, Threshold, TopK
from tidewheel.differential.shared_arrangement import MAIN, SharedArrangement
from tidewheel.differential.updates import FlatTime, lower_bound

Times = st.tuples(st.integers(0, 2), st.integers(0, 3))
Pairs = st.tuples(st.integers(0, 2), st.integers(0, 3))
Mixed = st.tuples(st.integers(0, 2), st.sampled_from((0, 1, 2.5, "a", None)))
Numbers = st.tuples(st.integers(0, 2), st.sampled_from((0, 1, 2, 0.5, 2**62)))
History = list[tuple[FlatTime, Any, int]]
COUNTS = st.sampled_from((1, 1, -1, 2))


def of_any_kind(key: int, values: list[Any]) -> list[Any]:
    """Return results of another kind for another number of values."""
    return [(len(values), 0.5, str(key), None, 2**70)[len(values) % 5]]


REDUCTIONS: dict[str, tuple[Reduction, Any]] = {
    "distinct": (Threshold(), lambda c: c.distinct()),
    "count": (Count(), lambda c: c.count()),
    "min": (Extreme(greatest=False), lambda c: c.reduce_min()),
    "max": (Extreme(greatest=True), lambda c: c.reduce_max()),
    "sum": (Sum(mean=False), lambda c: c.reduce_sum()),
    "mean": (Sum(mean=True), lambda c: c.reduce_mean()),
    "top": (TopK(2, greatest=True), lambda c: c.top_k(2)),
    "sum of numbers": (Sum(mean=False), lambda c: c.reduce_sum()),
    "reduce to any kind": (Grouped(of_any_kind), lambda c: c.reduce(of_any_kind)),
    "reduce": (
        Grouped(lambda key, values: [len(values), sum(values)]),
        lambda c: c.reduce(lambda key, values: [len(values), sum(values)]),
    ),
}
RECORDS = {"distinct": Mixed, "count": Mixed, "sum of numbers": Numbers}
"""The records of those reductions for which these are not pairs of small whole numbers."""


class State:
    """An arrangement with one reduction, which has the name "test"."""

    def __init__(self, depth: int, reduction: Reduction) -> None:
        self.arrangement = SharedArrangement(depth, "test", by_record=reduction.form != "pair")
        self._reducer = Reducer(self.arrangement, "test", reduction)

    def let_go(self, since: FlatTime | None) -> None:
        self._reducer.let_go(since)

    def receive(self, time: FlatTime, arrays: Sequence[Array]) -> None:
        for array in arrays:
            number = self.arrangement.receive(0, time, [array])
            if number is not None:
                self._reducer.receive(time, [number])

    def complete(self, time: FlatTime, arrays: Sequence[Array] = ()) -> tuple[Array | None, list[FlatTime]]:
        self.receive(time, arrays)
        changes, later = self._reducer.complete(time)
        return (np.concatenate(changes) if changes else None), later


def less_equal(one: FlatTime, other: FlatTime) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def reduced(history: History, reduction: Reduction, *, early: bool) -> dict[FlatTime, Counter[Any]]:
    """Complete all times in order, and compact behind; return what comes out at each.

    Updates come as late as they can, or all of them before the first time is complete.
    """
    state, to_do = State(2, reduction), {time for time, _, _ in history}
    for at, record, count in history if early else ():
        state.receive(at, [encode([record], [count])])
    found: dict[FlatTime, Counter[Any]] = defaultdict(Counter)
    while to_do:
        time = min(to_do)
        to_do.remove(time)
        state.let_go(lower_bound([time, *to_do]))
        arrays = [encode([record], [count]) for at, record, count in history if at == time and not early]
        array, later = state.complete(time, arrays)
        if array is not None:
            found[time].update(dict(zip(decode(array), array["diff"].tolist(), strict=True)))
        assert all(less_equal(time, one) and one != time for one in later)
        to_do |= set(later)
    return found


@pytest.mark.parametrize("name", REDUCTIONS)
def test_the_output_is_right_at_every_time(name: str) -> None:
    """Also where it differs because two changes meet for the first time, without any input then."""
    reduction, plain = REDUCTIONS[name]

    @law_settings(25)
    @given(st.lists(st.tuples(Times, RECORDS.get(name, Pairs), COUNTS), max_size=8), st.booleans())
    def holds(history: History, early: bool) -> None:
        found = reduced(history, reduction, early=early)
        for time in [(epoch, number) for epoch in range(3) for number in range(4)]:
            sums: Counter[Any] = Counter()
            for at, changes in found.items():
                if less_equal(at, time):
                    for record, count in changes.items():
                        sums[record] += count
            given_: Counter[Any] = Counter()
            for at, record, count in history:
                if less_equal(at, time):
                    given_[record] += count
            assert {record: count for record, count in sums.items() if count} == plain(PlainCollection(given_)).counts

    holds()


def test_what_is_replaced_again_and_again_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the arrangements nor among the interned values."""
    monkeypatch.setattr(spine, "_SMALL", 0)
    state = State(1, Extreme(greatest=True))
    for epoch in range(2500):
        state.let_go((epoch,))
        changes = [encode([("key", f"value {epoch}")])]
        changes += [encode([("key", f"value {epoch - 1}")], [-1])] if epoch else []
        array, _ = state.complete((epoch,), changes)
        assert array is not None
    assert len(state.arrangement.spines[MAIN]) < 20
    assert len(state.arrangement.spines["test"]) < 20
    assert len(state.arrangement.values) < 1500


def test_sums_may_be_larger_than_64_bits() -> None:
    state = State(1, Sum(mean=False))
    array, _ = state.complete((0,), [encode([("a", 2**62), ("a", 2**62 + 1)])])
    assert array is not None
    assert decode(array) == [("a", 2**63 + 1)]


def test_values_that_cannot_be_compared_are_refused() -> None:
    """In Python's own words; those of different keys need not be comparable."""
    state = State(1, Extreme(greatest=False))
    array, _ = state.complete((0,), [encode([("a", 1), ("b", "x")])])
    assert array is not None
    with raises(TypeError):
        state.complete((1,), [encode([("a", "x")])])


@pytest.mark.parametrize("early", [False, True])
def test_a_key_that_was_put_off_is_found_when_a_record_of_another_kind_arrives(*, early: bool) -> None:
    """The key is put off until (1, 1), at which a record arrives that changes the codes of all keys."""
    found = reduced([((0, 1), (2, 0), 1), ((1, 0), (2, 0), 1), ((1, 1), (1, "a"), 1)], Count(), early=early)

    assert found[1, 1] == {((2, 0), 1): -2, ((2, 0), 2): 1, ((1, "a"), 1): 1}
