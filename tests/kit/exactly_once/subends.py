"""The beginning of a subscription whose frontiers do not matter, and looks into a subend."""

from tidewheel.pubsub.exactly_once.subend import Subend
from tidewheel.pubsub.messages.delivery_messages import Begun, Ranges
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot

FRONTIERS = InitialFrontierSnapshot([0], [0])


def begun_at(acknowledged: Ranges = (), told_end: int = 0) -> Begun:
    """Return the answer of a pubend to a reader that has acknowledged some ticks."""
    return Begun(acknowledged, told_end, FRONTIERS, FRONTIERS)


def horizon_of(subend: Subend) -> int:
    """Return the first tick of pubend 0 that a subend does not know."""
    return subend._incoming[0].horizon


def waiting_bytes_of(subend: Subend) -> int:
    """Return how many bytes of messages wait in a subend."""
    return sum(incoming.stream.data.bytes for incoming in subend._incoming.values())


def repeat_acks(subend: Subend) -> None:
    """Have a subend acknowledge everything again, as it does when it has connected anew."""
    for incoming in subend._incoming.values():
        incoming.has_new_acks = True
