"""The faults seeded into topics whose job begins again: the simulation has to catch each of them."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from tests.kit.simulation.fault import Fault
from tests.kit.simulation.injection import Injection, replaced
from tests.simulation_jobs import job
from tests.simulation_jobs.scenario import JobScenario
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


def _not_taken_back() -> Injection:
    def make(returned: Method) -> Method:
        def wrong(*arguments: Any) -> WentBack | None:
            message: WentBack | None = returned(*arguments)
            return None if message is None else replace(message, number=FOREVER)

        return wrong

    return replaced(Journal, "_returned", make)


def _digest_without_a_partition() -> Injection:
    return replaced(
        recognition,
        "differing_epochs",
        lambda differing: lambda domain, came, logged: differing(domain, came, [*logged[:-1], {}]),
    )


def _confirmed_early() -> Injection:
    def make(durable: Method) -> Method:
        """Return a method that forgets all that was sent, once some of it is durable."""
        return lambda sent, count, number=-1: durable(sent, sent.waiting if count else 0, number)

    return replaced(SentEvents, "durable", make)


def _rollback_not_told() -> Injection:
    def make(go_back: Method) -> Method:
        def wrong(subscriber: Subscriber) -> list[Event]:
            return [event for event in go_back(subscriber) if not isinstance(event, RolledBack)]

        return wrong

    return replaced(Subscriber, "_go_back", make)


def _silence_too_far() -> Injection:
    def make(be_silent: Method) -> Method:
        def wrong(pubend: Pubend, now: int, ahead: int = 0) -> Any:
            pending, pubend._pending = pubend._pending, type(pubend._pending)()
            try:
                return be_silent(pubend, now, ahead)
            finally:
                pubend._pending = pending

        return wrong

    return replaced(Pubend, "be_silent", make)


def _complete_at_one() -> Injection:
    """What the first log has complete is left out, whatever the others have."""
    return replaced(job, "next_generation", lambda real: lambda domain, places: real(domain, places[:1]))


def _generations_mixed() -> Injection:
    return replaced(Generations, "is_ahead", lambda _: lambda *_: False)


def _unsaved() -> Injection:
    return replaced(SentEvents, "saved", lambda _: property(lambda sent: SavedEvents(sent.position, [])))


def _acknowledged_unread() -> Injection:
    def make(fetch: Method) -> Method:
        def wrong(stream: SubendStream) -> Any:
            fetched = fetch(stream)
            for number, one in enumerate(stream._partitions):
                for tick in list(one.batches):
                    stream.acknowledge(number, tick)
            return fetched

        return wrong

    return replaced(SubendStream, "fetch", make)


def _return_acknowledged_unread() -> Injection:
    def make(fetch: Method) -> Method:
        def wrong(stream: SubendStream) -> Any:
            fetched = fetch(stream)
            for number, one in enumerate(stream._partitions):
                for tick in [tick for tick, time in one.batches.items() if isinstance(time, WentBack)]:
                    stream.acknowledge(number, tick)
            return fetched

        return wrong

    return replaced(SubendStream, "fetch", make)


def _parts_not_agreed_on() -> Injection:
    return replaced(PubendCalls, "_agree", lambda _: lambda calls, begun: list(begun))


def _void_not_acknowledged() -> Injection:
    return replaced(SubendStream, "_void", lambda _: lambda *_: None)


def _merged_early() -> Injection:
    def wrong(subend: Subend) -> Sequence[Delivered]:
        together = [one for incoming in subend._incoming.values() for one in incoming.take(incoming.horizon)]
        return sorted(together, key=lambda one: one.tick)

    return replaced(Subend, "take", lambda _: wrong)


def _begins_again(scenario: JobScenario) -> bool:
    return len(scenario.lives) > 1


def _has_partitions(scenario: JobScenario) -> bool:
    return _begins_again(scenario) and scenario.lives[0].workers > 1


FAULTS: tuple[Fault[JobScenario], ...] = (
    Fault("an epoch under way not taken back", _not_taken_back, concerns=_begins_again),
    Fault("a digest without a partition", _digest_without_a_partition, frozenset({"compared"}), _has_partitions),
    Fault("a position advanced early", _confirmed_early, concerns=_begins_again),
    Fault("a rollback not told", _rollback_not_told, concerns=_begins_again),
    Fault("silence promised too far", _silence_too_far),
    Fault("an epoch left out that one log has", _complete_at_one, concerns=_has_partitions),
    Fault("an epoch of two generations", _generations_mixed, concerns=_has_partitions),
    Fault("a snapshot without what is not durable", _unsaved, concerns=_begins_again),
    Fault("an acknowledgement of what is not read", _acknowledged_unread),
    Fault("an acknowledgement of a return that is not read", _return_acknowledged_unread, concerns=_begins_again),
    Fault("an epoch acknowledged in part", _parts_not_agreed_on, concerns=_has_partitions),
    Fault("void batches not acknowledged", _void_not_acknowledged, concerns=_begins_again),
    Fault("messages merged early", _merged_early, frozenset({"order"}), _has_partitions),
)
