"""Watermarks: how far event time has come, the same on every worker.

For each epoch, each worker tells all workers the greatest event time of its records. So a worker that has processed
an epoch knows the greatest event time in it on all workers. The watermark is that time minus the lateness. During an
epoch, a worker uses the watermark of the epochs before. So all records of an epoch meet the same watermark, in any
order. A record whose event time is before the watermark is late.

Source: "The Dataflow Model" (VLDB 2015), section 2.3; the watermark by the greatest time seen is Flink's for bounded
lateness.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from tidewheel.batches.batches import Batch
from tidewheel.progress import Time
from tidewheel.runtime.description.plan import Build
from tidewheel.runtime.tokens.timestamp_token import LentToken
from tidewheel.runtime.worker.ports import InputPort, OutputPort

At: TypeAlias = Callable[[Any], Any] | str
"""The way to the event time of a record: a function, or the name of a column or field."""


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
        self.latest = latest_of([*latest, *known])

    def merge(self, other: "Watermark") -> "Watermark":
        """Return the one that is behind: its worker has still to process what the other one has processed."""
        return min(self, other, key=lambda one: (one.latest is not None, one.latest))


@dataclass(slots=True)
class LatestTimes:
    """The greatest event times that one call of an operator has read, by epoch; told to all workers once for each."""

    found: dict[Time, tuple[LentToken, list[Any]]] = field(default_factory=dict)

    def add(self, lent: LentToken, times: Iterable[Any]) -> None:
        """Take in the event times, at least one, of a batch that came with a token."""
        self.found.setdefault(lent.time, (lent, []))[1].append(max(times))

    def send(self, output: OutputPort) -> None:
        """Send them, each at its epoch, to an output that all workers read."""
        for lent, found in self.found.values():
            output.send(lent, [latest_of(found)])


class ReadTimes(NamedTuple):
    """A batch whose event times were read.

    Attributes:
        timed: a batch to go on with, of the records that are not too far ahead.
        times: their event times, or at least the greatest; none if there are no such records.
        ahead: what is sent of the records that are too far ahead.
    """

    timed: Batch
    times: Sequence[Any]
    ahead: Batch


def build_reading(read: Callable[[Batch], ReadTimes]) -> Build:
    """Return the build function of an operator that reads event times where records are.

    Its outputs are what ``read`` makes of each batch to go on with; for all workers, the greatest event time of those
    at hand; and what is too far ahead.
    """

    def schedule(input: InputPort, timed: OutputPort, latest: OutputPort, ahead: OutputPort) -> None:
        greatest = LatestTimes()
        for lent, batch in input:
            made = read(batch)
            timed.send(lent, made.timed)
            ahead.send(lent, made.ahead)
            if made.times:
                greatest.add(lent, made.times)
        greatest.send(latest)

    return lambda context: schedule


def latest_of(times: Sequence[Any]) -> Any:
    """Return the greatest of some event times, None if there are none.

    Raises:
        TypeError: they cannot be compared, as some have a zone and others have none.
    """
    try:
        return max(times, default=None)
    except TypeError as error:
        raise TypeError(
            f"event times cannot be compared, {error}: among them are {times[0]!r} and {times[-1]!r}; give all of them "
            "one kind, and datetimes all a zone or none"
        ) from error
