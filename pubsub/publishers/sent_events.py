"""The events that a worker has sent and must send again if its publisher dies before they are durable.

The worker keeps each event until the publisher reports it as durable. It sends a restarted publisher the position of
the first kept event, and then all kept events. A snapshot of the job also has this position and the events.

Source: seed "Gryphon exactly-once", section 2.2.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from tidewheel.progress import MutableAntichain, ProtocolError, Time, TimeDomain
from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, check_size, encode
from tidewheel.pubsub.messages.wire import (
    FIRST,
    DataMessage,
    FeedEvent,
    Generation,
    LowerFrontierUpdate,
    WorkerPosition,
)
from tidewheel.pubsub.protocol.history import PartitionHistory


@dataclass(frozen=True, slots=True)
class SavedEvents:
    """The events of one worker in a snapshot.

    Attributes:
        kept: the events after ``position``.
    """

    position: WorkerPosition
    kept: Sequence[FeedEvent]

    @property
    def lower(self) -> list[Time]:
        """The frontier after all these events; empty once the worker has sent everything."""
        moves = (event.updates for event in self.kept if isinstance(event, LowerFrontierUpdate))
        return [time for time, _ in ChangeBatch(chain(((time, 1) for time in self.position.lower), *moves))]


class SentEvents:
    """The events that one worker has sent.

    Args:
        keeps_end: whether the last move of the frontier, to the empty frontier, is always kept, since a log may go back
            to a time before that move.

    Raises:
        DeliveryError: the topic has history, but the snapshot was taken without it.

    >>> from tidewheel.progress import IntegerDomain
    >>> from tidewheel.pubsub.messages.encoded_message import place_of
    >>> sent = SentEvents(IntegerDomain())
    >>> [place_of(sent.add(DataMessage(0, b"", "pickle", 1))) for _ in range(2)]
    [Place(time=0, number=0), Place(time=0, number=1)]
    >>> sent.durable(1)
    >>> sent.position.lower, sent.position.sent, [place_of(message) for message in sent.messages()]
    ([0], {0: 1}, [Place(time=0, number=1)])
    """

    def __init__(
        self,
        domain: TimeDomain,
        saved: SavedEvents | None = None,
        generation: Generation = FIRST,
        *,
        keeps_end: bool = False,
        has_history: bool = False,
    ) -> None:
        begin = WorkerPosition([domain.minimum()], {}) if saved is None else saved.position
        if has_history and begin.events and begin.history is None:
            raise DeliveryError(
                "a topic is published with history=True, and the snapshot from which its job goes on was taken "
                "without, so the first changes are missing. Begin with other snapshots"
            )
        self._lower = MutableAntichain(domain)
        self._lower.update((time, 1) for time in begin.lower)
        self._durable = dict(begin.sent)
        self._indices = dict(begin.sent)
        self._confirmed = begin.events
        self._number = begin.number
        self._generation = generation
        self._keeps_end = keeps_end
        self._history = PartitionHistory(domain, begin.history) if has_history else None
        self._end: list[FeedEvent] = []
        self._events: deque[tuple[FeedEvent, EncodedMessage]] = deque()
        self.waiting = self.waiting_bytes = 0
        for event in () if saved is None else saved.kept:
            self.add(event)

    def add(self, event: FeedEvent) -> EncodedMessage:
        """Keep an event; return it encoded.

        Raises:
            DeliveryError: the event is too large.
        """
        index = self._indices.get(event.time, 0) if isinstance(event, DataMessage) else 0
        message = encode(event, index)
        check_size(message)
        if isinstance(event, DataMessage):
            self._indices[event.time] = index + 1
        self._events.append((event, message))
        self.waiting += 1
        self.waiting_bytes += message.size_bytes
        return message

    def durable(self, count: int, number: int = -1) -> None:
        """Drop the oldest ``count`` events, which are durable; ``number`` is the last one's message number in the log.

        Raises:
            ProtocolError: the worker has sent fewer events.
        """
        if count > len(self._events):
            raise ProtocolError(f"{count} events are said to be durable, and {len(self._events)} were sent")
        self.waiting -= count
        self._confirmed += count
        self._number = number
        updates: list[tuple[Time, int]] = []
        last: LowerFrontierUpdate | None = None
        for _ in range(count):
            event, message = self._events.popleft()
            self.waiting_bytes -= message.size_bytes
            if isinstance(event, DataMessage):
                self._durable[event.time] = self._durable.get(event.time, 0) + 1
                if self._history is not None:
                    self._history.receive(0, event)
            else:
                updates += event.updates
                last = event
        if updates:
            self._lower.update(updates)
            if self._keeps_end and not self._lower.elements() and last is not None:
                self._end = [last]
                self._confirmed -= 1
                self._lower.update((time, -change) for time, change in last.updates)
            passed = [time for time in self._durable if not self._lower.less_equal(time)]
            if self._history is not None:
                self._history.advance(lambda time: not self._lower.less_equal(time))
            for time in passed:
                del self._durable[time]
                del self._indices[time]

    @property
    def position(self) -> WorkerPosition:
        """The position of the worker before the first event that is not durable."""
        lower, sent = list(self._lower.frontier), dict(self._durable)
        history = None if self._history is None else self._history.kept
        return WorkerPosition(lower, sent, self._confirmed, self._generation, self._number, history)

    @property
    def saved(self) -> SavedEvents:
        return SavedEvents(self.position, [*self._end, *(event for event, _ in self._events)])

    def messages(self) -> list[EncodedMessage]:
        """Return the events that are not known to be durable, in order, encoded."""
        return [message for _, message in self._events]


class PassingEvents(SentEvents):
    """Counts the events of a worker whose publisher has no log, without keeping them."""

    def add(self, event: FeedEvent) -> EncodedMessage:
        self.waiting += 1
        return encode(event)

    def durable(self, count: int, number: int = -1) -> None:
        self.waiting -= count
