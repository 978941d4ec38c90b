"""Sums and means of values with counts, against fractions."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import permutations, starmap
from math import fsum, inf, isfinite, nan
from operator import mul
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tests.laws.strategies import law_settings
from tidewheel.differential.sums import column_means, column_sums, mean_of, sum_of

Floats = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**4), 10**4).map(lambda cents: cents / 100),
    st.sampled_from((1e16, -1e16, 1e308, -1e308, 5e-324, 0.1, 0.3, -0.1, 2.0**53, 1.0)),
)
Whole = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3))
Counts = st.one_of(st.sampled_from((1, 1, 1, -1, 2, 3)), st.integers(-(2**63), 2**63 - 1).filter(bool))


def groups_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[tuple[Any, int]]]]:
    return st.lists(st.lists(st.tuples(values, Counts), min_size=1, max_size=12), min_size=1, max_size=5)


def nearest(exact: Fraction) -> float:
    """Return the float next to a number."""
    try:
        return float(exact)
    except OverflowError:
        return -inf if exact < 0 else inf


def exact_sum(group: Sequence[tuple[Any, int]]) -> Fraction:
    return sum((Fraction(value) * count for value, count in group), Fraction())


def columns(groups: Sequence[Sequence[tuple[Any, int]]], kind: type) -> Any:
    values: Any = np.array([value for group in groups for value, _ in group], kind)
    counts = np.array([count for group in groups for _, count in group], np.int64)
    return values, counts, np.cumsum([0, *map(len, groups[:-1])])


@law_settings(100)
@given(groups_of(Floats))
def test_sums_and_means_of_floats_are_those_next_to_the_exact_ones(groups: list[list[tuple[float, int]]]) -> None:
    """Whatever their sizes, their counts, and what other keys have; a mean is rounded twice."""
    sums = [nearest(exact_sum(group)) for group in groups]
    assert column_sums(*columns(groups, np.float64)).tolist() == sums
    means, kept = column_means(*columns(groups, np.float64))
    totals = [sum(count for _, count in group) for group in groups]
    assert kept.tolist() == list(map(bool, totals))
    wanted = [
        made / total if isfinite(made) else nearest(exact_sum(group) / total)
        for made, group, total in zip(sums, groups, totals, strict=True)
        if total
    ]
    assert means.tolist() == wanted
    assert [sum_of(*zip(*group, strict=True)) for group in groups] == sums


@law_settings(100)
@given(groups_of(Whole))
def test_sums_of_whole_numbers_are_exact(groups: list[list[tuple[int, int]]]) -> None:
    """As are the quotients that are their means."""
    sums = [sum(starmap(mul, group)) for group in groups]
    assert column_sums(*columns(groups, np.int64)).tolist() == sums
    totals = [sum(count for _, count in group) for group in groups]
    means, _ = column_means(*columns(groups, np.int64))
    assert means.tolist() == [made / total for made, total in zip(sums, totals, strict=True) if total]


@law_settings(100)
@given(st.lists(st.one_of(Floats, Whole, st.booleans()), max_size=10), Floats)
def test_numbers_of_several_types_have_the_sum_of_floats(values: list[Any], value: float) -> None:
    exact = sum(map(Fraction, values), Fraction(value) * 3)
    values, counts = [*values, value], [1] * len(values) + [3]
    is_whole = all(type(one) is not float or one.is_integer() for one in values) and set(map(type, values)) != {float}
    assert sum_of(values, counts) == (exact if is_whole else nearest(exact))


def test_a_number_may_stand_for_an_equal_one_of_another_type() -> None:
    """Within a collection, as equal values are one."""
    tenth = Decimal("0.1")
    assert {sum_of([0.5, one], [1, 2]) for one in (1, 1.0, True, Decimal(1), Fraction(1))} == {2.5}
    assert {sum_of([tenth, one], [1, 2]) for one in (1, 1.0, True, Decimal(1))} == {Decimal("2.1")}
    assert {sum_of([2**53, one], [1, 1]) for one in (1, 1.0, True, Decimal(1), Fraction(1))} == {2**53 + 1}
    assert repr(sum_of([Decimal("1.00"), Decimal("2.00")], [1, 2])) == "Decimal('5.00')"
    assert repr(mean_of([Decimal("1.00"), Decimal("2.00")], [1, 1], 2)) == "Decimal('1.50')"
    assert sum_of([0.1, Decimal("0.1")], [1, 1]) == nearest(Fraction(0.1) + Fraction(1, 10))


def test_a_sum_has_the_digits_of_fsum() -> None:
    """Of many, also where all but the last digits cancel out."""
    random = np.random.default_rng(0)
    values = np.concatenate([random.random(9999) * 10.0 ** random.integers(-9, 9, 9999), [1e12, -1e12]])
    (made,) = column_sums(values, np.ones(len(values), np.int64), np.array([0]))
    assert made == fsum(values.tolist())


@pytest.mark.parametrize(
    ("values", "made"),
    [
        ([inf, 1.0], inf),
        ([-inf, 1e308], -inf),
        ([inf, -inf], nan),
        ([nan, 1.0], nan),
        ([1e308, 1e308], inf),
        ([1e308, 1e308, -1e308], 1e308),
    ],
)
def test_numbers_without_end_have_sums_of_their_own(values: list[float], made: float) -> None:
    """Beside another key, which keeps its sum."""
    for some in permutations(values):
        sums = column_sums(np.array([*some, 0.5]), np.ones(len(some) + 1, np.int64), np.array([0, len(some)]))
        assert sums.tolist() == pytest.approx([made, 0.5], rel=0, abs=0, nan_ok=True)


def test_the_mean_of_finite_numbers_is_finite() -> None:
    for values in ([1e308, 1.5e308], [-1e308, -1.5e308]):
        means, _ = column_means(np.array(values), np.ones(2, np.int64), np.array([0]))
        assert means.tolist() == [values[0] * 1.25] == [mean_of(values, [1, 1], 2)]


def test_other_values_are_added_up_in_an_order_of_their_own() -> None:
    """Complex numbers have none, and their sums depend on it."""
    values = [1e16 + 1j, 1 + 1e16j, -1e16 + 3j]
    assert len({sum_of(some, [1, 1, 1]) for some in permutations(values)}) == 1
    assert sum_of([timedelta(1), timedelta(2)], [1, 2]) == timedelta(5)
    for value in ("a", b"a", (1, 2)):
        with raises(TypeError):
            sum_of([value], [1])
