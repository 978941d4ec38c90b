"""Event times of columns: compared and moved as whole numbers are, however large they are."""

from datetime import timedelta
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.operators.joins.interval_table_join import are_before, bounds, distance, greatest, reach

UNITS = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
TICKS = st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-9, 9) | st.sampled_from([2**63 - 1, 1 - 2**63])
SOME = st.lists(TICKS, min_size=1, max_size=5)
ENDS = st.tuples(*[st.integers(-(2**65), 2**65) | st.integers(-9, 9)] * 2).map(sorted)


def exact(ticks: list[int], unit: str | None) -> list[int]:
    return [tick * (UNITS[unit] if unit else 1) for tick in ticks]


def array(ticks: list[int], unit: str | None) -> Any:
    return np.array(ticks, np.int64).view(f"M8[{unit}]" if unit else "i8")


@law_settings(300)
@given(SOME, SOME, ENDS, st.none() | st.tuples(st.sampled_from([*UNITS]), st.sampled_from([*UNITS])))
def test_partners_are_those_of_whole_numbers(
    times: list[int], instants: list[int], ends: list[int], units: tuple[str, str] | None
) -> None:
    """For any times, distances and units, also where NumPy's integers are too small."""
    unit, other_unit = units or (None, None)
    lower, upper = ends
    found = bounds(array(times, unit), lower, upper, array(instants, other_unit))
    for time, low, high in zip(exact(times, unit), found.lows, found.highs, strict=True):
        for instant, at in zip(exact(instants, other_unit), found.instants, strict=True):
            assert (low <= at <= high) == (time + lower <= instant <= time + upper)


@law_settings(200)
@given(SOME, TICKS, st.integers(-(2**65), 2**65), st.none() | st.sampled_from([*UNITS]))
def test_comparisons_are_those_of_whole_numbers(times: list[int], instant: int, far: int, unit: str | None) -> None:
    """With an instant that has no room among the times, too."""
    column, known = array(times, unit), exact(times, unit)
    assert greatest(column) == max(known)
    assert are_before(column, instant + far).tolist() == [time < instant + far for time in known]
    assert reach(column, far, instant).tolist() == [time + far >= instant for time in known]


def test_floats_are_moved_as_python_moves_them() -> None:
    """What is kept for partners is just what finds them."""
    times = np.array([0.1, 0.2, 0.3])
    found = bounds(times, -0.1, 0.2, times)
    assert found.highs.tolist() == [time + 0.2 for time in (0.1, 0.2, 0.3)]
    assert reach(times, 0.2, 0.1 + 0.2).tolist() == [time + 0.2 >= 0.1 + 0.2 for time in (0.1, 0.2, 0.3)]
    assert bounds(np.array([1, 2]), 0, 0.5, np.array([1])).highs.tolist() == [1.5, 2.5]


def test_distances_are_exact() -> None:
    """Longer ones than nanoseconds in 64 bits have room for, too."""
    assert distance(timedelta.max) == timedelta.max // timedelta(microseconds=1) * 1000
    assert (distance(3), distance(0.25)) == (3, 0.25)
