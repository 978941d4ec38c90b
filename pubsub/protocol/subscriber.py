"""The subscriber of a topic: it turns messages of all partitions into batches and frontiers. No I/O.

Invariants:

- No event comes before the snapshots of all partitions; until then messages wait, undecoded.
- No message of a partition is missing, doubled or out of place.
- A consumer receives an epoch from all partitions, or not at all. Batches that it does not receive are never decoded. -
  If epochs may be dropped, batches wait until their epoch is complete. Only then is it certain that no partition has
  dropped its part. The consumer is told of every dropped epoch. An epoch stays dropped even if the job returns to a
  snapshot and publishes it again. - The frontier is the minimal antichain over all partitions: it is never ahead of a
  batch that is still to come. - When the job goes back to a snapshot, all partitions go back together (`Generations`),
  and the consumer is told which batches are void. The consumer's frontier stays, and repetitions of earlier epochs are
  left out. - With history, all epochs up to the last epoch that is complete at any partition become a single epoch, at
  that time: the state over all partitions. Later epochs are delivered as published. - The topic ends when all
  partitions have ended. A failure of a partition raises at once. If partitions were stopped on purpose, the other
  partitions are first read to their last message, so that no complete epoch is missing.

Source: seed "Strymon publish-subscribe", sections "Protocol Messages", "Design Goals" and "Subscriber Logic".
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from tidewheel.progress import Antichain, MutableAntichain, Time, TimeDomain
from tidewheel.pubsub.errors import DeliveryError, PublisherLost, TopicStopped
from tidewheel.pubsub.messages.events import (
    Batch,
    Dropped,
    End,
    Event,
    Frontier,
    RolledBack,
    SubscriberStatistics,
    SubstreamsEnded,
)
from tidewheel.pubsub.messages.topic_schema import TopicSchema
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    EpochsDropped,
    Failed,
    History,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Numbered,
    Rejected,
    WentBack,
)
from tidewheel.pubsub.protocol.epochs import EpochFilter, WaitingEpochs
from tidewheel.pubsub.protocol.generations import Generations, Return
from tidewheel.pubsub.protocol.partition_stream import PartitionState, PartitionStream


class Subscriber:
    """Merges the partitions of one topic.

    Args:
        atomic: whether to leave out epochs of which a part may have been published before the subscription.
        may_drop: whether publishers may drop epochs.
        expected: the schema of batches to check, if the publishers do not check it; None for no check.
        began: both frontiers of each partition where an earlier subscription began, if this one continues it.

    Attributes:
        unseen: the partition and number of each batch that the consumer will never receive; the reader of this list
            empties it.
        lacks_state: whether some partition has sent no history, since the topic has none or the subscription continues
            in a log.
    """

    def __init__(
        self,
        domain: TimeDomain,
        partitions: int,
        *,
        atomic: bool = True,
        may_drop: bool = False,
        topic: str = "",
        expected: TopicSchema | None = None,
        began: Sequence[InitialFrontierSnapshot] | None = None,
    ) -> None:
        self._domain = domain
        self._began = began
        self._topic = topic
        self._expected = None if expected is None else (topic, expected)
        self._atomic = atomic
        self._streams = [PartitionStream(topic, number) for number in range(partitions)]
        self._snapshots: dict[int, InitialFrontierSnapshot] = {}
        self._waiting: list[tuple[int, Numbered]] = []
        self._lower = MutableAntichain(domain)
        self._filter: EpochFilter | None = None
        self._counts = SubscriberStatistics()
        self._holds_epochs = may_drop and atomic
        self._held = WaitingEpochs[Batch | SubstreamsEnded](domain)
        self._dropped: set[Time] = set()
        self._stopped = ""
        self._generations = Generations(partitions)
        self.unseen: list[tuple[int, int]] = []
        self._shown: Antichain | None = None
        """The frontier that the consumer has received, until the partitions have reached it again."""
        self._leaves_out = True
        """Whether to drop repeated events of epochs before that frontier; a log drops them itself."""
        self.lacks_state = False
        self._as_of: Time | None = None
        """The epoch of the state, until it is complete; None without history, or without earlier changes."""

    def receive(self, partition: int, numbered: Numbered) -> list[Event]:
        """Receive the next message of a partition; return the events for the consumer, in order.

        Raises:
            ProtocolError: a message is missing, or is not allowed there.
            PublisherLost: the topic has failed, or the replacement of a dead publisher does not have all messages.
            TopicStopped: the topic was stopped on purpose; raised after its last message.
            DeliveryError: the publisher has disconnected this subscriber.
        """
        message = self._streams[partition].accept(numbered)
        if message is None:
            self._counts.duplicates += 1
            return []
        self._counts.received += 1
        if isinstance(message, Failed) and message.on_purpose:
            self._stopped = message.reason
            return self._ended()
        if isinstance(message, Failed | Rejected):
            raise self._error(partition, message)
        if isinstance(message, InitialFrontierSnapshot):
            self._snapshots[partition] = message
            self._generations.snapshot(partition, numbered.sequence, message.generation)
            return self._start() if self.is_ready else []
        if isinstance(message, WentBack):
            has_state = self.is_ready or self._snapshots[partition].history in (None, History((), ()))
            if self._began is None and (self._as_of is not None or not has_state):
                raise self._without_state()
            stand = [one for one in self._waiting if one[0] == partition and self._stands(one[1], message)]
            others = [one for one in self._waiting if one[0] != partition]
            if not self._generations.go_back(partition, numbered.sequence, message):
                before = self._generations.lower_of(partition, self._snapshots[partition].lower)
                move = [*((time, -1) for time in before), *((time, 1) for time in message.lower)]
                stand.append((partition, Numbered(numbered.sequence, LowerFrontierUpdate(move))))
            self._waiting = [*stand, *others]  # the standing messages may be of epochs that others complete
            return self._go_back() if self.is_ready else []
        if not self.is_ready or self._generations.is_ahead(partition):
            self._waiting.append((partition, numbered))
            return []
        return self._deliver(partition, numbered)

    def _stands(self, numbered: Numbered, returned: WentBack) -> bool:
        """Tell whether a waiting message is still valid after a return of the job.

        A move of the frontier is not valid, since the return has the resulting frontier. A note of dropped epochs is
        valid, since the publisher's queue omits these epochs after the return, too.
        """
        match numbered.message:
            case DataMessage(time=time):
                lower = Antichain(self._domain, returned.lower)
                is_complete = returned.standing is not None and not lower.less_equal(time)
                return is_complete or numbered.sequence <= returned.number
            case message:
                return isinstance(message, EpochsDropped)

    @property
    def is_ready(self) -> bool:
        return len(self._snapshots) == len(self._streams)

    @property
    def is_ended(self) -> bool:
        return all(stream.state is PartitionState.ENDED for stream in self._streams)

    @property
    def wanted(self) -> list[int]:
        """The partitions to read from next: those without a snapshot, or else the live partitions."""
        state = PartitionState.LIVE if self.is_ready else PartitionState.AWAITING_SNAPSHOT
        return [number for number, stream in enumerate(self._streams) if stream.state is state]

    @property
    def has_begun(self) -> bool:
        """True once the snapshots of all partitions, and the state if there is one, have arrived."""
        return self.is_ready and self._as_of is None

    @property
    def frontier(self) -> Antichain:
        """The minimal antichain over all partitions; before `has_begun`, the least time."""
        if self._shown is not None:
            return self._shown
        return self._lower.frontier if self.has_begun else Antichain(self._domain, [self._domain.minimum()])

    def statistics(self) -> SubscriberStatistics:
        return replace(self._counts)

    def _start(self) -> list[Event]:
        state = self._state()
        if self._atomic and state is None:
            self._filter = EpochFilter(self._domain, self._began or list(self._snapshots.values()))
        self._lower.update((time, 1) for time in self._lowers())
        # A reopened durable subscription may have received batches that became void by returns before these snapshots.
        voided = [one for one in self._generations.start() if one[2].standing is not None]
        told = self._rolled_back(voided, self._lower.frontier)
        if self._began is not None and any(map(self._generations.is_ahead, self._snapshots)):
            self._lower.update([(self._domain.minimum(), 1)])  # the position of the log that is ahead is not known
        least = Frontier(Antichain(self._domain, [self._domain.minimum()]))
        first: list[Event] = [] if state is None else [least]
        first += [event for partition, numbered in state or () for event in self._deliver(partition, numbered)]
        return [*told, *first, *self._frontier_changed(), *self._deliver_waiting(), *self._go_back()]

    def _state(self) -> list[tuple[int, Numbered]] | None:
        found = {partition: snapshot.history for partition, snapshot in self._snapshots.items()}
        histories = {partition: history for partition, history in found.items() if history is not None}
        self.lacks_state = len(histories) < len(found)
        if not histories:
            return None
        generations = {snapshot.generation for snapshot in self._snapshots.values()}
        if self._began is None and (self.lacks_state or len(generations) > 1):
            self._as_of = self._domain.minimum()  # no partition sends this epoch any more
            raise self._without_state()
        # All epochs before a frontier are complete. With a history, epochs are whole numbers.
        passed = [time - 1 for partition in histories for time in self._snapshots[partition].lower if time]
        for time in chain(passed, *(history.as_of for history in histories.values())):
            if self._as_of is None or self._domain.less_equal(self._as_of, time):
                self._as_of = time
        return [(at, Numbered(*message)) for at, history in histories.items() for message in history.messages]

    def _without_state(self) -> PublisherLost:
        return PublisherLost(
            f"topic {self._topic!r}: a worker or publisher has died before all partitions had sent their parts of the "
            "state. Subscribe again",
            topic=self._topic,
        )

    def _deliver_waiting(self) -> list[Event]:
        waiting, self._waiting = self._waiting, []
        events: list[Event] = []
        for partition, numbered in waiting:
            if self._generations.is_ahead(partition):
                self._waiting.append((partition, numbered))
            else:
                events += self._deliver(partition, numbered)
        return events

    def _go_back(self) -> list[Event]:
        lowers = self._lowers()
        returns = self._generations.take()
        if returns is None:
            return []
        self._shown = frontier = self.frontier
        events = self._rolled_back(returns, frontier)
        self._leaves_out = all(message.standing is None for _, _, message in returns)
        for event in events:
            self._counts.filtered += self._held.drop(event.voids)
        self._lower = MutableAntichain(self._domain)
        self._lower.update((time, 1) for time in lowers)
        delivered = self._deliver_waiting()
        return [*events, *delivered] if self._leaves_out else [*events, *delivered, *self._frontier_changed()]

    def _rolled_back(self, returns: Iterable[Return], shown: Antichain) -> list[RolledBack]:
        """Return the events for returns to a snapshot.

        ``shown`` is the frontier that the consumer has received. Without a log, only batches after it may be void.
        """
        return [
            RolledBack(partition, message.number, shown)
            if message.standing is None
            else RolledBack(partition, message.number, Antichain(self._domain, message.lower), at)
            for partition, at, message in returns
        ]

    def _lowers(self) -> list[Time]:
        lower_of = self._generations.lower_of
        return [time for number, found in self._snapshots.items() for time in lower_of(number, found.lower)]

    def _deliver(self, partition: int, numbered: Numbered) -> list[Event]:
        match numbered.message:
            case DataMessage() as message:
                return self._data(partition, message, numbered.sequence)
            case EpochsDropped(times=times):
                return self._drop(times)
            case LowerFrontierUpdate(updates=updates):
                return self._frontier_changed() if self._lower.update(updates) else []
            case _:
                return self._ended()

    def _ended(self) -> list[Event]:
        if self._stopped and self.is_ended:
            raise TopicStopped(f"topic {self._topic!r} has not come to its end: {self._stopped}", topic=self._topic)
        return [End()] if self.is_ended else []

    def _data(self, partition: int, message: DataMessage, number: int) -> list[Event]:
        time = message.time
        if self._as_of is not None and self._domain.less_equal(time, self._as_of):
            time = self._as_of
        if time in self._dropped or not self._passes(time):
            self._counts.filtered += 1
            self.unseen.append((partition, number))
            return []
        batch: Batch | SubstreamsEnded
        if message.encoding == "ends":
            batch = SubstreamsEnded(time, partition, message, number)
        else:
            batch = Batch(time, partition, message, self._counts, self._expected, number)
        if self._holds_epochs:
            self._held.at(time).append(batch)
            return []
        self._counts.delivered += 1
        return [batch]

    def _drop(self, times: list[Time]) -> list[Event]:
        new = [time for time in times if time not in self._dropped and self._passes(time)]
        self._dropped.update(new)
        self._counts.epochs_dropped += len(new)
        for time in new:
            held = self._held.at(time)
            self._counts.filtered += len(held)
            held.clear()
        return [Dropped(tuple(new))] if new else []

    def _passes(self, time: Time) -> bool:
        if self._leaves_out and self._shown is not None and not self._shown.less_equal(time):
            return False
        return self._filter is None or self._filter.passes(time)

    def _frontier_changed(self) -> list[Event]:
        frontier = self._lower.frontier
        if self._shown is not None:
            if not self._shown.dominates(frontier):
                return []
            self._shown = None
        if self._filter is not None and self._filter.is_done(frontier):
            self._filter = None
        if self._as_of is not None and not frontier.less_equal(self._as_of):
            self._as_of = None
        return [*self._completed(frontier), Frontier(frontier)]

    def _completed(self, frontier: Antichain) -> list[Event]:
        complete = self._held.take_passed(frontier)
        self._dropped.difference_update(time for time, _ in complete)
        batches: list[Event] = [batch for _, held in complete for batch in held]
        self._counts.delivered += len(batches)
        return batches

    def _error(self, partition: int, message: Failed | Rejected) -> DeliveryError:
        is_failure = isinstance(message, Failed)
        kind, what = (PublisherLost, "failed") if is_failure else (DeliveryError, "has disconnected this subscriber")
        return kind.at(self._topic, partition, f"{what}: {message.reason}")
