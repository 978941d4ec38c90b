"""Interval joins of Arrow tables by names of columns.

NumPy's integers overflow silently. So single instants and distances are Python numbers; for timestamps, dates and
durations they are whole nanoseconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tidewheel.batches.batches import Batch, concatenate_tables
from tidewheel.operators.base.division import Division, split_batches
from tidewheel.operators.joins.interval_join import Interval, Kept
from tidewheel.operators.joins.table_join import JoinedColumns
from tidewheel.operators.joins.table_matching import match_within, number_keys
from tidewheel.operators.joins.unlike_keys import UnlikeKeys
from tidewheel.operators.keys.arrow_rows import as_table, one_table
from tidewheel.operators.windows.ahead import AheadLimit
from tidewheel.operators.windows.watermark import ReadTimes, Watermark
from tidewheel.operators.windows.windows import Duration
from tidewheel.runtime.description.pacts import Exchange, Pact
from tidewheel.runtime.worker.operator_context import OperatorContext

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Times: TypeAlias = npt.NDArray[Any]


Number: TypeAlias = int | float

_NANOSECONDS = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_LEAST, _MOST = -(2**63), 2**63 - 1


class TimedTable(NamedTuple):
    """Rows, with their event times as a NumPy array."""

    rows: "pa.Table"
    times: "npt.NDArray[Any]"

    def where(self, wanted: "npt.NDArray[Any]") -> "TimedTable":
        return self if wanted.all() else TimedTable(self.rows.filter(wanted), self.times[wanted])


def timed_table(rows: "pa.Table", at: str, length: Duration) -> TimedTable:
    """Return the rows with their event times, from the column ``at``.

    Event times are numbers or, if ``length`` is a timedelta, timestamps, dates or durations.

    Raises:
        KeyError: there is no such column.
        ValueError: an event time is null, NaN or infinite, or an integer beyond int64.
        TypeError: an event time is of another type.
    """
    import numpy as np
    import pyarrow as pa

    if at not in rows.column_names:
        raise KeyError(f"no column {at!r} for event times; the table has {rows.column_names}")
    column = rows.column(at)
    kind = column.type
    if isinstance(length, timedelta):
        known = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind)
    else:
        known = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not known:
        wanted = "timestamps, dates or durations" if isinstance(length, timedelta) else "numbers"
        raise TypeError(f"column {at!r} of {kind} has no event times: where distances are {length!r} it has {wanted}")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        try:
            column = column.cast(pa.int64() if pa.types.is_integer(kind) else pa.float64())
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"column {at!r} of {kind} has event times beyond int64: cast it to float64 before, by select(...)"
            ) from error
    times = column.to_numpy()
    if column.null_count or (pa.types.is_floating(column.type) and not np.isfinite(times).all()):
        raise ValueError(f"a row has no event time: column {at!r} is null or not finite; filter such rows out before")
    return TimedTable(rows, times)


def read_table(at: str, length: Duration, limit: AheadLimit, batch: Batch) -> ReadTimes:
    """Return a batch as a table, its greatest event time, and the rows that are too far ahead.

    Raise as `timed_table` does.
    """
    timed = timed_table(as_table(batch), at, length)
    latest = _latest(limit, timed.times, has_zone=getattr(timed.rows.column(at).type, "tz", None) is not None)
    none = timed.rows.slice(0, 0)
    if latest is None or not len(timed.times) or greatest(timed.times) <= latest:
        return ReadTimes(timed.rows, [greatest(timed.times)] if len(timed.times) else [], none)
    wanted = timed.times <= latest if timed.times.dtype.kind == "f" else are_before(timed.times, math.floor(latest) + 1)
    kept = timed.where(wanted)
    return ReadTimes(kept.rows, [greatest(kept.times)] if len(kept.times) else [], timed.rows.filter(~wanted))


def _latest(limit: AheadLimit, times: "Times", *, has_zone: bool) -> Number | None:
    if times.dtype.kind == "M":
        begin = datetime(1970, 1, 1, tzinfo=UTC if has_zone else None)
        latest = limit.latest(begin)
        return None if latest is None else distance(latest - begin)
    latest = limit.latest(timedelta() if times.dtype.kind == "m" else 0)
    return None if latest is None else distance(latest)


@dataclass(frozen=True, slots=True)
class IntervalTableJoin:
    """Pairs rows epoch by epoch; O(n log n) for each epoch, with n new or kept rows.

    Its inputs are the left tables, the right tables, and the greatest event times of left and right on all workers.

    Attributes:
        at: the names of the event time columns, left and right.
        lateness: how far a row's event time may be behind the greatest of its side before the row is late.
    """

    columns: JoinedColumns
    at: Sequence[str]
    interval: Interval
    lateness: Duration | None

    def keep(self, context: OperatorContext) -> Kept:
        return Division(self.split, self.merge).state(context, "kept", self.start)

    def start(self) -> Kept:
        lateness = None if self.lateness is None else distance(self.lateness)
        return Kept(None, None, Watermark(lateness), Watermark(lateness))

    def split(self, kept: Kept, workers: int) -> list[Kept]:
        lefts, rights = (self._split_side(side, n, workers) for n, side in enumerate((kept.lefts, kept.rights)))
        marks = kept.watermark, kept.other_watermark
        return [Kept(left, right, *marks) for left, right in zip(lefts, rights, strict=True)]

    def _split_side(self, side: TimedTable | None, number: int, workers: int) -> list[TimedTable | None]:
        pact = self.pacts[number]
        tables = [one_table(rows) for rows in split_batches([side.rows] if side else [], pact, workers)]
        return [None if rows is None else timed_table(rows, self.at[number], self.interval.lower) for rows in tables]

    @staticmethod
    def merge(one: Kept, other: Kept) -> Kept:
        lefts, rights = _both(one.lefts, other.lefts), _both(one.rights, other.rights)
        watermark = one.watermark.merge(other.watermark)
        return Kept(lefts, rights, watermark, one.other_watermark.merge(other.other_watermark))

    @property
    def pacts(self) -> list[Pact]:
        return [Exchange(key) for key in self.columns.keys.exchanges if key is not None]

    def process(self, kept: Kept, batches: list[list[Batch]], token: object) -> Sequence[list[Batch]]:
        left, late = self._in_time(batches[0], self.at[0], kept.watermark.value)
        right, other_late = self._in_time(batches[1], self.at[1], kept.other_watermark.value)
        found = self._join(kept.lefts, right)
        kept.rights = _both(kept.rights, right)
        found += self._join(left, kept.rights)
        kept.lefts = _both(kept.lefts, left)
        kept.advance(*batches[2:])
        if kept.lefts is not None and kept.other_watermark.value is not None:
            upper = distance(self.interval.upper)
            kept.lefts = kept.lefts.where(reach(kept.lefts.times, upper, kept.other_watermark.value))
        if kept.rights is not None and kept.watermark.value is not None:
            bound = kept.watermark.value + distance(self.interval.lower)
            kept.rights = kept.rights.where(~are_before(kept.rights.times, bound))
        return found, late, other_late

    def compare_keys(self, kept: Kept, unlike_keys: UnlikeKeys) -> None:
        left, right = (None if side is None else side.rows for side in (kept.lefts, kept.rights))
        unlike_keys.compare_tables(self.columns.keys, left, right)

    def _in_time(self, batches: list[Batch], at: str, watermark: Any) -> "tuple[TimedTable | None, list[pa.Table]]":
        rows = one_table(batches)
        if rows is None:
            return None, []
        timed = timed_table(rows, at, self.interval.lower)
        if watermark is None:
            return timed, []
        late = are_before(timed.times, watermark)
        return timed.where(~late), [timed.rows.filter(late)]

    def _join(self, left: TimedTable | None, right: TimedTable | None) -> "list[pa.Table]":
        if left is None or right is None or not (len(left.rows) and len(right.rows)):
            return []
        _check_zones(left.rows.column(self.at[0]), right.rows.column(self.at[1]))
        numbers = number_keys(self.columns.keys, left.rows, right.rows)
        lower, upper = distance(self.interval.lower), distance(self.interval.upper)
        matches = match_within(numbers, *bounds(left.times, lower, upper, right.times))
        return [self.columns.combine(left.rows, right.rows, matches)]


def _both(one: TimedTable | None, other: TimedTable | None) -> TimedTable | None:
    if one is None or other is None:
        return other if one is None else one
    import numpy as np

    rows = concatenate_tables([one.rows, other.rows]).combine_chunks()
    return TimedTable(rows, np.concatenate([one.times, other.times]))


def _check_zones(left: "pa.ChunkedArray", right: "pa.ChunkedArray") -> None:
    import pyarrow as pa

    kinds = (left.type, right.type)
    if len({getattr(kind, "tz", None) is None for kind in kinds}) > 1 or len(set(map(pa.types.is_duration, kinds))) > 1:
        raise TypeError(f"event times of {left.type} and of {right.type} cannot be compared: cast one of them before")


class Bounds(NamedTuple):
    """For each left row, the first and last event time of a partner; for each right row, its event time.

    All three arrays have one type.
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
    if times.dtype.kind == "f":
        return float(times.max())
    return int(_ticks(times).max()) * _tick(times)


