"""Words of rows: the sums of equal ones are the same whether they are counted or sorted."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tests.laws.strategies import law_settings
from tidewheel.differential import packing as packed
from tidewheel.differential.packing import (
    Packing,
    are_distinct,
    constant,
    counted_words,
    products,
    range_of,
    sum_words,
    sums_from,
)

Rows = st.lists(st.tuples(st.integers(-2, 5), st.integers(7, 9), st.integers(-1, 2)), min_size=1, max_size=60)


def test_words_that_are_counted_have_the_same_sums_as_sorted_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all diffs are equal, all 0, or sums come to 0."""
    monkeypatch.setattr(packed, "_MANY_COUNTED", 0)
    kinds = set()

    @law_settings(100)
    @given(Rows, st.sampled_from((None, -1, 0, 3)))
    @example([(0, 0, 1)], None)
    @example([(0, 0, 1), (2**40, 0, 1)], None)
    def holds(rows: list[tuple[int, int, int]], diff: int | None) -> None:
        keys, values, diffs = np.array(rows, np.int64).T
        diffs = diffs if diff is None else np.full(len(rows), diff)
        packing = Packing.of([keys, values, diffs])
        assert packing is not None
        words = packing.words([keys, values, diffs])
        counted = counted_words(words, packing)
        kinds.add(counted is None)
        if counted is not None:
            expected, sums = sum_words(np.sort(words), packing)
            assert counted[1].tolist() == sums.tolist()
            for number in (0, 1):
                assert packing.column(counted[0], number).tolist() == packing.column(expected, number).tolist()

    holds()
    assert kinds == {True, False}, "some are counted, and some have too many bits for that"


@pytest.mark.parametrize("many", [1, 2, 5])
def test_words_that_are_summed_in_parts_have_the_same_sums(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal words are in one part, wherever a part would end."""

    @law_settings(100)
    @given(Rows)
    def holds(rows: list[tuple[int, int, int]]) -> None:
        columns = list(np.array(rows, np.int64).T)
        packing = Packing.of(columns)
        assert packing is not None
        words = np.sort(packing.words(columns))
        expected, sums = sum_words(words.copy(), packing)
        with monkeypatch.context() as parts:
            parts.setattr(packed, "_MANY", many)
            found, their_sums = sum_words(words, packing)
        assert their_sums.tolist() == sums.tolist()
        for number in (0, 1):
            assert packing.column(found, number).tolist() == packing.column(expected, number).tolist()

    holds()


@pytest.mark.parametrize("many", [2, 100])
def test_the_first_places_and_the_last_column_come_in_parts(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a part ends, and if some numbers have no word."""
    monkeypatch.setattr(packed, "_MANY", many)
    packing, wider = (Packing.of_ranges([(0, 7), (0, most)]) for most in (1, 9))
    assert packing is not None
    assert wider is not None
    keys, diffs = np.array([1, 1, 1, 4, 6]), np.array([0, 9, 3, 1, 2])
    words = packing.words([keys, diffs & 1])
    assert packed.first_places(words, packing.shifts[0], 8).tolist() == [0, 0, 3, 3, 3, 4, 4, 5, 5]
    packed.replace_last(words, packing, diffs, wider)
    assert [wider.column(words, number).tolist() for number in (0, 1)] == [keys.tolist(), diffs.tolist()]


def test_sums_that_floats_do_not_have_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_MANY_COUNTED", 0)
    keys, diffs = np.zeros(3, np.int64), np.array([2**52, 1, 2**52])
    packing = Packing.of([keys, diffs])
    assert packing is not None
    assert counted_words(packing.words([keys, diffs]), packing) is None


def test_counts_of_more_than_64_bits_are_refused() -> None:
    """A sum or a product; one of 64 bits is exact."""
    starts, large = np.array([0, 2]), np.array([2**62, 2**62 - 1, -(2**62), -(2**62)])
    assert sums_from(starts, large).tolist() == [2**63 - 1, -(2**63)]
    assert products(np.array([2**31, 1]), np.array([2**31, 2**40])).tolist() == [2**62, 2**40]
    with raises(OverflowError):
        sums_from(starts, large + 1)
    with raises(OverflowError):
        products(large[:1], large[:1])


def test_equal_words_are_found_at_any_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are compared some at a time, and the last of these with the first of the next."""
    monkeypatch.setattr(packed, "_MANY", 3)
    for count in range(1, 12):
        words = np.arange(count) << 1
        assert are_distinct(words, 1)
        for place in range(count - 1):
            same = words.copy()
            same[place + 1 :] = words[:-1][place:] | 1
            assert not are_distinct(np.sort(same), 1)


def test_a_column_of_equal_values_has_these_in_each_row() -> None:
    for count in (0, 1, 99, 1000):
        column = constant(7, count)
        assert column.tolist() == [7] * count
        assert not count or range_of(column) == (7, 7)
