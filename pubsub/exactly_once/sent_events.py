"""What a worker has sent and may have to send again, because its publisher died before it was durable.

The worker keeps each event until it hears that it is durable. A publisher that starts again is told where the worker
was at the first event that is left, and then gets that one and all after it: what of them is in the log already it
knows by their places.

Source: seed "Gryphon exactly-once", section 2.2.
"""

from collections import deque
from itertools import islice

from tidewheel.progress import MutableAntichain, ProtocolError, Time, TimeDomain
from tidewheel.pubsub.exactly_once.journal import Sent, WorkerPosition
from tidewheel.pubsub.wire import DataMessage, FeedEvent


class SentEvents:
    """The events of one worker, from the least time on.

    Args:
        domain: the times of the topic.

    >>> from tidewheel.progress import IntegerDomain
    >>> sent = SentEvents(IntegerDomain())
    >>> [sent.add(DataMessage(0, b"", "pickle", 1)).index for _ in range(3)]
    [0, 1, 2]
    >>> sent.durable(2)
    >>> sent.position, [one.index for one in sent.events()], sent.waiting
    (WorkerPosition(lower=[0], sent={0: 2}), [2], 1)
    """

    def __init__(self, domain: TimeDomain) -> None:
        self._lower = MutableAntichain(domain)
        self._lower.update([(domain.minimum(), 1)])
        self._durable: dict[Time, int] = {}
        self._indices: dict[Time, int] = {}
        self._events: deque[Sent] = deque()
        self._bytes = 0

    def add(self, event: FeedEvent) -> Sent:
        """Take an event; return it as it is to be sent."""
        index = 0
        if isinstance(event, DataMessage):
            index = self._indices.get(event.time, 0)
            self._indices[event.time] = index + 1
            self._bytes += len(event.payload)
        sent = Sent(event, index)
        self._events.append(sent)
        return sent

    def durable(self, count: int) -> None:
        """Take note that so many more events, the oldest, are durable.

        Raises:
            ProtocolError: so many have not been sent.
        """
        if count > len(self._events):
            raise ProtocolError(f"{count} events are said to be durable, and {len(self._events)} were sent")
        for _ in range(count):
            event = self._events.popleft().event
            if isinstance(event, DataMessage):
                self._bytes -= len(event.payload)
                self._durable[event.time] = self._durable.get(event.time, 0) + 1
                continue
            self._lower.update(event.updates)
            passed = [time for time in self._durable if not self._lower.less_equal(time)]
            for time in passed:
                del self._durable[time]
                del self._indices[time]

    @property
    def position(self) -> WorkerPosition:
        """Where the worker was before the first event that is not durable."""
        return WorkerPosition(list(self._lower.frontier), dict(self._durable))

    def events(self, start: int = 0) -> list[Sent]:
        """Return the events that are not known to be durable, in order, from number ``start`` of them on."""
        return list(islice(self._events, start, None))

    @property
    def waiting(self) -> int:
        """How many events are not known to be durable."""
        return len(self._events)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes the batches among them have."""
        return self._bytes
