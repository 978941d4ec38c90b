"""The way of a simulated worker to its publisher: messages in order, until one of them dies."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from tests.simulation.network import Line, Network
from tidewheel.progress import Time, TimeDomain
from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.pubsub.messages.encoded_message import EncodedMessage
from tidewheel.pubsub.messages.wire import FeedEvent, Generation, WorkerPosition
from tidewheel.pubsub.publishers.confirmed import Confirmed
from tidewheel.pubsub.publishers.connection import PublisherConnection, Saved
from tidewheel.pubsub.publishers.sent_events import SavedEvents, SentEvents

_PAUSED_S = 0.1


class Wire:
    """One connection, as long as both ends live and it does not break.

    Args:
        network: its clock.
        random: how long messages take.
        line: how good it is.
        connection: the end of the worker.
        receiver: the end of the publisher.
    """

    def __init__(
        self, network: Network, random: Random, line: Line, connection: "WorkerConnection", receiver: Any
    ) -> None:
        self._network, self._random, self._line = network, random, line
        self._connection, self._receiver = connection, receiver
        self._core = receiver.core
        self._there: deque[Callable[[], None]] = deque()
        self._back: deque[Callable[[], None]] = deque()
        self.is_cut = False

    def send(self, messages: Sequence[EncodedMessage]) -> None:
        """Send messages to the publisher."""
        for first in range(0, len(messages), self._line.most):
            part = messages[first : first + self._line.most]
            self._post(self._there, partial(self._receiver.feed, self, part))

    def begin(self, position: WorkerPosition) -> None:
        """Say where the worker begins."""
        self._post(self._there, lambda: self._receiver.begin(self, position))

    def refuse(self) -> None:
        """Tell the worker that the snapshot from which it goes on is refused, and let go of it."""
        self._connection.is_refused = self.is_cut = True

    def confirm(self, confirmed: Confirmed) -> None:
        """Tell the worker what is durable."""
        self._post(self._back, lambda: self._connection.confirmed(self, confirmed))

    def _post(self, queue: deque[Callable[[], None]], what: Callable[[], None]) -> None:
        queue.append(what)
        self._network.at(self._random.random() * self._line.slowest_s, lambda: self._deliver(queue))

    def _deliver(self, queue: deque[Callable[[], None]]) -> None:
        self.is_cut = self.is_cut or self._receiver.core is not self._core
        if self.is_cut:
            return
        if queue is self._there and self._receiver.is_paused:
            self._network.at(_PAUSED_S, lambda: self._deliver(queue))
        else:
            queue.popleft()()


class WorkerConnection(PublisherConnection):
    """The connection of one worker of one life.

    Args:
        topic: its name.
        partition: its number.
        domain: the times of the topic.
        generation: the generation of what it sends.

    Attributes:
        wire: to its publisher, while there is one.
        is_refused: whether its publisher has refused the snapshot from which it goes on.
        is_dead: whether the worker has crashed.
    """

    def __init__(self, topic: str, partition: int, domain: TimeDomain, generation: Generation) -> None:
        super().__init__(topic, partition)
        self.number = partition
        self._domain = domain
        self._generation = generation
        self._sent = SentEvents(domain, None, generation, keeps_end=True)
        self._frontier: ChangeBatch[Time] = ChangeBatch([(domain.minimum(), 1)])
        self.wire: Wire | None = None
        self.is_dead = self.is_refused = False

    def go_on(self, saved: Saved | None) -> None:
        """Begin to send where a snapshot is."""
        assert not isinstance(saved, Mapping), "each worker feeds one partition"
        self._sent = SentEvents(self._domain, saved, self._generation, keeps_end=True)
        if saved is not None:
            self._frontier = ChangeBatch((time, 1) for time in saved.lower)

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> None:
        """Receive one move of the frontier."""
        changes = list(updates)
        self._frontier.extend(changes)
        super().frontier(changes)

    @property
    def has_ended(self) -> bool:
        """Whether the worker has published everything."""
        return not self._frontier

    def saved(self) -> SavedEvents | None:
        """Return what the publisher has, and what it may not have."""
        return self._sent.saved

    def _send(self, events: list[FeedEvent]) -> None:
        messages = [self._sent.add(event) for event in events]
        if self.is_connected:
            assert self.wire is not None
            self.wire.send(messages)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, as far as the worker knows."""
        return self.wire is not None and not self.wire.is_cut

    @property
    def has_sent_all(self) -> bool:
        """Whether all that was sent is durable."""
        return not self._sent.waiting

    def connect(self, wire: Wire) -> None:
        """Connect, and send all that is not durable."""
        self.wire = wire
        wire.begin(self._sent.position)
        wire.send(self._sent.messages())

    def confirmed(self, wire: Wire, confirmed: Confirmed) -> None:
        """Receive what is durable."""
        if wire is self.wire and not self.is_dead:
            self._sent.durable(confirmed.messages, confirmed.number)
