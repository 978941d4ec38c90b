"""Faults in what travels, and to whom."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.kit.simulation.injection import Injection, replaced
from tidewheel.pubsub import Publisher
from tidewheel.pubsub.messages.wire import Message, Numbered
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.protocol.partition_stream import PartitionStream


@contextmanager
def gap_unnoticed() -> Iterator[None]:
    """Lose the second message of a long reply, and do not look at the numbers."""

    def make_head(head: Callable[..., list[Numbered]]) -> Callable[..., list[Numbered]]:
        def wrong(queue: OutgoingQueue, max_bytes: int) -> list[Numbered]:
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


def last_word_taken_for_a_duplicate() -> Injection:
    """Do not hear a publisher that is new, and says so under a number that the one before it had used."""

    def make(accept: Callable[..., Message | None]) -> Callable[..., Message | None]:
        def wrong(stream: PartitionStream, numbered: Numbered) -> Message | None:
            is_old = stream._received is not None and numbered.sequence <= stream._received
            return None if is_old else accept(stream, numbered)

        return wrong

    return replaced(PartitionStream, "accept", make)


def skipped_untold() -> Injection:
    """Leave messages out on purpose and do not say so."""

    def make(leave: Callable[..., Numbered]) -> Callable[..., Numbered]:
        def wrong(queue: OutgoingQueue) -> Numbered:
            numbered = leave(queue)
            return Numbered(numbered.sequence, numbered.message)

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


def condition_of_somebody_else() -> Injection:
    """Cut everybody off when the condition of one fails."""

    def make(wanted: Callable[..., Numbered | None]) -> Callable[..., Numbered | None]:
        def wrong(publisher: Publisher, *arguments: Any) -> Numbered | None:
            part = wanted(publisher, *arguments)
            if part is not None and type(part.message).__name__ == "Disconnected":
                for queue in publisher.queues.values():
                    queue.close(part)
            return part

        return wrong

    return replaced(Publisher, "_wanted", make)
