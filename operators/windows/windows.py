"""Kinds of windows, the periods of time by which the records of a key are gathered.

A window includes its start but not its end. The bounds of tumbling and sliding windows depend only on time, so all
workers agree on them. The bounds of sessions depend on the records.
"""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from numbers import Real
from typing import Any, TypeAlias

from tidewheel.progress import GraphError

Duration: TypeAlias = int | float | timedelta
"""A distance in time: a number if event times are numbers, a timedelta if they are datetimes or timedeltas."""

EventTime: TypeAlias = Any
"""The event time of a record: a number, a datetime or a timedelta."""

Pane: TypeAlias = Any
"""A period of time without any window's bound inside it, so that all its records belong to the same windows."""


def check_duration(where: str, name: str, given: object, *, least: str = "positive") -> None:
    """Raise GraphError unless ``given`` is a finite number or a timedelta.

    ``least`` is "positive" for values above zero, "zero" for zero or more, "any" for all. The error shows ``where`` and
    ``name``.
    """
    if not is_distance(given):
        raise GraphError(f"{where}: {name} is a finite number, or a timedelta where times are datetimes, not {given!r}")
    zero: Duration = timedelta() if isinstance(given, timedelta) else 0
    if (least == "positive" and given <= zero) or (least == "zero" and given < zero):  # type: ignore[operator]
        wanted = "greater than zero" if least == "positive" else "not negative"
        raise GraphError(f"{where}: {name} is {wanted}, it cannot be {given!r}")


def is_distance(given: object) -> bool:
    """Tell whether ``given`` is a finite number or a timedelta, also of NumPy or pandas.

    >>> is_distance(5), is_distance(timedelta(minutes=1)), is_distance(math.inf), is_distance("5 minutes")
    (True, True, False, False)
    """
    if type(given) is bool:
        return False
    return math.isfinite(given) if isinstance(given, Real) else isinstance(given, timedelta)


def check_alike(where: str, name: str, given: object, length: Duration) -> None:
    """Raise GraphError unless ``given`` and ``length`` are both numbers or both timedeltas."""
    if isinstance(given, timedelta) != isinstance(length, timedelta):
        raise GraphError(f"{where}: {name} is {given!r} beside {length!r}: give both as numbers or as timedeltas")


def zero_of(time: EventTime) -> EventTime:
    """Return the zero of windows without an offset: 0 or, for datetimes, midnight of 1 January 1970 (UTC).

    >>> zero_of(17.5), zero_of(datetime(2024, 5, 1, 12))
    (0, datetime.datetime(1970, 1, 1, 0, 0))
    """
    if isinstance(time, datetime):
        return datetime(1970, 1, 1, tzinfo=None if time.tzinfo is None else UTC)
    return timedelta() if isinstance(time, timedelta) else 0


