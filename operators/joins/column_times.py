"""Event times of whole columns, compared and moved by distances without ever going round.

NumPy wraps integers that get too large, and times of nanoseconds have room for 292 years from 1970 only. So single
instants and distances are Python's: numbers, or for timestamps, dates and durations whole nanoseconds.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tidewheel.operators.windows.windows import Duration

if TYPE_CHECKING:
    import numpy.typing as npt

    Times: TypeAlias = npt.NDArray[Any]

Number: TypeAlias = int | float

_NANOSECONDS = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_LEAST, _MOST = -(2**63), 2**63 - 1


class Bounds(NamedTuple):
    """From when and up to when each row on the left has partners, and when those on the right happened.

    All three can be sorted together.
    """

    lows: "Times"
    highs: "Times"
    instants: "Times"


def distance(duration: Duration) -> Number:
    """Return a duration as a number.

    >>> distance(2.5), distance(timedelta(days=200_000))
    (2.5, 17280000000000000000)
    """
    return duration // timedelta(microseconds=1) * 1000 if isinstance(duration, timedelta) else duration


def greatest(times: "Times") -> Number:
    """Return the greatest of some times, at least one, as a number."""
    if times.dtype.kind == "f":
        return float(times.max())
    return int(_ticks(times).max()) * _tick(times)


def are_before(times: "Times", instant: Number) -> "npt.NDArray[Any]":
    """Tell which times are before ``instant``."""
    if times.dtype.kind == "f":
        return times < instant
    return _ticks(times) < -(-instant // _tick(times))


def reach(times: "Times", farthest: Number, instant: Number) -> "npt.NDArray[Any]":
    """Tell which times would, moved by ``farthest``, not be before ``instant``."""
    if times.dtype.kind == "f" or isinstance(farthest, float) or isinstance(instant, float):
        return times + float(farthest) >= instant
    return ~are_before(times, instant - farthest)


def bounds(times: "Times", lower: Number, upper: Number, instants: "Times") -> Bounds:
    """Return the times moved by ``lower`` and by ``upper``, and ``instants``; there is one of both at least.

    >>> import numpy as np
    >>> bounds(np.array([5]), -(2**63), 2**70, np.array([1, 9]))
    Bounds(lows=array([0]), highs=array([10]), instants=array([1, 9]))
    """
    if "f" in {times.dtype.kind, instants.dtype.kind} or isinstance(lower, float) or isinstance(upper, float):
        return Bounds(times + float(lower), times + float(upper), instants)
    unit = min(_tick(times), _tick(instants))
    times, instants = _in_units(times, unit), _in_units(instants, unit)
    earliest, latest = int(times.min()), int(times.max())
    # Just beyond all of the instants is as far as farther away.
    least, most = int(instants.min()) - latest - 1, int(instants.max()) - earliest + 1
    ends = [min(max(end, least), most) for end in (-(-lower // unit), upper // unit)]
    if min(ends) + min(earliest, 0) < _LEAST or max(ends) + max(latest, 0) > _MOST:
        times = times.astype(object)
    return Bounds(times + ends[0], times + ends[1], instants)


def _tick(times: "Times") -> int:
    """Return how many nanoseconds a time's unit has; 1 for numbers."""
    import numpy as np

    return _NANOSECONDS[np.datetime_data(times.dtype)[0]] if times.dtype.kind in "mM" else 1


def _ticks(times: "Times") -> "Times":
    return times.view("int64") if times.dtype.kind in "mM" else times


def _in_units(times: "Times", unit: int) -> "Times":
    """Return times as whole numbers of some nanoseconds, of Python's if NumPy's are too small."""
    factor, ticks = _tick(times) // unit, _ticks(times)
    if factor > 1 and max(-int(ticks.min()), int(ticks.max())) * factor > _MOST:
        ticks = ticks.astype(object)
    return ticks * factor if factor > 1 else ticks
