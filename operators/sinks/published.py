"""One worker's part of a topic in a snapshot.

A snapshot leaves out the data that the publisher has received. A restored worker tells the publisher how much that was,
and sends the rest. If the number of workers changes, publishers without a log are new, and worker 0 gets all parts;
with logs, each partition goes to the worker that feeds it.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.pubsub.messages.wire import DataMessage, History, WorkerPosition
from tidewheel.pubsub.protocol.history import PartitionHistory
from tidewheel.pubsub.publishers.feeding import feeder_of
from tidewheel.pubsub.publishers.sent_events import SavedEvents

if TYPE_CHECKING:
    from tidewheel.pubsub.publishers.connection import PublisherConnection, Saved


class Published:
    """One worker's part of a topic.

    Args:
        announced: the frontier that the publisher has received last; None for the least time. Partitions with logs keep
            their own.

    Attributes:
        is_behind: whether the operator's input frontier may be before ``announced``, since it begins at the least time.
    """

    def __init__(
        self, domain: TimeDomain, announced: Sequence[Time] | None = None, saved: "Saved | None" = None
    ) -> None:
        self._domain = domain
        self._saved = saved
        self._connection: PublisherConnection | None = None
        if isinstance(saved, Mapping):
            announced = list(chain.from_iterable(one.lower for one in saved.values()))
        self.announced = Antichain(domain, [domain.minimum()] if announced is None else announced)
        self.is_behind = announced is not None
        self._lowers = [Antichain(domain, saved.position.lower)] if isinstance(saved, SavedEvents) else []

    def __reduce__(self) -> tuple[Any, ...]:
        saved = self._saved if self._connection is None else self._connection.saved()
        return type(self), (self._domain, list(self.announced), saved)

    def connect(self, connection: "PublisherConnection") -> None:
        """Let a connection continue from this state."""
        connection.go_on(self._saved)
        self._connection, self._saved = connection, None

    def split(self, workers: int) -> list["Published | None"]:
        """Return the part of each worker: with logs, its partitions; otherwise worker 0 gets everything.

        A publisher without a log is then new, and has no records of incomplete epochs.
        """
        if not isinstance(self._saved, Mapping):
            return [self, *[None] * (workers - 1)]
        parts: list[dict[int, SavedEvents]] = [{} for _ in range(workers)]
        for partition, saved in self._saved.items():
            parts[feeder_of(partition, workers)][partition] = saved
        return [Published(self._domain, None, part) if part else None for part in parts]

    def merge(self, other: "Published") -> "Published":
        """Merge the parts of two workers.

        Without logs, this drops frontier moves that the publisher has not received. It also drops batches of times that
        another worker had passed, unless the topic has a history.
        """
        partitions = [one._saved for one in (self, other) if isinstance(one._saved, Mapping)]
        if partitions:  # a worker that feeds none has nothing
            return Published(self._domain, None, dict(chain.from_iterable(one.items() for one in partitions)))
        saved = [one._saved for one in (self, other) if isinstance(one._saved, SavedEvents)]
        if not saved:
            return Published(self._domain, [*self.announced, *other.announced])
        lowers = [*self._lowers, *other._lowers]
        lower = Antichain(self._domain, [time for one in lowers for time in one])
        sent = {time: batches for one in saved for time, batches in one.position.sent.items()}
        batches = [event for one in saved for event in one.kept if isinstance(event, DataMessage)]
        kept = [batch for batch in batches if all(one.less_equal(batch.time) for one in lowers)]
        left_out = [(0, batch) for batch in batches if not all(one.less_equal(batch.time) for one in lowers)]
        history = _joined(self._domain, [one.position.history for one in saved], left_out)
        position = WorkerPosition(list(lower), sent, sum(one.position.events for one in saved), history=history)
        merged = Published(self._domain, position.lower, SavedEvents(position, kept))
        merged._lowers = lowers
        return merged


def _joined(
    domain: TimeDomain, histories: Sequence[History | None], batches: Sequence[tuple[int, DataMessage]]
) -> History | None:
    known = [history for history in histories if history is not None]
    if not known:
        return None
    joined = PartitionHistory(domain)
    for history in (*known, History((), tuple(batches))):
        joined.add(history)
    return joined.kept
