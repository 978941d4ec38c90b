"""The faults seeded into topics whose job begins again: the simulation has to catch each of them."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from tests.kit.simulation.injection import Injection, replaced
from tests.simulation.jobs import job
from tidewheel.pubsub.exactly_once.journal import Journal
from tidewheel.pubsub.exactly_once.pubend import Pubend
from tidewheel.pubsub.exactly_once.subend import Delivered, Subend
from tidewheel.pubsub.exactly_once.subend_stream import SubendStream
from tidewheel.pubsub.messages.events import Event, RolledBack
from tidewheel.pubsub.messages.tick_set import FOREVER
from tidewheel.pubsub.messages.wire import WentBack
from tidewheel.pubsub.protocol.generations import Generations
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.publishers import recognition
from tidewheel.pubsub.publishers.sent_events import SavedEvents, SentEvents
from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls

Method = Callable[..., Any]


def not_taken_back() -> Injection:
    def make(returned: Method) -> Method:
        def wrong(*arguments: Any) -> WentBack | None:
            message: WentBack | None = returned(*arguments)
            return None if message is None else replace(message, number=FOREVER)

        return wrong

    return replaced(Journal, "_returned", make)


def digest_without_a_partition() -> Injection:
    return replaced(
        recognition,
        "differing_epochs",
        lambda differing: lambda domain, came, logged: differing(domain, came, [*logged[:-1], {}]),
    )


def confirmed_early() -> Injection:
    def make(durable: Method) -> Method:
        """Return a method that forgets all that was sent, once some of it is durable."""
        return lambda sent, count, number=-1: durable(sent, sent.waiting if count else 0, number)

    return replaced(SentEvents, "durable", make)


def rollback_not_told() -> Injection:
    def make(go_back: Method) -> Method:
        def wrong(subscriber: Subscriber) -> list[Event]:
            return [event for event in go_back(subscriber) if not isinstance(event, RolledBack)]

        return wrong

    return replaced(Subscriber, "_go_back", make)


def silence_too_far() -> Injection:
    def make(be_silent: Method) -> Method:
        def wrong(pubend: Pubend, now: int, ahead: int = 0) -> Any:
            pending, pubend._pending = pubend._pending, type(pubend._pending)()
            try:
                return be_silent(pubend, now, ahead)
            finally:
                pubend._pending = pending

        return wrong

    return replaced(Pubend, "be_silent", make)


def complete_at_one() -> Injection:
    """What the first log has complete is left out, whatever the others have."""
    return replaced(job, "next_generation", lambda real: lambda domain, places: real(domain, places[:1]))


def generations_mixed() -> Injection:
    return replaced(Generations, "is_ahead", lambda _: lambda *_: False)


def unsaved() -> Injection:
    return replaced(SentEvents, "saved", lambda _: property(lambda sent: SavedEvents(sent.position, [])))


def acknowledged_unread() -> Injection:
    def make(fetch: Method) -> Method:
        def wrong(stream: SubendStream) -> Any:
            fetched = fetch(stream)
            for number, one in enumerate(stream._partitions):
                for tick in list(one.batches):
                    stream.acknowledge(number, tick)
            return fetched

        return wrong

    return replaced(SubendStream, "fetch", make)


def return_acknowledged_unread() -> Injection:
    def make(fetch: Method) -> Method:
        def wrong(stream: SubendStream) -> Any:
            fetched = fetch(stream)
            for number, one in enumerate(stream._partitions):
                for tick in [tick for tick, time in one.batches.items() if isinstance(time, WentBack)]:
                    stream.acknowledge(number, tick)
            return fetched

        return wrong

    return replaced(SubendStream, "fetch", make)


def parts_not_agreed_on() -> Injection:
    return replaced(PubendCalls, "_agree", lambda _: lambda calls, begun: list(begun))


def void_not_acknowledged() -> Injection:
    return replaced(SubendStream, "_void", lambda _: lambda *_: None)


def merged_early() -> Injection:
    def wrong(subend: Subend) -> Sequence[Delivered]:
        together = [one for incoming in subend._incoming.values() for one in incoming.take(incoming.horizon)]
        return sorted(together, key=lambda one: one.tick)

    return replaced(Subend, "take", lambda _: wrong)
