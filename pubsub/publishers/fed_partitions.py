"""The connection of one worker to the partitions with logs that it feeds, of which there may be several, or none.

A topic with logs keeps the number of partitions that it has from its first job on. A later job may have another number
of workers. Then worker w of W feeds the partitions p with the remainder w when divided by W. If there are P partitions
and W > P, a worker w from P on sends its records to the worker that feeds partition w modulo P.

Invariants:

- Each partition has one feeder. So its batches have an order, and its log knows what comes again, as ever.
- A worker publishes its records in one partition, the first that it feeds. All of them move with the frontier.
- What a snapshot has of a partition goes to its next feeder, whichever worker that is: where the partition is, and what
  its log may not have. So a job with another number of workers goes back in each log as one with as many does.
- Partitions may be at different frontiers in a snapshot. Each of them stays where it is until the worker has reached
  that.

Subscribers and relays learn nothing of this, as neither the partitions nor their ticks change.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.pubsub.publishers.connection import PublisherConnection, RayConnection, Saved
from tidewheel.pubsub.publishers.feeding import moved
from tidewheel.pubsub.publishers.sent_events import SavedEvents


class FedPartitions(PublisherConnection):
    """One worker's connection to the partitions that it feeds. Pickled, it is a new one.

    Args:
        topic: its name.
        domain: the times of the topic.
        connections: one for each of these partitions; the first has the number of the worker.
    """

    def __init__(self, topic: str, domain: TimeDomain, connections: Sequence[RayConnection]) -> None:
        super().__init__(topic, connections[0].partition)
        self._domain = domain
        self._connections = connections
        self._reached = Antichain(domain, [domain.minimum()])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._topic, self._domain, self._connections)

    def data(self, time: Time, batch: Any) -> None:
        """Publish a batch in the first partition."""
        self._connections[0].data(time, batch)

    def ends(self, time: Time, keys: list[Any]) -> None:
        """Publish the keys of ended substreams in the first partition."""
        self._connections[0].ends(time, keys)

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> None:
        """Receive one move of the frontier, and move all partitions that are not ahead of it."""
        changes = ChangeBatch(chain(((time, 1) for time in self._reached), updates))
        self._reached = Antichain(self._domain, [time for time, _ in changes])
        for connection in self._connections:
            before = Antichain(self._domain, connection.announced)
            if before.dominates(self._reached) and (moves := moved(before, self._reached)):
                connection.frontier(moves)

    def go_on(self, saved: Saved | None) -> None:
        """Begin to send in each partition where a snapshot is, or again."""
        assert saved is None or isinstance(saved, Mapping), "a topic with logs has each partition for itself"
        for connection in self._connections:
            connection.go_on(None if saved is None else saved.get(connection.partition))
        lowers = (connection.announced for connection in self._connections)
        self._reached = Antichain(self._domain, chain.from_iterable(lowers))

    def saved(self) -> Mapping[int, SavedEvents] | None:
        """Return what a snapshot has to have of each partition."""
        found = {connection.partition: connection.saved() for connection in self._connections}
        return {partition: saved for partition, saved in found.items() if saved is not None} or None

    def close(self) -> None:
        """Let go of all publishers."""
        for connection in self._connections:
            connection.close()

    def flush(self) -> None:
        """Send everything since the last flush, to each publisher as one call."""
        for connection in self._connections:
            connection.flush()

    def has_room(self) -> bool:
        """Tell whether there is room for another batch and its frontier at all publishers."""
        rooms = [connection.has_room() for connection in self._connections]  # as each may have to be connected
        return all(rooms)

    @property
    def is_awaiting(self) -> bool:
        """Whether a publisher awaits its first subscribers."""
        return any(connection.is_awaiting for connection in self._connections)

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        """Have ``wake`` called when one of those that have no room now has it again."""
        waits = [connection.wait_for_room(wake) for connection in self._connections]
        return None if None in waits else 0.0