@dataclass(frozen=True, slots=True)
class TumblingWindows:
    """Windows of one length, one after the other: each time is in exactly one window.

    Args:
        length: the length, more than zero.
        offset: the distance from zero, or from midnight of 1 January 1970, to the start of a window.

    Raises:
        GraphError: ``length`` is not positive, or one argument is a timedelta and the other a number.

    >>> week = TumblingWindows(timedelta(days=7), offset=timedelta(days=4))  # from Monday to Monday
    """

    length: Duration
    offset: Duration | None = None

    def __post_init__(self) -> None:
        check_duration("TumblingWindows", "length", self.length)
        _check_offset("TumblingWindows", self.offset, self.length)

    def _panes(self, times: Sequence[EventTime]) -> list[Pane]:
        if not times:
            return []
        first = _first(times[0], self.offset)
        numbers = [(time - first) // self.length for time in times]
        if isinstance(self.length, float) or isinstance(self.offset, float):
            numbers = [self._in_bounds(number, time) for number, time in zip(numbers, times, strict=True)]
        return numbers

    def _in_bounds(self, number: Pane, time: EventTime) -> Pane:
        start, end = self._bounds(number, time)
        if time < start:
            return number - 1
        return number + 1 if time >= end else number

    def _windows(self, pane: Pane) -> Sequence[int]:
        return (pane,)

    def _bounds(self, window: int, time: EventTime) -> tuple[EventTime, EventTime]:
        first = _first(time, self.offset)
        return first + window * self.length, first + (window + 1) * self.length


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows of one length that start every ``step``: each time is in about ``length / step`` of them.

    With floats, rounding decides at the bounds; every time is in at least one window.

    Args:
        length: the length, more than zero.
        step: the distance between their starts, at most ``length``.
        offset: the distance from zero, or from midnight of 1 January 1970, to the start of a window.

    Raises:
        GraphError: an argument is out of its range, or some arguments are timedeltas and others numbers.

    >>> ten_minutes_each_minute = SlidingWindows(timedelta(minutes=10), step=timedelta(minutes=1))
    """

    length: Duration
    step: Duration
    offset: Duration | None = None

    def __post_init__(self) -> None:
        check_duration("SlidingWindows", "length", self.length)
        check_duration("SlidingWindows", "step", self.step)
        check_alike("SlidingWindows", "step", self.step, self.length)
        if self.step > self.length:  # type: ignore[operator]
            raise GraphError(
                f"SlidingWindows: windows of {self.length!r} that start every {self.step!r} leave gaps, and records in "
                "them would be lost. Use a step that is no longer, and filter out before what is not wanted"
            )
        _check_offset("SlidingWindows", self.offset, self.length)

    def _panes(self, times: Sequence[EventTime]) -> list[Pane]:
        if not times:
            return []
        first = _first(times[0], self.offset)
        end = first + self.length
        return [((time - end) // self.step, (time - first) // self.step) for time in times]

    def _windows(self, pane: Pane) -> Sequence[int]:
        ended, started = int(pane[0]), int(pane[1])
        return range(min(ended + 1, started), started + 1)

    def _bounds(self, window: int, time: EventTime) -> tuple[EventTime, EventTime]:
        start = _first(time, self.offset) + window * self.step
        return start, start + self.length


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Windows that last as long as records follow each other in less than ``gap``.

    A session starts with its first record and ends ``gap`` after its last record. A record that is near enough to two
    sessions merges them.

    Args:
        gap: the time without records that ends a session, more than zero.

    Raises:
        GraphError: ``gap`` is not positive.

    >>> visit = SessionWindows(gap=timedelta(minutes=30))
    """

    gap: Duration

    def __post_init__(self) -> None:
        check_duration("SessionWindows", "gap", self.gap)


Windows: TypeAlias = TumblingWindows | SlidingWindows | SessionWindows
"""Any kind of windows."""


def durations_of(windows: Windows) -> list[Duration]:
    """Return all durations of a kind of window; the first is the least length of a window."""
    return [duration for duration in astuple(windows) if duration is not None]


def windows_at(windows: Windows, time: EventTime) -> list[tuple[EventTime, EventTime]]:
    """Return the bounds of the windows that contain a time; for sessions, of a session with a single record.

    Bounds beyond the range of times become ``time``.

    >>> windows_at(SlidingWindows(10, step=5), 7), windows_at(SessionWindows(10), 7)
    ([(0, 10), (5, 15)], [(7, 17)])
    """
    try:
        if isinstance(windows, SessionWindows):
            return [(time, time + windows.gap)]
        (pane,) = windows._panes([time])
        return [windows._bounds(number, time) for number in windows._windows(pane)]
    except OverflowError:
        return [(time, time)]


def _check_offset(where: str, offset: object, length: Duration) -> None:
    if offset is not None:
        check_duration(where, "offset", offset, least="any")
        check_alike(where, "offset", offset, length)


def _first(time: EventTime, offset: Duration | None) -> EventTime:
    zero = zero_of(time)
    return zero if offset is None else zero + offset
