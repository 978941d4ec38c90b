"""An arrangement that is merged and compacted answers as a list of all updates does."""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.differential.batch import Batch, advanced, batch_of
from tidewheel.differential.spine import Spine, at_or_before
from tidewheel.differential.updates import Updates, consolidate, lower_bound, summed

KEYS = 4
Times = st.tuples(st.integers(0, 3), st.integers(0, 3))
Rows = st.lists(st.tuples(st.integers(0, KEYS), st.integers(0, 3), Times, st.sampled_from((1, -1, 2))), max_size=6)


@dataclass(frozen=True)
class Step:
    """Updates that are inserted, and by how much readers move on before."""

    rows: list[tuple[int, int, tuple[int, int], int]]
    since: list[tuple[int, int]]


def less_equal(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def updates_of(rows: list[tuple[int, int, tuple[int, int], int]]) -> Updates:
    keys, values, epochs, rounds, diffs = np.array([(k, v, *t, d) for k, v, t, d in rows], np.int64).reshape(-1, 5).T
    return Updates(keys, values, (epochs, rounds), diffs)


@law_settings(40)
@given(st.lists(st.builds(Step, Rows, st.lists(Times, min_size=1, max_size=2))))
def test_look_ups_at_allowed_times_see_all_updates(steps: list[Step]) -> None:
    """What has accumulated of any keys at any time from ``since`` on is the sum of the updates until then."""
    spine, known, since = Spine(2), [], [(0, 0)]
    for step in steps:
        since = sorted({(max(a, c), max(b, d)) for a, b in since for c, d in step.since})
        spine.let_go(lower_bound(since))
        rows = [row for row in step.rows if any(less_equal(one, row[2]) for one in since)]
        known += rows
        spine.insert(consolidate(updates_of(rows)))
        for time in [(epoch, number) for epoch in range(5) for number in range(5)]:
            if any(less_equal(one, time) for one in since):
                for keys in (list(range(KEYS + 1)), [1, 3], [KEYS + 7]):
                    assert accumulated(spine, keys, time) == expected(known, keys, time)


def accumulated(spine: Spine, keys: list[int], time: tuple[int, int]) -> dict[tuple[int, int], int]:
    found = spine.look_up(np.array(keys))
    found = found.take(at_or_before(found.times, time))
    places, values, diffs = summed([found.keys, found.values], found.diffs)
    return {(keys[place], value): diff for place, value, diff in zip(*map(np.ndarray.tolist, (places, values, diffs)))}  # noqa: B905


def expected(known: list[tuple[int, int, tuple[int, int], int]], keys: list[int], time: tuple[int, int]) -> object:
    sums: Counter[tuple[int, int]] = Counter()
    for key, value, at, diff in known:
        if key in keys and less_equal(at, time):
            sums[key, value] += diff
    return {row: diff for row, diff in sums.items() if diff}


@given(Times, Times, st.lists(Times, min_size=1, max_size=3))
def test_advanced_times_are_before_the_same_times(
    time: tuple[int, int], later: tuple[int, int], since: list[tuple[int, int]]
) -> None:
    """Readers at or after ``since`` cannot tell a time from what replaces it, nor their least upper bounds."""
    least_since = lower_bound(since) or (0, 0)
    replaced = tuple(int(advanced(np.array([at]), least)[0]) for at, least in zip(time, least_since, strict=True))
    if any(less_equal(one, later) for one in since):
        assert less_equal(time, later) == less_equal(replaced, later)
        assert tuple(map(max, time, later)) == tuple(map(max, replaced, later))


def test_batches_are_few() -> None:
    """Each is at least twice as large as the next, so a look-up visits a logarithmic number."""
    spine, keys = Spine(1), np.arange(100)
    for number in range(500):
        values = np.full(100, number)
        spine.insert(Updates(keys, values, (values,), np.ones(100, np.int64)))
        sizes = [len(batch) for batch in spine.batches]
        assert sum(sizes) == 100 * (number + 1)
        assert all(one >= 2 * other for one, other in pairwise(sizes))
    assert len(spine.batches) < 6


def test_few_old_updates_are_not_merged_with_many_new_ones() -> None:
    """The large batch stays as it is, and others take their places by their sizes, whichever came first."""
    spine, kept = Spine(1), list[Batch]()
    for number, rows in enumerate((10_000, 200_000, 40_000)):
        rest = np.arange(rows) + 2**40 * number
        batch = batch_of(Updates(rest, rest, (np.full(rows, number),), np.ones(rows, np.int64)))
        assert batch is not None
        kept.append(batch)
        spine.add(batch)
    assert spine.batches == [kept[1], kept[2], kept[0]]
    back = kept[2].updates
    spine.insert(Updates(back.keys, back.values, back.times, -back.diffs))
    assert [len(one) for one in spine.batches] == [200_000, 10_000]


def test_updates_of_the_past_become_few() -> None:
    """Changes of a key that readers cannot tell apart any more take no room."""
    spine = Spine(1)
    for epoch in range(6000):
        spine.let_go((epoch,))
        spine.insert(updates_one(epoch))
    assert len(spine) < 4100


def updates_one(epoch: int) -> Updates:
    diffs = np.array([1, -1]) if epoch else np.array([1, 0])
    values = np.array([epoch, epoch - 1])
    return consolidate(Updates(np.zeros(2, np.int64), values, (np.full(2, epoch),), diffs))


def test_nobody_reads_after_the_end() -> None:
    spine = Spine(1)
    spine.insert(updates_one(0))
    spine.let_go(None)
    spine.insert(updates_one(1))
    assert len(spine) == 0


@pytest.mark.parametrize("width", [1, 2**40, 2**62])
def test_rows_that_a_word_has_no_room_for_are_kept_as_well(width: int) -> None:
    """Counts outgrow their bits as batches are merged, and columns may be too wide from the beginning or later."""
    spine, known = Spine(1), []
    for number in range(300):
        rows = [(number % 3, number % 2 * width, (0, 0), 2**40), (number % 5 * width, 1, (0, 0), -1)]
        if number > 200:
            rows.append((0, -width, (0, 0), 2**50))
        known += rows
        keys, values, diffs = (np.array([row[at] for row in rows]) for at in (0, 1, 3))
        spine.insert(consolidate(Updates(keys, values, (np.zeros(len(rows), np.int64),), diffs)))
    present = sorted({row[0] for row in known})
    found = spine.look_up(np.array(present))
    places, values, diffs = summed([found.keys, found.values], found.diffs)
    rows_found = zip(places.tolist(), values.tolist(), diffs.tolist(), strict=True)
    assert {(present[place], value): diff for place, value, diff in rows_found} == expected(known, present, (0, 0))
