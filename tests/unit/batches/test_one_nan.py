"""Each NaN is one object, wherever it comes from, and nothing else changes."""

from typing import Any, NamedTuple

import pytest

from tidewheel.batches.one_nan import with_one_nan


class Pair(NamedTuple):
    """A tuple of a class of its own."""

    key: Any
    value: Any


@pytest.mark.parametrize("make", [lambda x: x, lambda x: (1, x), lambda x: (1, (x, "a")), lambda x: Pair("a", x)])
def test_two_that_are_nan_are_equal(make: Any) -> None:
    one, other = with_one_nan(make(float("nan"))), with_one_nan(make(float("nan")))
    assert one is other or (one == other and type(one) is type(make(0)))


@pytest.mark.parametrize("value", [1.5, "nan", (1, 2.5), Pair(1, (2, 3)), None, [float("nan")]])
def test_all_others_stay_the_same_objects(value: Any) -> None:
    assert with_one_nan(value) is value
