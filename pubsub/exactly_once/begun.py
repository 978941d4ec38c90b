"""The answer of a pubend to a reader that subscribes."""

from dataclasses import dataclass

from tidewheel.pubsub.exactly_once.messages import Ranges
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot


@dataclass(frozen=True, slots=True)
class Begun:
    """Where a subscription begins, or goes on.

    Attributes:
        acknowledged: the ticks that it needs no more.
        told_end: what is known now ends here.
        frontiers: both frontiers at the first tick that it has not acknowledged.
        first_frontiers: both frontiers where it first began, so that one can tell which epochs it has from their start.
        lost_end: if this is not 0, messages before this tick are no longer kept that it should have had: nobody read it
            for too long, or it wants to begin at an earlier tick. What it gets begins behind them. Of a durable
            subscription every reader is told, until one that was acknowledges something, or leaves.
        everywhere: the ticks that it has acknowledged at each pubend of the topic, as far as this one was told.
    """

    acknowledged: Ranges
    told_end: int
    frontiers: InitialFrontierSnapshot
    first_frontiers: InitialFrontierSnapshot
    lost_end: int = 0
    everywhere: tuple[Ranges, ...] = ()
