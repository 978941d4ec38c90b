"""Faults in what happens to a subscriber that falls behind."""

from collections.abc import Callable
from typing import Any

from tests.kit.simulation.injection import Injection, replaced
from tidewheel.progress import Time
from tidewheel.pubsub.messages.events import Event
from tidewheel.pubsub.messages.wire import EpochsDropped, LowerFrontierUpdate
from tidewheel.pubsub.protocol.dropping_queue import DroppingQueue
from tidewheel.pubsub.protocol.epochs import WaitingEpochs
from tidewheel.pubsub.protocol.posted import Posted
from tidewheel.pubsub.protocol.subscriber import Subscriber


def part_of_an_epoch_dropped() -> Injection:
    """Forget which epochs have begun, so that the rest of one may be dropped."""

    def make(leave: Callable[..., Posted]) -> Callable[..., Posted]:
        def wrong(queue: DroppingQueue) -> Posted:
            posted = leave(queue)
            queue._begun.clear()
            return posted

        return wrong

    return replaced(DroppingQueue, "_leave", make)


def begun_epochs_forgotten_once_passed() -> Injection:
    """Forget that an epoch has begun once the frontier has passed it, though more of it still waits."""

    def wrong(queue: DroppingQueue, is_live: Callable[[Time], bool]) -> None:
        queue._begun = {time for time in queue._begun if is_live(time)}
        queue._dropped = {time for time in queue._dropped if is_live(time)}

    return replaced(DroppingQueue, "prune", lambda _: wrong)


def drops_untold() -> Injection:
    """Lose `EpochsDropped` in the queue, with a number that leaves no gap."""

    def make(oldest: Callable[..., list[Posted]]) -> Callable[..., list[Posted]]:
        def wrong(queue: DroppingQueue, max_bytes: int) -> list[Posted]:
            return [
                Posted(posted.number, LowerFrontierUpdate([]), posted._skipped)
                if isinstance(posted.message, EpochsDropped)
                else posted
                for posted in oldest(queue, max_bytes)
            ]

        return wrong

    return replaced(DroppingQueue, "oldest", make)


def rest_of_a_dropped_epoch_sent() -> Injection:
    """Forget that an epoch was dropped: what still comes of it is queued."""
    return replaced(DroppingQueue, "_count_dropped", lambda _: lambda queue, times: None)


def drop_heeded_by_one_partition() -> Injection:
    """Tell of an epoch that was dropped, and deliver what other partitions have of it."""

    def make(drop: Callable[..., list[Event]]) -> Callable[..., list[Event]]:
        def wrong(subscriber: Subscriber, times: list[Time]) -> list[Event]:
            held, subscriber._held = subscriber._held, WaitingEpochs(subscriber._domain)
            events = drop(subscriber, times)
            subscriber._held = held
            return events

        return wrong

    return replaced(Subscriber, "_drop", make)


def dropping_without_holding() -> Injection:
    """Deliver batches at once, though their epoch may still be dropped."""

    def make(data: Callable[..., list[Event]]) -> Callable[..., list[Event]]:
        def wrong(subscriber: Subscriber, *arguments: Any) -> list[Event]:
            subscriber._holds_epochs = False
            return data(subscriber, *arguments)

        return wrong

    return replaced(Subscriber, "_data", make)


def no_bound() -> Injection:
    """Take everything, however much waits."""

    def make(make_room: Callable[..., bool]) -> Callable[..., bool]:
        return lambda queue, time, size: make_room(queue, time, size) or time in queue._begun

    return replaced(DroppingQueue, "_make_room", make)
