"""The publisher of one partition: it turns events of a worker into messages for many subscribers. No I/O.

Invariants:

- A subscriber receives a snapshot of both frontiers, then every batch and every change of the lower frontier, then one
  final message. The publisher keeps nothing for later subscribers. - Every subscriber has a queue of its own, bounded
  in bytes. If the queue overflows, the subscriber is disconnected or misses whole epochs, and is told so. Or it becomes
  one of the `holders`, which hold the publisher back: while there are any, the shell delivers no events. Removing a
  subscriber never affects the others. - Messages that a subscriber does not want are not queued for it. A condition
  that fails disconnects only the subscribers with this condition. - The partition ends when its lower frontier becomes
  empty or, if it may not end alone, when all partitions have received everything (`TopicEnd`).
- While the publisher waits for its first subscribers it accepts no events, so they miss nothing.
- A worker that continues from a snapshot sends its position first. Only then do subscribers receive snapshots; epochs
  that were sent in part are active. If the worker goes back later, all subscribers are told. - With history, the
  snapshot has all changes so far (`PartitionHistory`), and so has a worker's position. - A publisher that replaces a
  dead one keeps its messages for a while, within its capacity, for the dead publisher's subscribers. It refuses a
  subscriber that would miss something.

Source: seed "Strymon publish-subscribe", section "Publisher Logic".
"""

import sys
from collections.abc import Iterable

from tidewheel.progress import ProtocolError, Time, TimeDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    Failed,
    FeedEvent,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    PartitionEnded,
    WentBack,
    WorkerPosition,
)
from tidewheel.pubsub.protocol.blocking_queue import BlockingQueue
from tidewheel.pubsub.protocol.epochs import EpochStates
from tidewheel.pubsub.protocol.history import PartitionHistory
from tidewheel.pubsub.protocol.offer import Offer
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.protocol.posted import Posted
from tidewheel.pubsub.protocol.publisher_statistics import PublisherStatistics
from tidewheel.pubsub.protocol.slow_policies import queue_for
from tidewheel.pubsub.protocol.subscriber_queues import SubscriberQueues
from tidewheel.pubsub.protocol.topic_end import PartitionEnd

DEFAULT_CAPACITY_BYTES = 256 * 1024 * 1024
NUMBERS_OF_A_LIFE = 1 << 32


