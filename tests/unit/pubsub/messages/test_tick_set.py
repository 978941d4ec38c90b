"""Sets of ticks, against plain sets of numbers."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit.exactly_once.ranges import BEYOND, RANGES, TICKS, ranges_of, ticks_of
from tests.laws.strategies import law_settings
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.messages.tick_set import FOREVER, TickRange, TickSet, gaps

CHANGES = st.lists(st.tuples(st.booleans(), RANGES), max_size=8)
SETS = st.lists(RANGES, max_size=5)


@law_settings(500)
@given(changes=CHANGES, within=RANGES)
@example(changes=[(True, (0, FOREVER)), (False, (BEYOND, FOREVER))], within=(3, FOREVER))
def test_a_set_of_ranges_is_a_set_of_ticks(changes: list[tuple[bool, TickRange]], within: TickRange) -> None:
    """After any changes the set has the ticks that it should, as ranges that do not touch, and answers accordingly."""
    ticks, model = TickSet(), set[int]()
    for is_added, (first, end) in changes:
        if is_added:
            ticks.add(first, end)
            model |= ticks_of((first, end))
        else:
            ticks.remove(first, end)
            model -= ticks_of((first, end))
        assert tuple(ticks) == ticks.ranges() == ranges_of(model)
    asked = ticks_of(within)
    assert ticks.ranges(*within) == ranges_of(model & asked)
    assert ticks.missing(*within) == ranges_of(asked - model)
    assert ticks.missing() == ranges_of(set(TICKS) - model)
    assert [tick for tick in TICKS if tick in ticks] == sorted(model)
    for tick in TICKS:
        absent = [later for later in TICKS if later >= tick and later not in model]
        assert ticks.next_missing(tick) == (absent[0] if absent else FOREVER)
    assert ticks.prefix_end == ticks.next_missing(0)
    assert ticks.first == min(model, default=FOREVER)
    assert ticks.end == (ranges_of(model)[-1][1] if model else 0)
    assert (len(ticks), bool(ticks)) == (len(ranges_of(model)), bool(model))


@law_settings(200)
@given(ranges=SETS, others=SETS, tick=st.integers(0, BEYOND))
def test_new_sets_are_made_as_of_plain_sets(ranges: list[TickRange], others: list[TickRange], tick: int) -> None:
    """Intersection and difference, of what the two sets have at the time; neither changes."""
    one, other = TickSet(ranges), TickSet(others)
    model, other_model = ticks_of(*ranges), ticks_of(*others)
    assert one.intersection(other).ranges() == ranges_of(model & other_model)
    assert one.difference(other).ranges() == ranges_of(model - other_model)
    assert (one == other) == (model == other_model)
    copied = TickSet(one)
    copied.difference_update(others)
    assert copied == one.difference(other)
    assert (one.ranges(), other.ranges()) == (ranges_of(model), ranges_of(other_model))
    one.remove(0, tick)
    assert one.ranges() == ranges_of(model - set(range(tick)))


def test_a_million_ticks_are_one_range_in_whatever_order_they_come() -> None:
    """Ranges that touch become one: neither their number nor what they cover matters."""
    ticks = TickSet()
    for start in (0, 500, 250, 750):
        for first in range(start * 1000, (start + 250) * 1000, 1000):
            ticks.add(first, first + 1000)
    assert ticks.ranges() == ((0, 1_000_000),)
    assert len(ticks) == 1


def test_ranges_handed_out_stay_as_they_are() -> None:
    """What was read of a set, and an iteration that has begun, do not change with it."""
    ticks = TickSet([(0, 5), (7, 9)])
    before, reading = ticks.ranges(), iter(ticks)
    ticks.add(5, 7)
    assert before == tuple(reading) == ((0, 5), (7, 9))


@pytest.mark.parametrize("wrong", [(-1, 3), (3, 2), (0, FOREVER + 1), (FOREVER + 1, FOREVER + 1)])
def test_what_is_no_range_is_refused(wrong: TickRange) -> None:
    """By everything that takes one, with the range named; and the set stays as it is."""
    ticks = TickSet([(2, 4)])
    for call in (ticks.add, ticks.remove, ticks.ranges, ticks.missing):
        with pytest.raises(ProtocolError, match=rf"\({wrong[0]}, {wrong[1]}\) is no range of ticks"):
            call(*wrong)
    assert ticks == TickSet([(2, 4)])


def test_a_range_without_ticks_is_one() -> None:
    """Nothing is added, removed or found by it, also at the very end."""
    ticks = TickSet([(2, 4)])
    for tick in (0, 3, FOREVER):
        ticks.add(tick, tick)
        ticks.remove(tick, tick)
        assert ticks.ranges(tick, tick) == ticks.missing(tick, tick) == ()
    assert ticks == TickSet([(2, 4)])


def test_a_set_is_no_key_and_equals_only_sets() -> None:
    """It changes, so it has no hash."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(TickSet())
    assert TickSet([(0, 1)]) != ((0, 1),)
    assert repr(TickSet([(0, 1)])) == "TickSet([(0, 1)])"


@pytest.mark.parametrize(
    ("ticks", "left"),
    [((), ((3, 9),)), ((3, 8), ((4, 8),)), ((4, 5), ((3, 4), (6, 9))), (tuple(range(3, 9)), ())],
    ids=["none", "both ends", "middle", "all"],
)
def test_gaps_between_messages(ticks: tuple[int, ...], left: tuple[TickRange, ...]) -> None:
    """What is left of a range."""
    assert gaps(3, 9, ticks) == left
