"""Faults in what travels, and to whom."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.kit.simulation.injection import Injection, replaced
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_messages import Downstream
from tidewheel.pubsub.messages.wire import Message, Numbered
from tidewheel.pubsub.protocol.offer import Offer
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.protocol.partition_stream import PartitionStream
from tidewheel.pubsub.protocol.posted import Posted
from tidewheel.pubsub.protocol.publisher import Publisher


@contextmanager
def gap_unnoticed() -> Iterator[None]:
    """Lose the second message of a long reply, and do not look at the numbers."""

    def make_head(head: Callable[..., list[Downstream]]) -> Callable[..., list[Downstream]]:
        def wrong(queue: OutgoingQueue, max_bytes: int) -> list[Downstream]:
            found = head(queue, max_bytes)
            return [*found[:1], *found[2:]] if len(found) > 2 else found

        return wrong

    def make_accept(accept: Callable[..., Message | None]) -> Callable[..., Message | None]:
        def wrong(stream: PartitionStream, numbered: Numbered) -> Message | None:
            if stream._received is not None and numbered.sequence > stream._received:
                stream._received = numbered.sequence - numbered.skipped - 1
            return accept(stream, numbered)

        return wrong

    with replaced(OutgoingQueue, "head", make_head), replaced(PartitionStream, "accept", make_accept):
        yield


def message_lost() -> Injection:
    def make(acknowledge: Callable[..., None]) -> Callable[..., None]:
        return lambda queue, sequence: acknowledge(queue, sequence + 1 if sequence > 0 else sequence)

    return replaced(OutgoingQueue, "acknowledge", make)


def duplicates_delivered() -> Injection:
    """Take whatever comes, twice if it comes twice."""

    def make(accept: Callable[..., Message | None]) -> Callable[..., Message | None]:
        def wrong(stream: PartitionStream, numbered: Numbered) -> Message | None:
            if stream._received is not None and numbered.sequence == stream._received:
                return numbered.message
            return accept(stream, numbered)

        return wrong

    return replaced(PartitionStream, "accept", make)


def numbering_restarts() -> Injection:
    """Begin anew with the numbers when somebody subscribes."""

    def make(subscribe: Callable[..., None]) -> Callable[..., None]:
        def wrong(publisher: Publisher, *arguments: Any) -> None:
            if publisher._final is None:
                publisher._sequence = 0
            subscribe(publisher, *arguments)

        return wrong

    return replaced(Publisher, "subscribe", make)


def skipped_untold() -> Injection:
    """Leave messages out on purpose and do not say so."""

    def make(leave: Callable[..., Posted]) -> Callable[..., Posted]:
        def wrong(queue: OutgoingQueue) -> Posted:
            return leave(queue).after(0)

        return wrong

    return replaced(OutgoingQueue, "_leave", make)


def last_one_forgotten() -> Injection:
    """Send nothing more to the last subscriber after another one has left."""

    def make(unsubscribe: Callable[..., None]) -> Callable[..., None]:
        def wrong(publisher: Publisher, subscriber: str) -> None:
            was_there = subscriber in publisher.queues
            unsubscribe(publisher, subscriber)
            last = list(publisher.queues)[-1:]
            if was_there and last:
                publisher.queues[last[0]].offer = lambda *_: True  # type: ignore[method-assign]

        return wrong

    return replaced(Publisher, "unsubscribe", make)


@contextmanager
def condition_of_somebody_else() -> Iterator[None]:
    """Cut everybody off when the condition of one fails."""

    def make(part_of: Callable[..., Posted | DeliveryError | None]) -> Callable[..., Posted | DeliveryError | None]:
        def wrong(offer: Offer, *arguments: Any) -> Posted | DeliveryError | None:
            part = part_of(offer, *arguments)
            failed.append(isinstance(part, DeliveryError))
            return part

        return wrong

    def make_broadcast(broadcast: Callable[..., Posted]) -> Callable[..., Posted]:
        def wrong(publisher: Publisher, message: Message) -> Posted:
            failed.clear()
            posted = broadcast(publisher, message)
            for queue in publisher.queues.values() if any(failed) else ():
                queue.close(posted.number, "a condition has failed")
            return posted

        return wrong

    failed: list[bool] = []
    with replaced(Offer, "_part", make), replaced(Publisher, "_broadcast", make_broadcast):
        yield
