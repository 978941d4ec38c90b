"""Faults in which epochs a subscriber sees, and when."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.kit.simulation.injection import Injection, replaced
from tidewheel.progress import Time
from tidewheel.pubsub.messages.events import Epoch, Event, Frontier
from tidewheel.pubsub.messages.wire import LowerFrontierUpdate, Numbered
from tidewheel.pubsub.protocol.epochs import EpochAssembler, EpochFilter, EpochStates
from tidewheel.pubsub.protocol.subscriber import Subscriber


def upper_frontiers_only() -> Injection:
    """Filter as the seed does, which forgets what a partition had completed."""

    def wrong(epochs: EpochFilter, time: Time) -> bool:
        return not any(epochs._domain.less_equal(time, element) for element in epochs._upper)

    return replaced(EpochFilter, "passes", lambda _: wrong)


def lower_frontiers_only() -> Injection:
    def wrong(epochs: EpochFilter, time: Time) -> bool:
        return all(lower.less_equal(time) for lower in epochs._lowers)

    return replaced(EpochFilter, "passes", lambda _: wrong)


def active_epochs_only() -> Injection:
    """Filter by the set of active epochs, which leaves holes."""

    def wrong(epochs: EpochFilter, time: Time) -> bool:
        return time not in epochs._upper and all(lower.less_equal(time) for lower in epochs._lowers)

    return replaced(EpochFilter, "passes", lambda _: wrong)


def strictly_later_only() -> Injection:
    """Let pass only what is after all upper elements, as the words of the seed say: other times are missed."""

    def wrong(epochs: EpochFilter, time: Time) -> bool:
        is_later = all(epochs._domain.less_than(element, time) for element in epochs._upper)
        return is_later and all(lower.less_equal(time) for lower in epochs._lowers)

    return replaced(EpochFilter, "passes", lambda _: wrong)


def upper_frontier_forgotten() -> Injection:
    """Take the upper frontier for the first active epoch."""
    return replaced(EpochStates, "upper", lambda _: lambda states: list(states.active)[:1])


def frontier_of_the_quickest() -> Injection:
    """Merge lower frontiers by maximum: one partition is ahead of what another one still sends."""

    def wrong(subscriber: Subscriber, partition: int, numbered: Numbered) -> list[Event]:
        message = numbered.message
        if isinstance(message, LowerFrontierUpdate):
            gone = [time for time, change in message.updates if change < 0]
            come = [(time, 1) for time, change in message.updates if change > 0]
            held = [(time, -subscriber._lower.count(time)) for time in gone if subscriber._lower.count(time) > 0]
            return subscriber._frontier_changed() if subscriber._lower.update(held + come) else []
        return original(subscriber, partition, numbered)

    original = Subscriber._deliver
    return replaced(Subscriber, "_deliver", lambda _: wrong)


def ended_partition_holds_back() -> Injection:
    """Do not retract the frontier of a partition that ends: it freezes all others."""

    def make(update: Callable[..., list[Event]]) -> Callable[..., list[Event]]:
        def wrong(subscriber: Subscriber, partition: int, numbered: Numbered) -> list[Event]:
            message = numbered.message
            if isinstance(message, LowerFrontierUpdate) and all(change < 0 for _, change in message.updates):
                return []
            return update(subscriber, partition, numbered)

        return wrong

    return replaced(Subscriber, "_deliver", make)


def epochs_complete_too_early() -> Injection:
    """Give epochs out as soon as the frontier has reached them."""

    def make(receive: Callable[..., list[Epoch]]) -> Callable[..., list[Epoch]]:
        def wrong(assembler: EpochAssembler, event: Event) -> list[Epoch]:
            if not isinstance(event, Frontier):
                return receive(assembler, event)
            ahead: Any = SimpleNamespace(less_equal=event.frontier.less_than)
            return receive(assembler, Frontier(ahead))

        return wrong

    return replaced(EpochAssembler, "receive", make)


def one_partition_late() -> Injection:
    """Deliver what waited for the last snapshot without its first message."""

    def make(start: Callable[..., list[Event]]) -> Callable[..., list[Event]]:
        def wrong(subscriber: Subscriber) -> list[Event]:
            moves = [found for found in subscriber._waiting if isinstance(found[1].message, LowerFrontierUpdate)]
            subscriber._waiting = moves
            return start(subscriber)

        return wrong

    return replaced(Subscriber, "_start", make)


def decoded_at_once() -> Injection:
    """Decode every batch as it arrives, whether or not anybody wants it."""

    def make(data: Callable[..., list[Event]]) -> Callable[..., list[Event]]:
        def wrong(subscriber: Subscriber, *arguments: Any) -> list[Event]:
            subscriber._counts.decoded += 1
            return data(subscriber, *arguments)

        return wrong

    return replaced(Subscriber, "_data", make)
