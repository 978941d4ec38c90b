"""The curiosity about each tick: whether downstream needs its message.

=====  ===========  =======  =========
state  acknowledge  curious  satisfied
=====  ===========  =======  =========
N      A            C        N
C      A            C        N
A      A            A        A
=====  ===========  =======  =========

``satisfied`` means that an answer is on its way down; if it is lost, a child becomes curious again. Only forgetting
leads back from A.

Source: seed "Gryphon exactly-once", section 2.1.1.
"""

from collections.abc import Iterable
from enum import Enum

from tidewheel.pubsub.exactly_once.tick_set import FOREVER, TickRange, TickSet


class Curiosity(Enum):
    """The need of downstream for a tick."""

    N = "neutral"
    """Not asked for: a message may be sent, but need not be sent again."""

    C = "curious"
    """A child has asked for it."""

    A = "acknowledged"
    """No child needs it: its message has been delivered, or it had none."""


class CuriosityStream:
    """The curiosity of every tick; N to begin with.

    Methods that change it accept ranges in any order, and return the changed ranges in order.

    Complexity: as of `TickSet`, for each given range.

    >>> stream = CuriosityStream()
    >>> stream.curious([(0, 10)]), stream.acknowledge([(0, 4)])
    (((0, 10),), ((0, 4),))
    >>> stream.value(3), stream.curious([(0, 12)]), stream.wanted
    (<Curiosity.A: 'acknowledged'>, ((10, 12),), TickSet([(4, 12)]))
    """

    def __init__(self) -> None:
        self._acknowledged = TickSet()
        self._wanted = TickSet()

    def acknowledge(self, ranges: Iterable[TickRange]) -> tuple[TickRange, ...]:
        """Make all given ticks A; return the ticks that were not A."""
        changed: list[TickRange] = []
        for first, end in ranges:
            changed += self._acknowledged.missing(first, end)
            self._acknowledged.add(first, end)
            self._wanted.remove(first, end)
        return _in_order(changed)

    def curious(self, ranges: Iterable[TickRange]) -> tuple[TickRange, ...]:
        """Make the given ticks that are N into C; return them."""
        changed: list[TickRange] = []
        for first, end in ranges:
            for neutral_first, neutral_end in self._acknowledged.missing(first, end):
                changed += self._wanted.missing(neutral_first, neutral_end)
                self._wanted.add(neutral_first, neutral_end)
        return _in_order(changed)

    def satisfied(self, ranges: Iterable[TickRange]) -> tuple[TickRange, ...]:
        """Make the given ticks that are C into N; return them."""
        changed: list[TickRange] = []
        for first, end in ranges:
            changed += self._wanted.ranges(first, end)
            self._wanted.remove(first, end)
        return _in_order(changed)

    def forget(self, first: int, end: int = FOREVER) -> None:
        """Make all ticks of a range N."""
        self._acknowledged.remove(first, end)
        self._wanted.remove(first, end)

    def value(self, tick: int) -> Curiosity:
        """Return the curiosity of one tick."""
        if tick in self._acknowledged:
            return Curiosity.A
        return Curiosity.C if tick in self._wanted else Curiosity.N

    @property
    def acknowledged(self) -> TickSet:
        """The ticks that are A; the caller must not change them."""
        return self._acknowledged

    @property
    def wanted(self) -> TickSet:
        """The ticks that are C; none of them is A. The caller must not change them."""
        return self._wanted


def _in_order(ranges: list[TickRange]) -> tuple[TickRange, ...]:
    """Return disjoint ranges in order, and join ranges that touch."""
    return tuple(ranges) if len(ranges) < 2 else TickSet(ranges).ranges()
