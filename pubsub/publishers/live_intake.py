"""The events of a worker on their way to a publisher without a log: they wait while a subscriber holds it back."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.journal import WorkerPosition
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, decode
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent, LowerFrontierUpdate
from tidewheel.pubsub.protocol.outgoing_queue import size_of
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.publishers.worker_link import Confirmed

ENDED_ALREADY: Final = "the topic has been ended already"

_TAKEN_AT_ONCE = 4
"""Of its capacity, a publisher takes one part in so many at a time; then its subscribers have a chance to take that."""


class LiveIntake:
    """A `MessageSink`.

    Args:
        publisher: receives the events.
        arrived: called when events have come; it calls `pass_on`.

    Attributes:
        refusal: why nothing more is received, if that is so.
        received: how many events have come.
    """

    def __init__(self, publisher: Publisher, arrived: Callable[[], None]) -> None:
        self._publisher = publisher
        self._arrived = arrived
        self._waiting: deque[FeedEvent] = deque()
        self._most_bytes = publisher.capacity_bytes // _TAKEN_AT_ONCE
        self._unconfirmed = 0
        self.received = 0
        self.refusal = ""

    def begin(self, position: WorkerPosition) -> None:
        """Do nothing: a worker begins with its first event, as nothing is kept."""

    def feed(self, sent: Sequence[EncodedMessage]) -> None:
        """Receive messages of the worker, in order; raises ProtocolError for what a worker does not send."""
        events: list[FeedEvent] = []
        try:
            for message in sent:
                event = decode(message)
                if not isinstance(event, DataMessage | LowerFrontierUpdate):
                    raise ProtocolError(f"a worker does not send {event!r}")
                events.append(event)
        finally:
            self._unconfirmed += len(events)
            self.take(events)

    def take(self, events: Sequence[FeedEvent]) -> None:
        """Receive events, in order."""
        if not self.refusal:
            self._waiting.extend(events)
        self.received += len(events)
        self._arrived()

    def confirmed(self) -> Confirmed:
        """Return how many messages the worker may forget: all of them once the partition has ended."""
        if not self._publisher.is_finished:
            return Confirmed(0, 0)
        messages, self._unconfirmed = self._unconfirmed, 0
        return Confirmed(messages, 0)

    @property
    def has_room(self) -> bool:
        """Whether no subscriber holds the publisher back."""
        return not self._publisher.holders()

    @property
    def error(self) -> ProtocolError | None:
        """Why nothing more is received of the worker, if that is so."""
        reason = self.refusal or (ENDED_ALREADY if self._publisher.has_failed else "")
        return ProtocolError(reason) if reason else None

    def refuse(self, reason: str) -> None:
        """Receive nothing more, and fail the partition."""
        self.refusal = self.refusal or reason
        self._waiting.clear()
        self._publisher.fail(reason)

    @property
    def passed_on(self) -> int:
        """How many of the events that have come the publisher has received."""
        return self.received - len(self._waiting)

    def pass_on(self) -> bool:
        """Give the publisher events until a subscriber holds it back, or it is the subscribers' turn.

        Returns whether more can be passed on after that.
        """
        passed_bytes = 0
        try:
            while self._waiting and passed_bytes <= self._most_bytes and not self._publisher.holders():
                event = self._waiting.popleft()
                passed_bytes += size_of(event)
                self._publisher.feed([event])
        except ProtocolError as error:
            self.refuse(str(error))
        return bool(self._waiting) and passed_bytes > self._most_bytes
