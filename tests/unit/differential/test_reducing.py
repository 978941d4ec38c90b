"""A reduction is right at every time of a partial order, whatever changes when."""

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.collections.plain_collection import PlainCollection
from tests.laws.strategies import law_settings
from tidewheel.differential import spine
from tidewheel.differential.records import decode, encode
from tidewheel.differential.reducing import ReduceState
from tidewheel.differential.reductions import Count, Extreme, Grouped, Reduction, Sum, Threshold, TopK
from tidewheel.differential.updates import FlatTime, lower_bound

Times = st.tuples(st.integers(0, 2), st.integers(0, 3))
Pairs = st.tuples(st.integers(0, 2), st.integers(0, 3))
Mixed = st.tuples(st.integers(0, 2), st.sampled_from((0, 1, 2.5, "a", None)))
History = list[tuple[FlatTime, Any, int]]
COUNTS = st.sampled_from((1, 1, -1, 2))

REDUCTIONS: dict[str, tuple[Reduction, Any]] = {
    "distinct": (Threshold(), lambda c: c.distinct()),
    "count": (Count(), lambda c: c.count()),
    "min": (Extreme(greatest=False), lambda c: c.reduce_min()),
    "max": (Extreme(greatest=True), lambda c: c.reduce_max()),
    "sum": (Sum(mean=False), lambda c: c.reduce_sum()),
    "mean": (Sum(mean=True), lambda c: c.reduce_mean()),
    "top": (TopK(2, greatest=True), lambda c: c.top_k(2)),
    "reduce": (
        Grouped(lambda key, values: [len(values), sum(values)]),
        lambda c: c.reduce(lambda key, values: [len(values), sum(values)]),
    ),
}
ANY_VALUES = {"distinct", "count"}


def less_equal(one: FlatTime, other: FlatTime) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def reduced(history: History, reduction: Reduction) -> dict[FlatTime, Counter[Any]]:
    """Complete all times in order, and compact behind; return what comes out at each."""
    state, to_do = ReduceState(2, "test", keeps_values=reduction.keeps_values), {time for time, _, _ in history}
    found: dict[FlatTime, Counter[Any]] = defaultdict(Counter)
    while to_do:
        time = min(to_do)
        to_do.remove(time)
        state.let_go(lower_bound([time, *to_do]))
        arrays = [encode([record], [count]) for at, record, count in history if at == time]
        array, later = state.complete(time, arrays, reduction)
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
    @given(st.lists(st.tuples(Times, Mixed if name in ANY_VALUES else Pairs, COUNTS), max_size=8))
    def holds(history: History) -> None:
        found = reduced(history, reduction)
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
    state = ReduceState(1, "test", keeps_values=True)
    for epoch in range(2500):
        state.let_go((epoch,))
        changes = [encode([("key", f"value {epoch}")])]
        changes += [encode([("key", f"value {epoch - 1}")], [-1])] if epoch else []
        array, _ = state.complete((epoch,), changes, Extreme(greatest=True))
        assert array is not None
    assert len(state.spines[0]) < 20
    assert len(state.spines[1]) < 20
    assert len(state._codes[0]) < 1500


def test_sums_may_be_larger_than_64_bits() -> None:
    state = ReduceState(1, "test", keeps_values=False)
    array, _ = state.complete((0,), [encode([("a", 2**62), ("a", 2**62 + 1)])], Sum(mean=False))
    assert array is not None
    assert decode(array) == [("a", 2**63 + 1)]


def test_values_that_cannot_be_compared_are_refused() -> None:
    """In Python's own words; those of different keys need not be comparable."""
    state = ReduceState(1, "test", keeps_values=True)
    array, _ = state.complete((0,), [encode([("a", 1), ("b", "x")])], Extreme(greatest=False))
    assert array is not None
    with pytest.raises(TypeError, match="'<' not supported"):
        state.complete((1,), [encode([("a", "x")])], Extreme(greatest=False))


def test_a_key_that_was_put_off_is_found_when_a_record_of_another_kind_arrives() -> None:
    """The key is put off until (1, 1), at which a record arrives that changes the codes of all keys."""
    found = reduced([((0, 1), (2, 0), 1), ((1, 0), (2, 0), 1), ((1, 1), (1, "a"), 1)], Count())

    assert found[1, 1] == {((2, 0), 1): -2, ((2, 0), 2): 1, ((1, "a"), 1): 1}