class Publisher(SubscriberQueues):
    """Turns the events of one partition into messages for each subscriber.

    Args:
        domain: the times of the topic; the lower frontier starts at the least time.
        capacity_bytes: how much may wait for one subscriber; also an attribute.
        awaited: the number of subscribers to wait for before the first event; also an attribute, which becomes 0 once
            they are connected or the partition has failed.
        has_begun: whether the worker begins at the least time; if not, call `begin` first; also an attribute.
        ends_alone: whether the partition ends when it has received everything, without a call of `end`.

    Attributes:
        kept: all messages sent, for subscribers of a dead publisher; None if they are not kept.
        missing: the subscribers of a dead publisher that may still connect.

    >>> from tidewheel.progress import IntegerDomain
    >>> publisher = Publisher(IntegerDomain())
    >>> publisher.subscribe("s")
    >>> publisher.frontier([(0, -1), (1, 1)])
    >>> [number for told in publisher.fetch("s", acknowledged=-1) for number, _ in told.data]
    [0, 1]
    """

    def __init__(
        self,
        domain: TimeDomain,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        awaited: int = 0,
        *,
        has_begun: bool = True,
        ends_alone: bool = True,
        has_history: bool = False,
        partition: int = 0,
    ) -> None:
        super().__init__(capacity_bytes, partition)
        self._domain = domain
        self._history = PartitionHistory(domain) if has_history else None
        self._epochs = EpochStates(domain)
        self._generation = 0
        self.has_begun = has_begun
        self._may_end = ends_alone
        self.missing: set[str] = set()
        self.kept: OutgoingQueue | None = None
        self._is_repeated = False
        self.awaited = awaited
        self._first = 0
        self._final: Posted | None = None
        self._records = 0

    # Events from upstream

    def begin(self, position: WorkerPosition) -> None:
        """Record the position at which the worker begins to send, at first or after its job has gone back."""
        if self._final is not None:
            self._is_repeated = True
            return
        self._generation = position.generation.number
        self._epochs = EpochStates.at(self._domain, position.lower, position.sent)
        if self._history is not None:
            self._history = PartitionHistory(self._domain, position.history, position.number)
        if self.has_begun:
            self._broadcast(WentBack(self._generation, position.number, list(position.lower)))
        else:
            # This is greater than all numbers of earlier publishers of the partition, none of which has sent so many
            # messages.
            number = max(position.number, 0) + self._generation * NUMBERS_OF_A_LIFE
            self._begin_at(number, position.number if self._generation else None)
        self._end_if_complete()

    def _begin_at(self, number: int, standing: int | None) -> None:
        self.has_begun = True
        self._sequence = self._first = number
        if standing is not None:
            self.kept = OutgoingQueue(self.capacity_bytes, partition=self._partition)
            self._introduce(self.kept, standing)
        for queue in self.queues.values():
            self._introduce(queue, standing)

    def end(self, known: PartitionEnd) -> None:
        """End the partition, since all partitions have received everything.

        A publisher that replaces a dead one begins at this end.
        """
        self._may_end = True
        if self._final is None and not self.has_begun:
            self._generation = known.generation
            self._epochs, self._history = EpochStates.at(self._domain, [], []), None
            self._begin_at(known.number + 1, known.number)
        elif self._final is None and self._generation != known.generation:
            self.fail("its publisher was started again after the end of the topic, and was sent parts of epochs again")
        self._end_if_complete()

    def _end_if_complete(self) -> None:
        if self._may_end and self._final is None and self.has_everything:
            self._final = self._broadcast(PartitionEnded())

    @property
    def has_everything(self) -> bool:
        """True if the worker has sent everything, or the partition has failed."""
        return self._final is not None or (self.has_begun and self._epochs.has_ended)

    @property
    def known_end(self) -> PartitionEnd:
        readers = tuple(name for name, queue in self.queues.items() if not queue.is_closed)
        return PartitionEnd(self._sequence, self._generation, readers)

    @property
    def number(self) -> int:
        """The number of the last message; the worker's events and `WentBack` are numbered in order."""
        return self._sequence

    def feed(self, events: Iterable[FeedEvent]) -> None:
        """Receive events in order; raise as `data` and `move` do."""
        for event in events:
            if isinstance(event, DataMessage):
                self.data(event)
            else:
                self.move(event)

    def data(self, message: DataMessage) -> None:
        """Receive one batch; if the partition has failed, drop it. Complexity: O(subscribers).

        Raises:
            ProtocolError: the lower frontier has passed the time of the batch.
        """
        if self.has_failed or self._is_repeated:
            return
        self._epochs.observe(message.time)
        self._records += message.records
        posted = self._broadcast(message)
        if self._history is not None:
            self._history.receive(posted.number, message)

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> None:
        """As `move`, given the changes of the frontier."""
        self.move(LowerFrontierUpdate(list(updates)))

    def move(self, event: LowerFrontierUpdate) -> None:
        """Receive one move of the lower frontier, which is indivisible; an empty frontier ends the partition.

        Raises:
            ProtocolError: the frontier moved back.
        """
        if self.has_failed or self._is_repeated:
            return
        changes = self._epochs.advance(event.updates)
        if not changes:
            self._sequence += 1  # each event has a number
        else:
            self._broadcast(event if changes == event.updates else LowerFrontierUpdate(changes))
            if self._history is not None:
                self._history.advance(self._epochs.is_completed)
            for queue in self.queues.values():
                queue.prune(self._epochs.lower.less_equal)
            self._end_if_complete()

    def fail(self, reason: str, *, on_purpose: bool = False) -> None:
        """End the partition early for all subscribers; do nothing if it has ended or failed already."""
        if self._final is None:
            self.awaited = 0
            self._final = self._broadcast(Failed(reason, on_purpose))

    # Events from subscribers

    def subscribe(self, subscriber: str, options: DeliveryOptions = EVERYTHING, *, again: bool = False) -> None:
        """Connect a subscriber, which receives all wanted messages from now on.

        With ``again``, it was a subscriber of the dead publisher that this publisher replaces.

        Raises:
            ProtocolError: there is a subscriber with this name.
            DeliveryError: with ``again``, messages that it needs are no longer kept.
        """
        if subscriber in self.queues:
            raise ProtocolError(f"subscriber {subscriber!r} is connected already")
        if again and self.has_begun and self.kept is None and not self.has_failed:
            raise DeliveryError("messages that it has missed are not kept any more")
        queue = self.queues[subscriber] = queue_for(self.capacity_bytes, options, self._partition)
        self.missing.discard(subscriber)
        if isinstance(queue, BlockingQueue):
            self._blocking[subscriber] = queue
        self.awaited = self.awaited if self.subscribers < self.awaited else 0  # stays 0: the worker learns it only once
        if again and self.kept is not None:
            for posted in self.kept.oldest(sys.maxsize):
                self._overflows += not Offer(posted, self.capacity_bytes).to(queue)
        elif again and self._final is not None:
            queue.offer(self._final)
        elif self.has_begun or self._final is not None:
            self._introduce(queue)

    def _introduce(self, queue: OutgoingQueue, standing: int | None = None) -> None:
        lower, upper = list(self._epochs.lower), self._epochs.upper()
        # Later subscribers also receive the final message, under its own number.
        before = self._sequence if self._final is None else self._final.number - 1
        try:
            history = None if self._history is None else self._history.told(queue.where)
        except (DeliveryError, ProtocolError) as error:
            queue.close(before, str(error))
            return
        snapshot = InitialFrontierSnapshot(lower, upper, self._generation, (), standing, history)
        queue.offer(Posted(before, snapshot))
        if self._final is not None:
            queue.offer(self._final)

    def forget(self) -> None:
        self.kept = None
        self.missing.clear()

    @property
    def is_held(self) -> bool:
        """True if a subscriber holds this publisher back, or the publisher waits for one."""
        if self.awaited:
            return True
        for queue in self._blocking.values():  # noqa: SIM110 - any() with a generator takes four times as long
            if queue.is_full:
                return True
        return False

    # Observations

    @property
    def is_finished(self) -> bool:
        return self._final is not None

    @property
    def has_failed(self) -> bool:
        return self._final is not None and isinstance(self._final.message, Failed)

    def is_drained_but_for(self, process: str | None) -> bool:
        """Tell whether all subscribers, except those whose names begin with ``process``, have received everything."""
        waiting = (*self.missing, *(name for name, queue in self.queues.items() if queue))
        return self.has_everything and all(process is not None and name.startswith(f"{process}/") for name in waiting)

    def statistics(self) -> PublisherStatistics:
        return PublisherStatistics(
            sequence=self._sequence - self._first,
            records=self._records,
            subscribers=self.subscribers,
            overflows=self._overflows,
            epochs_dropped=self._epochs_dropped + sum(queue.epochs_dropped for queue in self.queues.values()),
            queued_bytes=sum(queue.bytes for queue in self.queues.values()),
            active_epochs=len(self._epochs.active),
            lag_bytes=max((queue.bytes for queue in self.queues.values()), default=0),
            lag_messages=max(map(len, self.queues.values()), default=0),
            holders=len(self.holders()),
        )

    def _broadcast(self, message: Message) -> Posted:
        self._sequence += 1
        posted = Posted(self._sequence, message)
        offer = Offer(posted, self.capacity_bytes)
        for queue in self.queues.values():
            self._overflows += not offer.to(queue)
        if self.kept is not None and not self.kept.offer(posted):
            self.kept = None
        return posted
