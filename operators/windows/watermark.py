"""Watermarks, which show the progress of event time and are the same on every worker.

For each epoch, each worker sends all workers the greatest event time of its records. The watermark is the greatest of
these times minus the lateness. A record is late if its event time is before the watermark of earlier epochs, so the
order within an epoch does not matter.

Source: "The Dataflow Model" (VLDB 2015), section 2.3; Flink's watermark for bounded lateness also follows the greatest
event time.
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
"""How to find the event time of a record: a function, or the name of a column or field."""


@dataclass(slots=True)
class Watermark:
    """The watermark after the epochs processed so far; None before the first record.

    >>> watermark = Watermark(lateness=2)
    >>> watermark.value
    >>> watermark.advance([7, 4])
    >>> watermark.value
    5
    """

    lateness: Any = None
    """The distance of the watermark from the greatest event time; None for no distance."""
    latest: Any = None
    """The greatest event time so far."""

    @property
    def value(self) -> Any:
        """The event time before which records are late; None before the first record."""
        if self.latest is None or self.lateness is None:
            return self.latest
        return self.latest - self.lateness

    def advance(self, latest: Iterable[Any]) -> None:
        """Add the greatest event times of an epoch, one from each worker that has records."""
        known = [] if self.latest is None else [self.latest]
        self.latest = latest_of([*latest, *known])

    def merge(self, other: "Watermark") -> "Watermark":
        """Return the lesser watermark, since its worker has not processed all epochs that the other has."""
        return min(self, other, key=lambda one: (one.latest is not None, one.latest))


@dataclass(slots=True)
class LatestTimes:
    """The greatest event time of each epoch that one call of an operator has read; it is sent to all workers."""

    found: dict[Time, tuple[LentToken, list[Any]]] = field(default_factory=dict)

    def add(self, lent: LentToken, times: Iterable[Any]) -> None:
        """Add the event times, at least one, of a batch that arrived with a token."""
        self.found.setdefault(lent.time, (lent, []))[1].append(max(times))

    def send(self, output: OutputPort) -> None:
        for lent, found in self.found.values():
            output.send(lent, [latest_of(found)])


class ReadTimes(NamedTuple):
    """A batch with its event times."""

    timed: Batch
    times: Sequence[Any]
    ahead: Batch


def build_reading(read: Callable[[Batch], ReadTimes]) -> Build:
    """Build an operator that reads the event times of records on their worker.

    Its outputs are the read batches, the greatest event times (for all workers), and the records too far ahead.
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
    """Return the greatest event time; None if there is none.

    Raises:
        TypeError: some times have a zone, and others do not.
    """
    try:
        return max(times, default=None)
    except TypeError as error:
        raise TypeError(
            f"event times cannot be compared, {error}: among them are {times[0]!r} and {times[-1]!r}; give all of them "
            "one kind, and datetimes all a zone or none"
        ) from error
