"""One object for all NaN: so dicts and sets find a received value again."""

from math import nan
from operator import is_
from typing import Any


def with_one_nan(value: Any) -> Any:
    """Return a value in which every NaN, also within tuples, is `math.nan`.

    In a tuple or dict, a NaN equals only the same object.

    >>> (1, float("nan")) == (1, float("nan")), with_one_nan((1, float("nan"))) == with_one_nan((1, float("nan")))
    (False, True)
    """
    if isinstance(value, float):
        return value if value == value else nan  # noqa: PLR0124 - NaN is not
    if isinstance(value, tuple):
        parts = list(map(with_one_nan, value))
        return value if all(map(is_, value, parts)) else tuple.__new__(type(value), parts)
    return value
