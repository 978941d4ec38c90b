"""The beginning of a subscription whose frontiers do not matter."""

from tidewheel.pubsub.exactly_once.messages import Begun, Ranges
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot

FRONTIERS = InitialFrontierSnapshot([0], [0])


def begun_at(acknowledged: Ranges = (), told_end: int = 0) -> Begun:
    """Return the answer of a pubend to a reader that has acknowledged some ticks."""
    return Begun(acknowledged, told_end, FRONTIERS, FRONTIERS)
