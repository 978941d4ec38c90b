"""Watermarks: how far event time has come, the same on every worker.

Each worker tells all of them the greatest event time of its records, epoch by epoch, so whoever has processed some
epochs knows the greatest event time in them, wherever it was. The watermark lies behind that by the lateness. While an
epoch is processed it is that of the epochs before: all records of an epoch meet the same one, in whatever order they
come. A record with an event time before it is late.

Source: "The Dataflow Model" (VLDB 2015), section 2.3; the watermark by the greatest time seen is Flink's for bounded
lateness.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from tidewheel.progress import GraphError

At: TypeAlias = Callable[[Any], Any] | str
"""How the event time of a record is found: a function, or the name of a column or field."""


@dataclass(slots=True)
class Watermark:
    """The watermark of the epochs that were processed so far; none before the first record.

    >>> watermark = Watermark(lateness=2)
    >>> watermark.value
    >>> watermark.advance([7, 4])
    >>> watermark.value
    5
    """

    lateness: Any = None
    """How far it lies behind the greatest event time; None: not at all."""
    latest: Any = None
    """The greatest event time so far."""

    @property
    def value(self) -> Any:
        """The event time before which records are late, None if there is none yet."""
        if self.latest is None or self.lateness is None:
            return self.latest
        return self.latest - self.lateness

    def advance(self, latest: Iterable[Any]) -> None:
        """Take in the greatest event times of an epoch, one a worker that had records."""
        known = [] if self.latest is None else [self.latest]
        self.latest = max([*latest, *known], default=None)


def check_lateness(name: str, lateness: object) -> None:
    """Raise GraphError unless ``lateness`` is None, a number or a duration that is not negative."""
    if lateness is None:
        return
    known = isinstance(lateness, int | float | timedelta) and not isinstance(lateness, bool)
    if not known or lateness < type(lateness)():  # type: ignore[operator]
        raise GraphError(
            f"operator {name!r}: lateness is how far the watermark lies behind the greatest event time, a number or "
            f"timedelta that is not negative, as the difference of two event times is; not {lateness!r}"
        )
