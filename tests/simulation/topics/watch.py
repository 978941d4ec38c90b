"""The watch over one subscriber: it compares the events with the promises and with what really happened."""

from typing import TypeAlias

from tests.kit.simulation.violation import ViolationError
from tests.simulation.topics.conditions import fails
from tests.simulation.topics.life import JoinPoint, Life
from tests.simulation.topics.topic_options import Reading
from tidewheel.progress import Antichain, Time
from tidewheel.pubsub.messages.events import Batch, Dropped, End, Epoch, Event, Frontier, SubscriberStatistics
from tidewheel.pubsub.messages.wire import DataMessage, EpochsDropped, Message
from tidewheel.pubsub.protocol.epochs import EpochAssembler

Told: TypeAlias = tuple[object, ...]
"""An event, in a form that can be compared between two simulations."""


class Watch:
    """Follows one subscriber from its first event to its last.

    Args:
        name: of the subscriber.
        reading: what it is like.
        life: the topic that it reads.
        joined: what was so when it connected to each partition; None where it has not.
    """

    def __init__(self, name: str, reading: Reading, life: Life, joined: list[JoinPoint | None]) -> None:
        self.name = name
        self._reading = reading
        self._life = life
        self._joined = joined
        self._assembler = EpochAssembler(life.domain)
        self._frontier: Antichain | None = None
        self._has_ended = False
        self._batches: dict[Time, int] = {}
        self._epochs: dict[Time, list[int]] = {}
        self._decoded = 0
        self._sent_of: list[set[Time]] = [set() for _ in joined]
        self._dropped_of: list[set[Time]] = [set() for _ in joined]
        self.dropped: set[Time] = set()
        self.told: list[Told] = []

    # What travels

    def message(self, partition: int, message: Message) -> None:
        """Check that a partition sends nothing of an epoch that it drops."""
        if isinstance(message, DataMessage):
            self._sent_of[partition].add(message.time)
            self._demand(
                "dropped", message.time not in self._dropped_of[partition], message.time, "comes, and was dropped"
            )
        elif isinstance(message, EpochsDropped):
            self._dropped_of[partition].update(message.times)
            for time in message.times:
                self._demand("dropped", time not in self._sent_of[partition], time, "is dropped, and has begun")

    # What is told

    def event(self, event: Event) -> None:
        """Check one event."""
        self._demand("end", not self._has_ended, event, "comes after the end")
        match event:
            case Batch():
                self.told.append(("batch", event.time, event.partition, event.encoded.payload))
                self._batch(event)
            case Frontier(frontier=frontier):
                self.told.append(("frontier", frozenset(frontier)))
                self._frontier_changed(frontier)
            case Dropped(times=times):
                self.told.append(("dropped", times))
                self._drop(times)
            case End():
                self.told.append(("ended",))
                self._has_ended = True
                is_over = all(partition.is_over for partition in self._life.partitions)
                self._demand("end", is_over, event, "comes, and some partition goes on")
        for epoch in self._assembler.receive(event):
            self._epoch(epoch)

    def _batch(self, batch: Batch) -> None:
        may_come = self._frontier is not None and self._frontier.less_equal(batch.time)
        self._demand("frontier", may_come, batch.time, "comes, and the frontier has passed it")
        if self._reading.atomic:
            self._demand("dropped", batch.time not in self.dropped, batch.time, "comes, and was dropped")
        self._batches[batch.time] = self._batches.get(batch.time, 0) + 1

    def _frontier_changed(self, frontier: Antichain) -> None:
        before, self._frontier = self._frontier, frontier
        self._demand("frontier", before is None or before.dominates(frontier), frontier, f"comes after {before}")
        for number, partition in enumerate(self._life.partitions):
            is_behind = all(map(frontier.less_equal, partition.lower))
            self._demand("frontier", is_behind, frontier, f"is ahead of partition {number} at {partition.lower}")

    def _drop(self, times: tuple[Time, ...]) -> None:
        self._demand("dropped", self._reading.may_drop, times, "are dropped, and nobody asked for it")
        for time in times:
            self._demand("dropped", time not in self.dropped, time, "is dropped twice")
            self._demand("dropped", time in self._life.sent, time, "is dropped, and nothing of it was sent")
            if self._reading.atomic or len(self._joined) == 1:
                self._demand("dropped", time not in self._batches, time, "is dropped, and part of it has come")
            may_come = self._frontier is not None and self._frontier.less_equal(time)
            self._demand("frontier", may_come, time, "is dropped after the frontier has passed it")
        self.dropped.update(times)

    # Whole epochs

    def _epoch(self, epoch: Epoch) -> None:
        time, records = epoch.time, sorted(epoch.records)
        self._decoded += len(epoch.batches)
        self._demand("order", time not in self._epochs, time, "comes twice")
        for before in self._epochs:
            self._demand("order", not self._life.less_equal(time, before), time, f"comes after {before!r}")
        if self._reading.atomic:
            whole = self._life.wanted(self._reading.condition, time)
            self._demand("atomicity", records == whole, time, f"has {records} of {whole}")
            same = self._life.seen.setdefault((self._reading.condition, time), records)
            self._demand("agreement", records == same, time, f"has {records}, and for somebody else {same}")
        elif time not in self.dropped:
            rest = self._life.wanted(self._reading.condition, time, self._since())
            self._demand("rest", records == rest, time, f"has {records} of {rest}")
        if self._life.order == "total" and self._epochs:
            self._check_no_hole(max(self._epochs), time)
        self._epochs[time] = records

    def _check_no_hole(self, before: Time, time: Time) -> None:
        for between in self._life.sent:
            if before < between < time and between not in self.dropped:
                since = None if self._reading.atomic else self._since()
                whole = self._life.wanted(self._reading.condition, between, since)
                self._demand("hole", not whole, between, f"is missing between {before} and {time}")

    def _since(self) -> list[int]:
        return [0 if point is None else point.batches for point in self._joined]

    # The end

    def check_all(self, statistics: SubscriberStatistics) -> None:
        """Check what can be told once nothing more comes; all of it only if the topic has ended."""
        right = (self._decoded, sum(self._batches.values()), len(self.dropped))
        found = (statistics.decoded, statistics.delivered, statistics.epochs_dropped)
        self._demand(
            "statistics", found == right, found, f"is said of decoded, delivered and dropped, which is {right}"
        )
        if self._has_ended:
            self._check_complete()

    def _check_complete(self) -> None:
        self._demand("end", self._frontier is not None and not len(self._frontier), self._frontier, "is the last one")
        self._demand("end", len(self._assembler) == 0, len(self._assembler), "epochs are never complete")
        self._demand("atomicity", self._batches.keys() == self._epochs.keys(), self._batches, "have come in part")
        reading, life = self._reading, self._life
        since = None if reading.atomic else self._since()
        for time in life.sent:
            if (not reading.atomic or self._passes(time)) and time not in self.dropped and time not in self._epochs:
                whole = life.wanted(reading.condition, time, since)
                self._demand("missed", not whole, time, f"never comes: {whole}")
        for partition, start in zip(life.partitions, self._since(), strict=True):
            for time, records in partition.batches[start:]:
                is_fine = time in self.dropped or not fails(reading.condition, records)
                self._demand("condition", is_fine, time, "has a record for which the condition fails, and all went on")

    def _passes(self, time: Time) -> bool:
        """Tell whether an epoch has to come: it had not begun anywhere, nor had a later one, nor was it over."""
        less_equal = self._life.less_equal
        return all(
            any(less_equal(element, time) for element in point.lower)
            and not any(less_equal(time, active) for active in point.active)
            for point in self._joined
            if point is not None
        )

    def _demand(self, check: str, holds: bool, what: object, text: str) -> None:
        if not holds:
            raise ViolationError(check, f"{self.name} at {what!r}: {text}")
