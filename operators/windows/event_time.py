"""Event times of records: read by a function or from a column, and checked."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from numbers import Real
from operator import itemgetter
from reprlib import repr as shortened
from typing import Any, TypeAlias

from tidewheel.batches.batches import Batch, records
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.operators.windows.ahead import AheadLimit
from tidewheel.operators.windows.watermark import At, ReadTimes, latest_of
from tidewheel.operators.windows.windows import Duration, EventTime
from tidewheel.runtime.description.pacts import Exchange

TimedRecord: TypeAlias = tuple[Any, EventTime, Any]
"""A record with its key and event time: (key, event time, record)."""

BY_KEY = Exchange(itemgetter(0))
"""The exchange of a `TimedRecord` to the worker that owns its key."""

EVENT_TIME = itemgetter(1)
"""The function that returns the event time of a `TimedRecord`."""

RECORD = itemgetter(2)
"""The function that returns the record of a `TimedRecord`."""


@dataclass(frozen=True, slots=True)
class EventTimeReader:
    """Reads the key and the event time of records.

    Attributes:
        length: any duration; its type tells whether event times are numbers or datetimes.

    >>> reader = EventTimeReader(Keys("user"), "minute", length=10)
    >>> reader.read([{"user": "ann", "minute": 3}])
    ([('ann', 3, {'user': 'ann', 'minute': 3})], [3])
    """

    keys: Keys
    at: At
    length: Duration

    def read(self, batch: Batch) -> tuple[list[TimedRecord], list[EventTime]]:
        """Return (key, event time, record) for each record, and the event times; times with a zone become UTC.

        Raises:
            KeyError: the batch has no such column.
            ValueError: an event time is None, NaN or infinite.
            TypeError: the type of an event time does not fit the durations or the other times.
        """
        rows = records(batch)
        times = self._times(batch, rows)
        return list(zip(read_keys(batch, rows, self.keys), times, rows, strict=True)), times

    def read_one(self, record: Any) -> None:
        """Raise an error if a record has no key or no event time."""
        self.read([record])

    def _times(self, batch: Batch, rows: Any) -> list[EventTime]:
        if callable(self.at):
            at = self.at
            return self._checked([at(record) for record in rows], batch)
        try:
            found = Keys(self.at).of(batch)
        except (KeyError, TypeError, IndexError) as error:
            first = shortened(records(batch)[0])
            raise TypeError(
                f"records have no field or column {self.at!r} for the event time, such as {first}"
            ) from error
        return self._checked(found, batch)

    def _checked(self, times: list[EventTime], batch: Batch) -> list[EventTime]:
        kinds = set(map(type, times))
        if isinstance(self.length, timedelta):
            plain = kinds in ({datetime}, {timedelta})
        else:
            plain = kinds == {int} or (kinds <= {int, float} and all(time - time == 0 for time in times))
        if not plain:
            times = [self._plain(time, row) for time, row in zip(times, records(batch), strict=True)]
        return _in_utc(times) if isinstance(self.length, timedelta) else times

    def _plain(self, time: EventTime, record: Any) -> EventTime:
        if type(time).__module__ == "numpy":
            time = time.astype(f"{time.dtype.kind}8[us]").item() if time.dtype.kind in "mM" else time.item()
        if time is None or time != time:  # noqa: PLR0124 - NaN, and the NaT of pandas
            raise ValueError(
                f"record {shortened(record)} has no event time, but {shortened(time)}; filter such records out before"
            )
        if isinstance(self.length, timedelta):
            known = isinstance(time, datetime | timedelta)
            wanted = f"a datetime or a timedelta, since windows or intervals are of {self.length!r}"
        else:
            known = isinstance(time, Real) and not isinstance(time, bool)
            wanted = f"a number, since windows or intervals are of {self.length!r}; for datetimes give a timedelta"
        if not known:
            raise TypeError(f"the event time of record {shortened(record)} is {shortened(time)}: it is to be {wanted}")
        if isinstance(time, float) and time - time != 0:
            raise ValueError(f"the event time of record {shortened(record)} is {time!r}, which is no time")
        return time


def read_timed(
    reader: EventTimeReader,
    limit: AheadLimit,
    put_aside: Callable[[TimedRecord, EventTime], Iterable[Any]],
    batch: Batch,
) -> ReadTimes:
    """Return the records of a batch with event times, and the results of ``put_aside`` for records too far ahead.

    ``put_aside(record, latest)`` gets the latest event time that is not too far ahead. Raise as `EventTimeReader.read`
    does.
    """
    timed, times = reader.read(batch)
    latest = limit.latest(times[0]) if times else None
    if latest is None or latest_of(times) <= latest:
        return ReadTimes(timed, times, [])
    ahead = [made for entry in timed if entry[1] > latest for made in put_aside(entry, latest)]
    timed = [entry for entry in timed if entry[1] <= latest]
    return ReadTimes(timed, list(map(EVENT_TIME, timed)), ahead)


def read_keys(batch: Batch, rows: Any, keys: Keys) -> list[Any]:
    """Return the key of each record of a batch; ``rows`` are the `records` of the batch."""
    return keys.hashable(rows if callable(keys.key) else batch)


def _in_utc(times: list[EventTime]) -> list[EventTime]:
    zones = {time.tzinfo for time in times if isinstance(time, datetime)}
    if None in zones and len(zones) > 1:
        naive, aware = (next(time for time in times if (time.tzinfo is None) == is_naive) for is_naive in (True, False))
        raise TypeError(
            f"event times have a zone, as {aware!r} has, or none, as {naive!r}: give all of them one, such as by "
            "time.replace(tzinfo=UTC)"
        )
    if zones <= {None, UTC}:
        return times
    return [time if getattr(time, "tzinfo", None) is None else time.astimezone(UTC) for time in times]
