"""Faults in how subscribers hold back publishers."""

from collections.abc import Callable
from typing import Any

from tests.kit.simulation.injection import Injection, replaced
from tidewheel.pubsub.protocol.blocking_queue import BlockingQueue
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.protocol.publisher import Publisher


def fullness_forgotten() -> Injection:
    """Forget that a queue is full as soon as that was found out."""

    def make(append: Callable[..., None]) -> Callable[..., None]:
        def wrong(queue: BlockingQueue, entry: Any) -> None:
            append(queue, entry)
            queue.is_full = False

        return wrong

    return replaced(BlockingQueue, "_append", make)


def goes_on_while_held() -> Injection:
    """Name only the second of those who hold back a publisher, so that it goes on where there is one."""

    def make(holders: Callable[..., list[str]]) -> Callable[..., list[str]]:
        return lambda publisher: holders(publisher)[1:]

    return replaced(Publisher, "holders", make)


def full_for_ever() -> Injection:
    """Take a queue that was full once for full until it is empty."""

    def make(forget: Callable[..., None]) -> Callable[..., None]:
        def wrong(queue: BlockingQueue, entry: Any) -> None:
            was_full = queue.is_full
            forget(queue, entry)
            queue.is_full = was_full and bool(queue)

        return wrong

    return replaced(BlockingQueue, "_forget", make)


def cut_off_while_it_takes() -> Injection:
    """Count how long a subscriber holds in all, whatever it takes meanwhile."""

    def make(is_overdue: Callable[..., bool]) -> Callable[..., bool]:
        return lambda queue, now_s, taken: is_overdue(queue, now_s, 0)

    return replaced(BlockingQueue, "is_overdue", make)


def does_not_wait() -> Injection:
    """Cut off a subscriber that is full though it asked to be waited for."""
    return replaced(BlockingQueue, "_has_room", lambda _: OutgoingQueue._has_room)


def last_word_under_an_old_number() -> Injection:
    """Cut a subscriber off under the number of the last message, with whose acknowledgement the news of that goes."""

    def wrong(publisher: Publisher, subscriber: str, reason: str) -> None:
        publisher.queues[subscriber].close(publisher._sequence, reason)

    return replaced(Publisher, "cut_off", lambda _: wrong)


def everybody_holds() -> Injection:
    """Let those hold back a publisher, too, who did not ask for that."""

    def wrong(publisher: Publisher) -> list[str]:
        return [name for name, queue in publisher.queues.items() if queue.bytes > publisher.capacity_bytes // 2]

    return replaced(Publisher, "holders", lambda _: wrong)
