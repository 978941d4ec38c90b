"""Interval joins by names of columns: what comes in and what comes out are Arrow tables."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from tidewheel.operators.epochs.gathered_epochs import GatheredEpoch
from tidewheel.operators.joins.column_times import Number, are_before, bounds, distance, greatest, reach
from tidewheel.operators.joins.interval_join import Interval
from tidewheel.operators.joins.table_join import JoinedColumns
from tidewheel.operators.joins.table_matching import match_within, number_rows
from tidewheel.operators.keys.join_keys import KeyColumns
from tidewheel.operators.records.arrow_rows import as_table, one_table
from tidewheel.operators.windows.watermark import LatestTimes, Watermark
from tidewheel.operators.windows.windows import Duration
from tidewheel.runtime import Build, InputPort, OutputPort
from tidewheel.transport.batches import Batch, concatenate_tables

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa


class TimedTable(NamedTuple):
    """Rows, and the event time of each as NumPy has it."""

    rows: "pa.Table"
    times: "npt.NDArray[Any]"

    def where(self, wanted: "npt.NDArray[Any]") -> "TimedTable":
        """Return the rows for which ``wanted`` is true."""
        return self if wanted.all() else TimedTable(self.rows.filter(wanted), self.times[wanted])

    def with_rows_of(self, other: "TimedTable") -> "TimedTable":
        """Return the rows of both."""
        import numpy as np

        rows = concatenate_tables([self.rows, other.rows]).combine_chunks()
        return TimedTable(rows, np.concatenate([self.times, other.times]))


def timed_table(rows: "pa.Table", at: str, length: Duration) -> TimedTable:
    """Return the rows with the event times that column ``at`` has.

    Args:
        rows: the rows.
        at: the column: of numbers, or if ``length`` is a timedelta of timestamps, dates or durations.
        length: some duration that is to be added to event times.

    Raises:
        KeyError: there is no such column.
        ValueError: an event time is null, NaN or infinite, or an integer beyond int64.
        TypeError: it is of another type.
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


def build_table_reading(at: str, length: Duration) -> Build:
    """Return the build function of an operator that sends tables, and the greatest event time of those at hand."""

    def schedule(input: InputPort, tables: OutputPort, latest: OutputPort) -> None:
        times = LatestTimes()
        for lent, batch in input:
            timed = timed_table(as_table(batch), at, length)
            tables.send(lent, timed.rows)
            times.add(lent, [greatest(timed.times)])
        times.send(latest)

    return lambda context: schedule


@dataclass(slots=True)
class KeptRows:
    """What is kept of earlier epochs, for each side: the rows that are needed and the watermark."""

    watermark: Watermark
    other_watermark: Watermark
    left: TimedTable | None = None
    right: TimedTable | None = None


@dataclass(frozen=True, slots=True)
class IntervalTableJoin:
    """Pairs rows epoch by epoch; O(n log n) an epoch in the rows that are new or kept.

    Its inputs are the tables of both sides, and after them the greatest event times of both on all workers.
    """

    keys: KeyColumns
    at: str
    other_at: str
    interval: Interval
    lateness: Duration | None
    suffix: str

    def start(self) -> KeptRows:
        """Return what is kept before the first epoch."""
        lateness = None if self.lateness is None else distance(self.lateness)
        return KeptRows(Watermark(lateness), Watermark(lateness))

    def process(self, kept: KeptRows, epoch: GatheredEpoch) -> Sequence[Iterable[Batch]]:
        """Return the rows that an epoch brings, and what is late on both sides."""
        lefts, rights, latest, other_latest = epoch.batches
        left, late = self._in_time(lefts, self.at, kept.watermark.value)
        right, other_late = self._in_time(rights, self.other_at, kept.other_watermark.value)
        found = self._join(kept.left, right)
        kept.right = _both(kept.right, right)
        found += self._join(left, kept.right)
        kept.left = _both(kept.left, left)
        kept.watermark.advance(time for batch in latest for time in batch)
        kept.other_watermark.advance(time for batch in other_latest for time in batch)
        self._drop_unneeded(kept)
        return found, late, other_late

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
        _check_zones(left.rows.column(self.at), right.rows.column(self.other_at))
        keys = number_rows(self.keys, left.rows, right.rows)
        matches = match_within(keys, *bounds(left.times, *self._distances, right.times))
        return [JoinedColumns(self.keys, self.suffix).combine(left.rows, right.rows, matches)]

    def _drop_unneeded(self, kept: KeptRows) -> None:
        lower, upper = self._distances
        if kept.left is not None and kept.other_watermark.value is not None:
            kept.left = kept.left.where(reach(kept.left.times, upper, kept.other_watermark.value))
        if kept.right is not None and kept.watermark.value is not None:
            kept.right = kept.right.where(~are_before(kept.right.times, kept.watermark.value + lower))

    @property
    def _distances(self) -> tuple[Number, Number]:
        return distance(self.interval.lower), distance(self.interval.upper)


def _both(one: TimedTable | None, other: TimedTable | None) -> TimedTable | None:
    if one is None or other is None:
        return other if one is None else one
    return one.with_rows_of(other)


def _check_zones(left: "pa.ChunkedArray", right: "pa.ChunkedArray") -> None:
    import pyarrow as pa

    kinds = (left.type, right.type)
    if len({getattr(kind, "tz", None) is None for kind in kinds}) > 1 or len(set(map(pa.types.is_duration, kinds))) > 1:
        raise TypeError(f"event times of {left.type} and of {right.type} cannot be compared: cast one of them before")