def are_before(times: "Times", instant: Number) -> "npt.NDArray[Any]":
    if times.dtype.kind == "f":
        return times < instant
    return _ticks(times) < -(-instant // _tick(times))


def reach(times: "Times", farthest: Number, instant: Number) -> "npt.NDArray[Any]":
    """Tell for each time whether ``time + farthest >= instant``."""
    if times.dtype.kind == "f" or isinstance(farthest, float) or isinstance(instant, float):
        return times + float(farthest) >= instant
    return ~are_before(times, instant - farthest)


def bounds(times: "Times", lower: Number, upper: Number, instants: "Times") -> Bounds:
    """Return ``times + lower``, ``times + upper`` and ``instants``, in one type that holds all of them.

    No array is empty.

    >>> import numpy as np
    >>> bounds(np.array([5]), -(2**63), 2**70, np.array([1, 9]))
    Bounds(lows=array([0]), highs=array([10]), instants=array([1, 9]))
    """
    if "f" in {times.dtype.kind, instants.dtype.kind} or isinstance(lower, float) or isinstance(upper, float):
        return Bounds(times + float(lower), times + float(upper), instants)
    unit = min(_tick(times), _tick(instants))
    times, instants = _in_units(times, unit), _in_units(instants, unit)
    earliest, latest = int(times.min()), int(times.max())
    # Any instant beyond all others has the same effect, so the nearest one will do.
    least, most = int(instants.min()) - latest - 1, int(instants.max()) - earliest + 1
    ends = [min(max(end, least), most) for end in (-(-lower // unit), upper // unit)]
    if min(ends) + min(earliest, 0) < _LEAST or max(ends) + max(latest, 0) > _MOST:
        times = times.astype(object)
    return Bounds(times + ends[0], times + ends[1], instants)


def _tick(times: "Times") -> int:
    """Return the nanoseconds of a time's unit; 1 for numbers."""
    import numpy as np

    return _NANOSECONDS[np.datetime_data(times.dtype)[0]] if times.dtype.kind in "mM" else 1


def _ticks(times: "Times") -> "Times":
    return times.view("int64") if times.dtype.kind in "mM" else times


def _in_units(times: "Times", unit: int) -> "Times":
    """Return times as multiples of ``unit``, as Python integers if NumPy's would overflow."""
    factor, ticks = _tick(times) // unit, _ticks(times)
    if factor > 1 and max(-int(ticks.min()), int(ticks.max())) * factor > _MOST:
        ticks = ticks.astype(object)
    return ticks * factor if factor > 1 else ticks
