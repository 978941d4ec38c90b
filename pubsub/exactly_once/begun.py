"""The answer of a pubend to a reader that subscribes."""

from dataclasses import dataclass

from tidewheel.pubsub.exactly_once.messages import Ranges
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot


@dataclass(frozen=True, slots=True)
class Begun:
    """The place where a subscription begins or continues.

    Attributes:
        acknowledged: the ticks that it no longer needs.
        told_end: the end of the known ticks.
        frontiers: both frontiers at its first unacknowledged tick.
        first_frontiers: both frontiers at its first beginning; they tell which epochs it receives from their start.
        lost_end: if not 0, the log no longer keeps messages before this tick that the subscription should receive. It
            had no reader for too long, or wants to begin at an earlier tick. It continues behind the lost messages. A
            durable subscription tells every reader, until a reader that was told acknowledges a tick or leaves.
        everywhere: the ticks that it has acknowledged at each pubend of the topic, as far as this pubend knows.
    """

    acknowledged: Ranges
    told_end: int
    frontiers: InitialFrontierSnapshot
    first_frontiers: InitialFrontierSnapshot
    lost_end: int = 0
    everywhere: tuple[Ranges, ...] = ()
