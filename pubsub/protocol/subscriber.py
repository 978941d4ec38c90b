"""The subscriber of a topic: messages of all its partitions in, batches and frontiers out. No I/O.

Invariants:

- No event comes before the snapshots of all partitions have; until then messages wait, undecoded.
- A consumer sees all of an epoch or nothing of it (see `EpochFilter`); what it does not see is never decoded.
- Where epochs may be dropped, because the consumer falls behind, batches are held until their epoch is complete: only
  then is it sure that no partition has dropped its part. A consumer is told of every epoch that was dropped.
- The frontier is the minimal antichain over all partitions: it is never ahead of a batch still to come.
- The topic ends when all partitions have ended; a failure of one is an error at once.

Source: seed "Strymon publish-subscribe", section "Subscriber Logic".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidewheel.progress import Antichain, MutableAntichain, Time, TimeDomain
from tidewheel.pubsub.catalog.topic_schema import TopicSchema
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.messages.events import Batch, DecodeCounter, Dropped, End, Event, Frontier, SubstreamsEnded
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    Disconnected,
    EpochsDropped,
    Failed,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Numbered,
)
from tidewheel.pubsub.protocol.epoch_filter import EpochFilter
from tidewheel.pubsub.protocol.partition_stream import PartitionState, PartitionStream
from tidewheel.pubsub.protocol.waiting_epochs import WaitingEpochs


@dataclass(frozen=True, slots=True)
class SubscriberStatistics:
    """What a subscriber has done so far, in messages and batches.

    Args:
        received: messages, without duplicates.
        duplicates: messages that had been received before.
        delivered: batches, and messages of ends, whose epoch passed.
        filtered: those whose epoch did not pass.
        decoded: batches whose payload was decoded.
        epochs_dropped: epochs that were left out because this subscriber fell behind.
    """

    received: int
    duplicates: int
    delivered: int
    filtered: int
    decoded: int
    epochs_dropped: int


class Subscriber:
    """Merges the partitions of one topic.

    Args:
        domain: the times of the topic.
        partitions: how many there are; messages come with their number, from 0.
        atomic: whether to hold back epochs of which a part may have been missed.
        may_drop: whether publishers may leave out epochs.
        topic: its name, for the messages of errors.
        expected: what batches have to be, where the publishers do not see to that; None for anything.
        began: both frontiers of each partition where this once began, if it goes on with what others have left.
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
        self._streams = [PartitionStream() for _ in range(partitions)]
        self._snapshots: dict[int, InitialFrontierSnapshot] = {}
        self._waiting: list[tuple[int, Numbered]] = []
        self._lower = MutableAntichain(domain)
        self._filter: EpochFilter | None = None
        self._counter = DecodeCounter()
        self._holds_epochs = may_drop and atomic
        self._held = WaitingEpochs[Batch | SubstreamsEnded](domain)
        self._dropped: set[Time] = set()
        self._received = self._delivered = self._filtered = self._epochs_dropped = 0

    def receive(self, partition: int, numbered: Numbered) -> list[Event]:
        """Take the next message of a partition and return what it means to the consumer, in order.

        Raises:
            ProtocolError: a message is missing, or has no place there.
            PublisherLost: the publisher says that the topic failed.
            DeliveryError: the publisher has cut this subscriber off.
        """
        message = self._streams[partition].accept(numbered)
        if message is None:
            return []
        self._received += 1
        if isinstance(message, Failed | Disconnected):
            raise self._error(partition, message)
        if isinstance(message, InitialFrontierSnapshot):
            self._snapshots[partition] = message
            return self._start() if self.is_ready else []
        if not self.is_ready:
            self._waiting.append((partition, numbered))
            return []
        return self._deliver(partition, numbered)

    @property
    def is_ready(self) -> bool:
        """Whether the snapshots of all partitions have come."""
        return len(self._snapshots) == len(self._streams)

    @property
    def is_ended(self) -> bool:
        """Whether all partitions have ended."""
        return all(stream.state is PartitionState.ENDED for stream in self._streams)

    @property
    def wanted(self) -> list[int]:
        """The partitions to read from next: those without a snapshot while there are any, then those still live."""
        state = PartitionState.LIVE if self.is_ready else PartitionState.AWAITING_SNAPSHOT
        return [number for number, stream in enumerate(self._streams) if stream.state is state]

    @property
    def frontier(self) -> Antichain:
        """The minimal antichain over all partitions; the least time until all snapshots have come."""
        return self._lower.frontier if self.is_ready else Antichain(self._domain, [self._domain.minimum()])

    def statistics(self) -> SubscriberStatistics:
        """Return counts of what happened so far."""
        return SubscriberStatistics(
            received=self._received,
            duplicates=sum(stream.duplicates for stream in self._streams),
            delivered=self._delivered,
            filtered=self._filtered,
            decoded=self._counter.decoded,
            epochs_dropped=self._epochs_dropped,
        )

    def _start(self) -> list[Event]:
        snapshots = list(self._snapshots.values())
        if self._atomic:
            self._filter = EpochFilter(self._domain, self._began or snapshots)
        self._lower.update((time, 1) for snapshot in snapshots for time in snapshot.lower)
        events = self._frontier_changed()
        waiting, self._waiting = self._waiting, []
        for partition, numbered in waiting:
            events += self._deliver(partition, numbered)
        return events

    def _deliver(self, partition: int, numbered: Numbered) -> list[Event]:
        match numbered.message:
            case DataMessage() as message:
                return self._data(partition, message, numbered.sequence)
            case EpochsDropped(times=times):
                return self._drop(times)
            case LowerFrontierUpdate(updates=updates):
                return self._frontier_changed() if self._lower.update(updates) else []
            case _:
                return [End()] if self.is_ended else []

    def _data(self, partition: int, message: DataMessage, number: int) -> list[Event]:
        if message.time in self._dropped or not self._passes(message.time):
            self._filtered += 1
            return []
        batch: Batch | SubstreamsEnded
        if message.encoding == "ends":
            batch = SubstreamsEnded(message.time, partition, message, number)
        else:
            batch = Batch(message.time, partition, message, self._counter, self._expected, number)
        if self._holds_epochs:
            self._held.at(message.time).append(batch)
            return []
        self._delivered += 1
        return [batch]

    def _drop(self, times: list[Time]) -> list[Event]:
        """Let go of epochs of which a part will not come."""
        new = [time for time in times if time not in self._dropped and self._passes(time)]
        self._dropped.update(new)
        self._epochs_dropped += len(new)
        for time in new:
            held = self._held.at(time)
            self._filtered += len(held)
            held.clear()
        return [Dropped(tuple(new))] if new else []

    def _passes(self, time: Time) -> bool:
        return self._filter is None or self._filter.passes(time)

    def _frontier_changed(self) -> list[Event]:
        frontier = self._lower.frontier
        if self._filter is not None and self._filter.is_done(frontier):
            self._filter = None
        return [*self._completed(frontier), Frontier(frontier)]

    def _completed(self, frontier: Antichain) -> list[Event]:
        """Return the batches of epochs that are complete and were held until now; forget those that were dropped."""
        complete = self._held.take_passed(frontier)
        self._dropped.difference_update(time for time, _ in complete)
        batches: list[Event] = [batch for _, held in complete for batch in held]
        self._delivered += len(batches)
        return batches

    def _error(self, partition: int, message: Failed | Disconnected) -> DeliveryError:
        where = f"topic {self._topic!r}, partition {partition}"
        if isinstance(message, Failed):
            text = f"{where}: the publisher failed: {message.reason}"
            return PublisherLost(text, topic=self._topic, partition=partition)
        text = f"{where}: the publisher has disconnected this subscriber: {message.reason}"
        return DeliveryError(text, topic=self._topic, partition=partition)
