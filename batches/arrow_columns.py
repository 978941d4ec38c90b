"""Arrow arrays with exactly the given Python values, or an error.

Arrow infers one type for mixed values, and silently changes some of them. It cuts the time of day off a datetime beside
a date. It turns strings to bytes, whole numbers to microseconds, and times with a zone to local times. This module
imports Arrow.
"""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

_PLAIN = frozenset({bool, bytes, date, Decimal, float, int, str, timedelta})
"""Python types that Arrow stores exactly. If a value does not fit, Arrow raises an error."""


def exact_array(values: Sequence[Any]) -> "pa.Array":
    """Return values as an array of a type that holds all of them exactly; tuples become lists.

    Raises:
        TypeError: no type holds all values exactly; the message shows one that does not fit the others.

    >>> exact_array([1, 2**63]).type, exact_array([1, None, 0.5]).to_pylist()
    (DataType(uint64), [1.0, None, 0.5])
    >>> exact_array([date(2024, 1, 1), datetime(2024, 1, 1, 12)])
    Traceback (most recent call last):
        ...
    TypeError: datetime.datetime(2024, 1, 1, 12, 0) would become datetime.date(2024, 1, 1) in a column of date32[day]
    """
    try:
        made = _array(values)
        is_exact = _are_plain(values)
        found = [] if is_exact else made.to_pylist()
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise TypeError(str(error)) from error
    for value, became in zip(values, found, strict=not is_exact):
        if not _is_same(value, became):
            raise TypeError(f"{value!r} would become {became!r} in a column of {made.type}")
    return made


def _array(values: Sequence[Any]) -> "pa.Array":
    try:
        return pa.array(values)
    except OverflowError:
        whole = [value for value in values if isinstance(value, int)]
        if not whole:
            raise TypeError("whole numbers within tuples have to be of int64") from None
        if not 0 <= min(whole) <= max(whole) < 2**64:
            raise TypeError(f"Arrow has no type for whole numbers from {min(whole)} to {max(whole)}") from None
        return pa.array(values, pa.uint64())


def _are_plain(values: Sequence[Any]) -> bool:
    """Tell whether all values have one plain type. If so, the array need not be compared with them."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= {datetime, time}:
        return len(kinds) <= 1 and all(value is None or value.tzinfo is None for value in values)
    return (len(kinds) == 1 and kinds <= _PLAIN) or kinds == {int, float}


def _is_same(value: Any, became: Any) -> bool:
    if isinstance(value, tuple | list):
        parts = isinstance(became, list) and len(value) == len(became)
        return parts and all(map(_is_same, value, became))
    if isinstance(value, datetime):  # if its zone has a time twice, == says that it equals no other
        return isinstance(became, datetime) and _moment(value) == _moment(became)
    return bool(value == became) or (value != value and became != became)  # noqa: PLR0124 - where both are NaN


def _moment(value: datetime) -> tuple[bool, datetime]:
    plain = datetime(*value.timetuple()[:6], value.microsecond)  # noqa: DTZ001 - beside whether there is a zone
    offset = value.utcoffset()
    return offset is None, plain if offset is None else plain - offset
