"""Event times that are too far in the future to be true.

A record with such a time would advance the watermark, close all windows and make every later record late. So operators
that read event times compare them with a clock, and divert such records. A restored job reads the clock again, so it
may accept a record that was too far ahead before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidewheel.operators.windows.windows import Duration, EventTime, check_alike, check_duration
from tidewheel.progress import GraphError

_OF_DATETIMES = timedelta(days=1)
"""The default limit for datetimes, which leaves room for naive datetimes of any zone."""


@dataclass(frozen=True, slots=True)
class AheadLimit:
    """The limit for event times ahead of a clock.

    Attributes:
        at_most: how far ahead a time may be; None is a day for datetimes, and no limit for other times.
        clock: returns the current time as an event time; None for the wall clock, which returns datetimes.

    >>> noon = datetime(2024, 5, 1, 12)
    >>> AheadLimit(clock=lambda: noon).latest(noon), AheadLimit().latest(17.5)
    (datetime.datetime(2024, 5, 2, 12, 0), None)
    """

    at_most: Duration | None = None
    clock: Callable[[], EventTime] | None = None

    @classmethod
    def checked(cls, where: str, at_most: object, clock: object, length: Duration) -> "AheadLimit":
        """Return the limit; raise GraphError if it does not fit event times.

        ``length`` is any duration; its type tells whether event times are numbers or datetimes.
        """
        if clock is not None and not callable(clock):
            raise GraphError(f"{where}: clock is a function that returns the present as an event time, not {clock!r}")
        if at_most is None:
            return cls(None, clock)
        check_duration(where, "at_most_ahead", at_most, least="zero")
        check_alike(where, "at_most_ahead", at_most, length)
        if clock is None and not isinstance(length, timedelta):
            raise GraphError(
                f"{where}: at_most_ahead={at_most!r} is a distance from the present, which the wall clock does not "
                "show as a number: give a clock, such as clock=time.time where event times are seconds since 1970"
            )
        return cls(at_most, clock)  # type: ignore[arg-type]

    def latest(self, time: EventTime) -> EventTime | None:
        """Read the clock, and return the latest event time that is not too far ahead; None if there is no limit.

        The result has the type of ``time``. A naive datetime is compared with a naive clock, or is taken as UTC.

        Raises:
            TypeError: the clock returns another type, or event times are timedeltas and have no clock.
        """
        if isinstance(time, datetime):
            now: EventTime = self._now(time)
            at_most: EventTime = _OF_DATETIMES if self.at_most is None else self.at_most
        elif self.at_most is None:
            return None
        elif self.clock is None:
            raise TypeError(f"event times are timedeltas, such as {time!r}: at_most_ahead= needs a clock= of these")
        else:
            now, at_most = self.clock(), self.at_most
        try:
            return now + at_most
        except OverflowError:
            return None
        except TypeError as error:
            raise TypeError(f"the clock shows {now!r}, and event times are such as {time!r}") from error

    def _now(self, time: datetime) -> datetime:
        now = datetime.now(UTC) if self.clock is None else self.clock()
        if not isinstance(now, datetime):
            raise TypeError(f"the clock shows {now!r}, and event times are such as {time!r}")
        if time.tzinfo is None:
            return now if now.tzinfo is None else now.astimezone(UTC).replace(tzinfo=None)
        return now.astimezone(UTC)
