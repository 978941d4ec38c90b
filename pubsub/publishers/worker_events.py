"""The events of a worker that wait at its publisher while a subscriber holds the publisher back."""

from collections import deque
from collections.abc import Iterable

from tidewheel.pubsub.messages.wire import FeedEvent, WorkerPosition


class WorkerEvents:
    """The waiting events in order, and among them the positions at which workers have begun.

    Attributes:
        received: the number of events that have arrived, without events dropped here.

    >>> events = WorkerEvents()
    >>> events.extend(["a", "b", "c"])
    >>> events.begin(WorkerPosition([0], {}, events=1, generation=1))
    >>> len(events), events.take(), events.take().generation
    (2, 'a', 1)
    """

    def __init__(self) -> None:
        self._waiting: deque[FeedEvent | WorkerPosition] = deque()
        self._counted = 0  # the worker's count of the events that have arrived
        self.received = 0

    def extend(self, events: Iterable[FeedEvent]) -> None:
        before = len(self._waiting)
        self._waiting.extend(events)
        added = len(self._waiting) - before
        self.received += added
        self._counted += added

    def begin(self, position: WorkerPosition) -> None:
        """Add the position at which a worker begins again.

        Drop the waiting events of its earlier life from there on.
        """
        while self._counted > position.events and self._waiting:
            self.received -= 1
            self._counted -= not isinstance(self._waiting.pop(), WorkerPosition)
        self._waiting.append(position)
        self.received += 1
        self._counted = position.events

    def take(self) -> FeedEvent | WorkerPosition:
        return self._waiting.popleft()

    def clear(self) -> None:
        self._waiting.clear()

    def __len__(self) -> int:
        return len(self._waiting)
