"""The share of one worker in a topic, as a snapshot keeps it.

A snapshot does not keep what the publisher has received. A worker that goes on from it says how much that was, sends
what the publisher may not have received, and then what comes next.
"""

from collections.abc import Sequence
from typing import Any

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.pubsub.exactly_once.sent_events import SavedEvents
from tidewheel.pubsub.messages.wire import DataMessage, WorkerPosition
from tidewheel.pubsub.publishers.connection import PublisherConnection


class Published:
    """One worker's share of a topic.

    Args:
        domain: the times of the topic.
        announced: the frontier that the publisher was told last; None for the least time.
        saved: what a snapshot has of the events.

    Attributes:
        announced: that frontier.
        is_behind: whether the frontier of the operator's input may be before it, as it begins at the least time.
    """

    def __init__(
        self, domain: TimeDomain, announced: Sequence[Time] | None = None, saved: SavedEvents | None = None
    ) -> None:
        self._domain = domain
        self._saved = saved
        self._connection: PublisherConnection | None = None
        self.announced = Antichain(domain, [domain.minimum()] if announced is None else announced)
        self.is_behind = announced is not None
        self._lowers = [] if saved is None else [Antichain(domain, saved.position.lower)]

    def __reduce__(self) -> tuple[Any, ...]:
        saved = self._saved if self._connection is None else self._connection.saved()
        return type(self), (self._domain, list(self.announced), saved)

    def connect(self, connection: PublisherConnection) -> None:
        """Have a connection go on from here."""
        connection.go_on(self._saved)
        self._connection, self._saved = connection, None

    def split(self, workers: int) -> list["Published | None"]:
        """Return all of it for worker 0: its publisher is a new one, and has nothing of epochs that have begun."""
        return [self, *[None] * (workers - 1)]

    def merge(self, other: "Published") -> "Published":
        """Return the shares of two workers as one. Moves of the frontier that were not received are left out.

        So are kept batches of times that another worker had passed: its part of these epochs is not published again.
        """
        saved = [one._saved for one in (self, other) if one._saved is not None]
        if not saved:
            return Published(self._domain, [*self.announced, *other.announced])
        lowers = [*self._lowers, *other._lowers]
        lower = Antichain(self._domain, [time for one in lowers for time in one])
        sent = {time: batches for one in saved for time, batches in one.position.sent.items()}
        batches = [event for one in saved for event in one.kept if isinstance(event, DataMessage)]
        kept = [batch for batch in batches if all(one.less_equal(batch.time) for one in lowers)]
        number = max(one.position.number for one in saved)  # a topic with a log of one partition has one share
        position = WorkerPosition(list(lower), sent, sum(one.position.events for one in saved), number=number)
        merged = Published(self._domain, position.lower, SavedEvents(position, kept))
        merged._lowers = lowers
        return merged
