"""A subscription that goes on after a crash gets each epoch whole, once, but for what it had not acknowledged."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tidewheel.progress import IntegerDomain, ProductDomain, Time, TimeDomain
from tidewheel.pubsub.exactly_once.journal import Journal
from tidewheel.pubsub.exactly_once.subend import Order
from tidewheel.pubsub.exactly_once.subend_stream import SubendStream
from tidewheel.pubsub.exactly_once.subscription import merged
from tidewheel.pubsub.messages.delivery_messages import Ack, Begun, KnowledgeMessage, Ranges
from tidewheel.pubsub.messages.encoded_message import encode
from tidewheel.pubsub.messages.events import Batch, Epoch
from tidewheel.pubsub.messages.tick_set import TickSet
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    PartitionEnded,
    WentBack,
)
from tidewheel.pubsub.protocol.epochs import EpochAssembler
from tidewheel.pubsub.protocol.subscriber import Subscriber

INTEGERS = IntegerDomain()
PAIRS = ProductDomain(INTEGERS, INTEGERS)
FIRST_FRONTIERS = InitialFrontierSnapshot([0], [])


class Published:
    """One partition: what is on which tick, all of it durable."""

    def __init__(self, domain: TimeDomain, number: int, partitions: int) -> None:
        self.domain = domain
        self.number = number
        self._partitions = partitions
        self.events: list[tuple[int, Message]] = []
        self._numbers: dict[Time, int] = {}

    @property
    def end(self) -> int:
        return self.events[-1][0] + 1 if self.events else 0

    def publish(self, event: Message) -> None:
        tick = (len(self.events) + 1) * self._partitions + self.number
        self.events.append((tick, event))

    def frontiers_at(self, tick: int) -> InitialFrontierSnapshot:
        """Both frontiers before what is at ``tick``."""
        journal = Journal(self.domain)
        for at, event in self.events:
            if at >= tick:
                break
            if isinstance(event, DataMessage):
                journal.record(event.time, 0)
            elif isinstance(event, LowerFrontierUpdate):
                journal.advance(event.updates)
        return InitialFrontierSnapshot(journal.lower, journal.epochs().upper())

    def begun(
        self,
        acknowledged: Ranges,
        first: InitialFrontierSnapshot | None = None,
        everywhere: tuple[Ranges, ...] = (),
    ) -> Begun:
        """Where a subscription goes on that has acknowledged so much."""
        frontiers = self.frontiers_at(TickSet(acknowledged).prefix_end)
        return Begun(acknowledged, self.end, frontiers, first or frontiers, 0, everywhere)

    def knowledge(self, end: int) -> KnowledgeMessage:
        """All that is known up to a tick."""
        data = tuple((tick, encode(event)) for tick, event in self.events if tick < end)
        final = TickSet([(0, end)])
        for tick, _ in data:
            final.remove(tick, tick + 1)
        return KnowledgeMessage(self.number, final.ranges(), data)


class Reader:
    """One life of a subscription: a stream, a subscriber, and epochs from it."""

    def __init__(self, partitions: Sequence[Published], begun: Sequence[Begun], order: Order = "publisher") -> None:
        self.stream = SubendStream("reader", partitions[0].domain, begun, order)
        self._subscriber = Subscriber(
            partitions[0].domain, len(partitions), began=[one.first_frontiers for one in begun]
        )
        self._assembler = EpochAssembler(partitions[0].domain)
        self.acknowledged: list[Ranges] = [one.acknowledged for one in begun]
        self.everywhere: list[tuple[Ranges, ...]] = [one.everywhere for one in begun]
        self.is_ended = False

    def read(self, partitions: Sequence[Published], ends: Sequence[int]) -> tuple[list[Batch], list[Epoch]]:
        """Read all up to some ticks; return the batches that came, and the epochs that became complete."""
        batches: list[Batch] = []
        epochs: list[Epoch] = []
        for partition, end in zip(partitions, ends, strict=True):
            self.stream.receive(partition.knowledge(end), 0.0)
        for fetched in self.stream.fetch():
            for numbered in fetched.messages:
                events = self._subscriber.receive(fetched.partition, numbered)
                for number, tick in self._subscriber.unseen:
                    self.stream.acknowledge(number, tick)
                self._subscriber.unseen.clear()
                for event in events:
                    batches += [event] if isinstance(event, Batch) else []
                    epochs += self._assembler.receive(event)
        self.is_ended = self._subscriber.is_ended
        return batches, epochs

    def acknowledge(self, batches: Sequence[Batch]) -> None:
        """Acknowledge batches, and note what goes upstream."""
        for batch in batches:
            self.stream.acknowledge(batch.partition, batch.number)
        self.tell()

    def tell(self, deaf: int | None = None) -> None:
        for message in self.stream.acks():
            if isinstance(message, Ack) and message.pubend != deaf:
                self.acknowledged[message.pubend] = message.acks["reader"]
                self.everywhere[message.pubend] = message.everywhere["reader"]

    def successor(self, partitions: Sequence[Published], begun: Sequence[Begun], order: Order) -> "Reader":
        """Who goes on when this one has died: with what any partition knows to be acknowledged."""
        known = tuple(self.acknowledged)
        for vector in self.everywhere:
            known = merged(known, vector)
        again = [
            partition.begun(acknowledged, one.first_frontiers, everywhere)
            for partition, acknowledged, one, everywhere in zip(partitions, known, begun, self.everywhere, strict=True)
        ]
        return Reader(partitions, again, order)


def times_of(domain: TimeDomain) -> list[Any]:
    return [0, 1, 2, 3] if domain is INTEGERS else [(a, b) for a in range(2) for b in range(2)]


def moves(partition: Published, data: st.DataObject) -> None:
    """Publish batches and moves of the frontier, as a worker may send them, to the end or not."""
    journal = Journal(partition.domain)
    times = times_of(partition.domain)
    for _ in range(data.draw(st.integers(0, 8), label=f"steps of {partition.number}")):
        open_times: list[Any] = [
            time for time in times if any(partition.domain.less_equal(at, time) for at in journal.lower)
        ]
        if not open_times:
            break
        if data.draw(st.booleans()):
            time: Time = data.draw(st.sampled_from(open_times))
            journal.record(time, 0)
            payload = repr((partition.number, len(partition.events))).encode()
            partition.publish(DataMessage(time, payload, "pickle", 1))
        else:
            later = data.draw(st.lists(st.sampled_from(open_times), unique=True))
            minimal = [at for at in later if not any(partition.domain.less_than(other, at) for other in later)]
            move(partition, journal, minimal)
    if data.draw(st.booleans()):
        move(partition, journal, [])


def move(partition: Published, journal: Journal, frontier: list[Any]) -> None:
    before = journal.lower
    changes = [(time, -1) for time in before if time not in frontier]
    changes += [(time, 1) for time in frontier if time not in before]
    if changes:
        journal.advance(changes)
        partition.publish(LowerFrontierUpdate(changes))
        if not frontier:
            partition.publish(PartitionEnded())


def contents(batches: Sequence[Batch]) -> list[bytes]:
    return [bytes(batch.encoded.payload) for batch in batches]


@pytest.mark.parametrize("order", ["publisher", "total"])
@pytest.mark.parametrize("domain", [INTEGERS, PAIRS], ids=["integers", "pairs"])
@given(data=st.data())
def test_epochs_are_whole_and_come_once_however_often_it_goes_on(
    domain: TimeDomain, order: Order, data: st.DataObject
) -> None:
    """A reader without crashes and one with many have the same epochs; what was acknowledged does not come again."""
    partitions = [Published(domain, number, 2) for number in range(2)]
    for partition in partitions:
        moves(partition, data)
    starts = [data.draw(st.integers(0, partition.end + 1), label="start") for partition in partitions]
    begun = [
        partition.begun(((0, start),) if start else ()) for partition, start in zip(partitions, starts, strict=True)
    ]
    ends = [max(partition.end for partition in partitions)] * 2
    undisturbed = Reader(partitions, begun, order)
    _, expected = undisturbed.read(partitions, ends)
    note(f"published {[partition.events for partition in partitions]}, epochs {[epoch.time for epoch in expected]}")

    done: list[tuple[Time, list[bytes]]] = []
    by_batch = data.draw(st.booleans(), label="acknowledges batch by batch")
    loose: list[bytes] = []
    reader = Reader(partitions, begun, order)
    for _ in range(data.draw(st.integers(0, 5), label="crashes")):
        come = [data.draw(st.integers(0, end), label="comes up to") for end in ends]
        batches, epochs = reader.read(partitions, come)
        if by_batch:
            taken = [batch for batch in batches if data.draw(st.booleans())]
            reader.acknowledge(taken)
            loose += contents(taken)
        else:
            taken_epochs = epochs[: data.draw(st.integers(0, len(epochs)))]
            reader.acknowledge([batch for epoch in taken_epochs for batch in epoch.batches])
            done += [(epoch.time, contents(epoch.batches)) for epoch in taken_epochs]
        reader.tell()
        reader = reader.successor(partitions, begun, order)
    batches, epochs = reader.read(partitions, ends)
    assert reader.is_ended == undisturbed.is_ended
    if by_batch:
        got = loose + contents(batches)
        assert len(set(got)) == len(got)
        assert {content for epoch in expected for content in contents(epoch.batches)} <= set(got)
    else:
        done += [(epoch.time, contents(epoch.batches)) for epoch in epochs]
        assert sorted(done) == sorted((epoch.time, contents(epoch.batches)) for epoch in expected)


@pytest.mark.parametrize("order", ["publisher", "total"])
@pytest.mark.parametrize("domain", [INTEGERS, PAIRS], ids=["integers", "pairs"])
@given(data=st.data())
def test_no_epoch_comes_again_in_part(domain: TimeDomain, order: Order, data: st.DataObject) -> None:
    """An acknowledgement that reaches one partition, and is lost on its way to another, is known to whoever goes on."""
    partitions = [Published(domain, number, 2) for number in range(2)]
    for partition in partitions:
        moves(partition, data)
    begun = [partition.begun(()) for partition in partitions]
    ends = [max(partition.end for partition in partitions)] * 2
    _, expected = Reader(partitions, begun, order).read(partitions, ends)
    whole = {epoch.time: contents(epoch.batches) for epoch in expected}

    reader, seen = Reader(partitions, begun, order), set[Time]()
    for _ in range(data.draw(st.integers(1, 5), label="crashes")):
        come = [data.draw(st.integers(0, end), label="comes up to") for end in ends]
        _, epochs = reader.read(partitions, ends if data.draw(st.booleans(), label="all comes") else come)
        deaf = data.draw(st.sampled_from([0, 1, None]), label="hears nothing")
        for epoch in epochs[: data.draw(st.integers(0, len(epochs)))]:
            assert contents(epoch.batches) == whole[epoch.time]
            seen.add(epoch.time)
            for batch in epoch.batches:
                reader.stream.acknowledge(batch.partition, batch.number)
            reader.tell(deaf)
        reader = reader.successor(partitions, begun, order)
    _, epochs = reader.read(partitions, ends)
    assert all(contents(epoch.batches) == whole[epoch.time] for epoch in epochs)
    assert seen | {epoch.time for epoch in epochs} == whole.keys()


def test_a_return_is_acknowledged_by_its_consumer() -> None:
    """A consumer that keeps void batches has to be told, though it dies first; the void ones are acknowledged."""
    stream = SubendStream("reader", INTEGERS, [Begun((), 0, FIRST_FRONTIERS, FIRST_FRONTIERS)])
    messages: list[tuple[int, Message]] = [(10, DataMessage(4, b"", "pickle", 1)), (12, WentBack(1, 9, [4], {}, (4,)))]
    data = tuple((tick, encode(message)) for tick, message in messages)
    stream.receive(KnowledgeMessage(0, ((0, 10), (11, 12)), data), 0.0)
    stream.fetch()
    assert stream.acknowledged(0).prefix_end == 11
    assert not stream.is_done(0)
    stream.acknowledge(0, 12)
    assert stream.acknowledged(0).prefix_end == 13
    assert stream.is_done(0)
