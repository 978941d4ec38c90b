"""NaN in orders: it comes last, whichever way round; no comparison with NaN is true, so sorting needs help with it."""

from collections.abc import Sequence
from math import isnan
from operator import itemgetter, ne
from typing import Any

from tidewheel.operators.keys.record_keys import is_nan

_NO_NAN: tuple[type, ...] = (str, bytes)
"""What can be compared with these only is no NaN."""


def nan_last(keys: Sequence[Any], *, reverse: bool = False) -> Sequence[Any]:
    """Return ``keys``, or if NaN may be among them, or in tuples and lists of them, others in the order that they have.

    In that NaN comes after all else; if what is returned is to be sorted with ``reverse``, then too.

    >>> numbers = [3.0, float("nan"), 1.0]
    >>> [numbers[place] for place in sorted(range(3), key=nan_last(numbers).__getitem__)]
    [1.0, 3.0, nan]
    """
    if len(keys) < 2 or not _may_have_nan(keys):
        return keys
    return [_placed(key, reverse) for key in keys]


def _may_have_nan(keys: Sequence[Any]) -> bool:
    first = keys[0]
    if type(first) in _NO_NAN:
        return False
    try:
        if type(first) is float or type(first) is int:
            return isnan(sum(keys))  # by far the fastest way to find out
        if isinstance(first, tuple | list):
            places = range(max(map(len, keys)))
            return any(_may_have_nan(list(map(itemgetter(place), keys))) for place in places)
        return any(map(ne, keys, keys))
    except (TypeError, ValueError, IndexError, ArithmeticError):  # of several types or lengths, or too large
        return True


def _placed(key: Any, reverse: bool) -> Any:
    """Return a tuple that compares as the key does, before that of NaN, or after it in reverse."""
    if isinstance(key, tuple) and type(key).__lt__ is tuple.__lt__:  # no named one with an order of its own
        return tuple([_placed(part, reverse) for part in key])
    if type(key) is list:
        return [_placed(part, reverse) for part in key]
    if is_nan(key):
        return (0,) if reverse else (1,)
    return (1, key) if reverse else (0, key)
