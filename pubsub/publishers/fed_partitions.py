"""The connection of one worker to the partitions with logs that it feeds: several, one or none.

A topic with logs keeps the number of partitions of its first job, while later jobs may have other numbers of workers.
Worker w of W feeds the partitions p with p mod W = w. If there are only P < W partitions, each worker w from P on sends
its records to the worker that feeds partition w mod P.

Invariants:

- One worker feeds a partition, so the partition's batches have an order, and its log recognises repeated batches.
- A worker publishes its records in the first partition that it feeds. The frontiers of all its partitions move
  together.
- A snapshot has a part for each partition: the partition's position and the messages that its log may lack. The part
  goes to the worker that feeds the partition next. So a job with another number of workers can go back in each log as
  any other job can.
- After a return, each partition waits until the worker has reached the partition's own frontier in the snapshot.
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
    """One worker's connection to the partitions that it feeds; a pickled copy is a new connection.

    The first connection is for the partition with the worker's number.
    """

    def __init__(self, topic: str, domain: TimeDomain, connections: Sequence[RayConnection]) -> None:
        super().__init__(topic, connections[0].partition)
        self._domain = domain
        self._connections = connections
        self._reached = Antichain(domain, [domain.minimum()])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._topic, self._domain, self._connections)

    def data(self, time: Time, batch: Any) -> None:
        self._connections[0].data(time, batch)

    def ends(self, time: Time, keys: list[Any]) -> None:
        self._connections[0].ends(time, keys)

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> None:
        """Receive one move of the frontier; move all partitions whose frontier is not ahead of it."""
        changes = ChangeBatch(chain(((time, 1) for time in self._reached), updates))
        self._reached = Antichain(self._domain, [time for time, _ in changes])
        for connection in self._connections:
            before = Antichain(self._domain, connection.announced)
            if before.dominates(self._reached) and (moves := moved(before, self._reached)):
                connection.frontier(moves)

    def go_on(self, saved: Saved | None) -> None:
        assert saved is None or isinstance(saved, Mapping), "a topic with logs has each partition for itself"
        for connection in self._connections:
            connection.go_on(None if saved is None else saved.get(connection.partition))
        lowers = (connection.announced for connection in self._connections)
        self._reached = Antichain(self._domain, chain.from_iterable(lowers))

    def saved(self) -> Mapping[int, SavedEvents] | None:
        found = {connection.partition: connection.saved() for connection in self._connections}
        return {partition: saved for partition, saved in found.items() if saved is not None} or None

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def flush(self) -> None:
        for connection in self._connections:
            connection.flush()

    def has_room(self) -> bool:
        rooms = [connection.has_room() for connection in self._connections]  # each may have to connect
        return all(rooms)

    @property
    def is_awaiting(self) -> bool:
        return any(connection.is_awaiting for connection in self._connections)

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        waits = [connection.wait_for_room(wake) for connection in self._connections]
        return None if None in waits else 0.0
