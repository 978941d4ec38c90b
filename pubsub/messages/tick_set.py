"""Sets of ticks, stored as ranges, so that a million silent ticks cost as much as one.

A tick is an int, at least 0. A range ``(first, end)`` excludes ``end``; with `FOREVER` it has no end.

Source: seed "Gryphon exactly-once", section 2.1, whose streams are keyed by ticks.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tidewheel.progress import ProtocolError

TickRange: TypeAlias = tuple[int, int]
"""The ticks from the first number up to the second, which is excluded."""

FOREVER = 1 << 62
"""The end of an open range. Every tick is below it."""


def check_range(first: int, end: int) -> None:
    """Raise ProtocolError unless two numbers are a range of ticks, which may be empty."""
    if not 0 <= first <= end <= FOREVER:
        raise ProtocolError(f"({first}, {end}) is no range of ticks: use 0 <= first <= end <= {FOREVER}")


class TickSet:
    """A mutable set of ticks, as ordered, separate ranges.

    Complexity: O(log ranges) for a look-up. A change is O(1) at the end, where most ticks are; elsewhere O(log ranges +
    touched ranges) and a move of the later ranges in memory. Invalid ranges raise `ProtocolError`.

    >>> ticks = TickSet([(0, 10), (20, 30)])
    >>> ticks.add(10, 15)
    >>> ticks.remove(25, FOREVER)
    >>> ticks, 14 in ticks, ticks.missing(0, 40)
    (TickSet([(0, 15), (20, 25)]), True, ((15, 20), (25, 40)))
    """

    __slots__ = ("_bounds",)

    def __init__(self, ranges: Iterable[TickRange] = ()) -> None:
        # First tick, end, first tick, end, and so on, in ascending order. So a tick is in the set if the number of
        # bounds at or before it is odd.
        self._bounds: list[int] = []
        self.update(ranges)

    # Changes

    def add(self, first: int, end: int) -> None:
        bounds = self._bounds
        if not 0 <= first < end <= FOREVER:
            check_range(first, end)
        elif not bounds or first > bounds[-1]:
            bounds += (first, end)
        elif first >= bounds[-2]:
            bounds[-1] = max(bounds[-1], end)
        else:
            self._replace(first, end, inside=0)

    def update(self, ranges: Iterable[TickRange]) -> None:
        for first, end in ranges:
            self.add(first, end)

    def remove(self, first: int, end: int) -> None:
        check_range(first, end)
        if first < end and self._bounds and first < self._bounds[-1]:
            self._replace(first, end, inside=1)

    def difference_update(self, ranges: Iterable[TickRange]) -> None:
        for first, end in ranges:
            self.remove(first, end)

    def _replace(self, first: int, end: int, inside: int) -> None:
        bounds = self._bounds
        low = bisect_left(bounds, first)
        high = bisect_right(bounds, end, low)
        # If neighbouring ticks have the same state as the range, they become one range with it, without a bound
        # between.
        bounds[low:high] = ([first] if low & 1 == inside else []) + ([end] if high & 1 == inside else [])

    # Questions

    def __contains__(self, tick: int) -> bool:
        return bisect_right(self._bounds, tick) & 1 == 1

    def ranges(self, first: int = 0, end: int = FOREVER) -> tuple[TickRange, ...]:
        return self._cut(first, end, inside=1)

    def first_ranges(self, count: int) -> tuple[TickRange, ...]:
        bounds = self._bounds[: 2 * count]
        return tuple(zip(bounds[::2], bounds[1::2], strict=True))

    def missing(self, first: int = 0, end: int = FOREVER) -> tuple[TickRange, ...]:
        return self._cut(first, end, inside=0)

    def _cut(self, first: int, end: int, inside: int) -> tuple[TickRange, ...]:
        check_range(first, end)
        if first == end:
            return ()
        bounds = self._bounds
        low = bisect_right(bounds, first)
        high = bisect_left(bounds, end, low)
        if low == high:  # no bound lies between the two
            return ((first, end),) if low & 1 == inside else ()
        cut = bounds[low:high]
        if low & 1 == inside:
            cut.insert(0, first)
        if high & 1 == inside:
            cut.append(end)
        return tuple(zip(cut[::2], cut[1::2], strict=True))

    def next_missing(self, tick: int) -> int:
        """Return the first missing tick at or after ``tick``; `FOREVER` if there is none."""
        bounds = self._bounds
        position = bisect_right(bounds, tick)
        return bounds[position] if position & 1 else tick

    @property
    def prefix_end(self) -> int:
        """The first missing tick; `FOREVER` if there is none."""
        bounds = self._bounds
        return bounds[1] if bounds and bounds[0] == 0 else 0

    @property
    def first(self) -> int:
        return self._bounds[0] if self._bounds else FOREVER

    @property
    def end(self) -> int:
        """The tick after the last tick; 0 if the set is empty, `FOREVER` if it has no end."""
        return self._bounds[-1] if self._bounds else 0

    def __iter__(self) -> Iterator[TickRange]:
        """Iterate over the ranges that exist now."""
        return iter(self.ranges())

    def __len__(self) -> int:
        """The number of ranges."""
        return len(self._bounds) // 2

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TickSet):
            return NotImplemented
        return self._bounds == other._bounds

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"TickSet({list(self)!r})"

    # New sets

    def intersection(self, other: "TickSet") -> "TickSet":
        """Return the ticks in both sets; O(m log n + ranges of the result) for m and n ranges, m <= n."""
        small, large = sorted((self, other), key=len)
        # Ranges of one set do not touch each other, so their parts do not, either.
        return TickSet(part for first, end in small for part in large.ranges(first, end))

    def difference(self, other: "TickSet") -> "TickSet":
        """Return the ticks that are not in ``other``; O(ranges of this * log of the other + result)."""
        return TickSet(part for first, end in self for part in other.missing(first, end))


def gaps(first: int, end: int, ticks: Iterable[int]) -> tuple[TickRange, ...]:
    """Return the parts of a range between ``ticks``, which are in the range and in order."""
    found = []
    for tick in ticks:
        if first < tick:
            found.append((first, tick))
        first = tick + 1
    if first < end:
        found.append((first, end))
    return tuple(found)
