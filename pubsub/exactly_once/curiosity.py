"""The curiosity about each tick: how urgently somebody downstream wants to know what is on it.

=====  ===========  =======  =========
state  acknowledge  curious  satisfied
=====  ===========  =======  =========
N      A            C        N
C      A            C        N
A      A            A        A
=====  ===========  =======  =========

``satisfied`` is an answer to the curiosity on its way down; if it gets lost somebody becomes curious again. Only
forgetting leads back from A.

Source: seed "Gryphon exactly-once", section 2.1.1.
"""

from collections.abc import Iterable
from enum import Enum

from tidewheel.pubsub.exactly_once.tick_set import FOREVER, TickRange, TickSet


class Curiosity(Enum):
    """What those downstream want of a tick."""

    N = "neutral"
    """A message may be sent, and need not be sent again."""

    C = "curious"
    """Somebody needs to know."""

    A = "acknowledged"
    """Nobody needs to know: what was there has been delivered, or there was nothing."""


class CuriosityStream:
    """The curiosity of every tick; N to begin with.

    What changes it takes ranges in any order, and returns, in order, those ranges of ticks that changed.

    Complexity: as `TickSet`, for each range given.

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
        """Make ticks A, whatever they were; return those that were not."""
        changed: list[TickRange] = []
        for first, end in ranges:
            changed += self._acknowledged.missing(first, end)
            self._acknowledged.add(first, end)
            self._wanted.remove(first, end)
        return _in_order(changed)

    def curious(self, ranges: Iterable[TickRange]) -> tuple[TickRange, ...]:
        """Make ticks C that are N; return those."""
        changed: list[TickRange] = []
        for first, end in ranges:
            for neutral_first, neutral_end in self._acknowledged.missing(first, end):
                changed += self._wanted.missing(neutral_first, neutral_end)
                self._wanted.add(neutral_first, neutral_end)
        return _in_order(changed)

    def satisfied(self, ranges: Iterable[TickRange]) -> tuple[TickRange, ...]:
        """Make ticks N that are C; return those."""
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
        """The ticks that are A. To be read, not changed."""
        return self._acknowledged

    @property
    def wanted(self) -> TickSet:
        """The ticks that are C; none of them is A. To be read, not changed."""
        return self._wanted


def _in_order(ranges: list[TickRange]) -> tuple[TickRange, ...]:
    """Return ranges that do not overlap in order, and those that touch as one."""
    return tuple(ranges) if len(ranges) < 2 else TickSet(ranges).ranges()
