"""The antichain of the times whose count is positive, kept while the counts change."""

from collections.abc import Iterable, Iterator

from tidewheel.progress.antichain import Antichain
from tidewheel.progress.time_domain import Time, TimeDomain


class MutableAntichain:
    """Counts of times, with the minimal ones among those whose count is positive.

    A count may be negative for a while: changes of different workers arrive in any order. A time with a negative count
    neither holds the frontier back nor lets any other time past it.

    >>> from tidewheel.progress import IntegerDomain
    >>> counts = MutableAntichain(IntegerDomain())
    >>> counts.update([(3, 1), (5, 1)])
    [(3, 1)]
    >>> counts.update([(3, -1)])
    [(3, -1), (5, 1)]
    """

    __slots__ = ("_counts", "_domain", "_frontier")

    def __init__(self, domain: TimeDomain) -> None:
        self._domain = domain
        self._counts: dict[Time, int] = {}
        self._frontier: dict[Time, None] = {}

    def update(self, changes: Iterable[tuple[Time, int]]) -> list[tuple[Time, int]]:
        """Apply signed changes of counts and return how the frontier changed, as +1 and -1 by time.

        Complexity: O(elements of the frontier) a change, and one pass over all counted times when an element of the
        frontier is gone.
        """
        entered: list[Time] = []
        left = False
        counts, frontier = self._counts, self._frontier
        for time, difference in changes:
            before = counts.get(time, 0)
            after = before + difference
            if after:
                counts[time] = after
            else:
                counts.pop(time, None)
            if before <= 0 < after:
                entered.append(time)
            elif after <= 0 < before and time in frontier:
                left = True
        if left:
            return self._replace_frontier(self._minimal(time for time, count in counts.items() if count > 0))
        if any(not self._holds(time) for time in entered):
            candidates = (*frontier, *(time for time in entered if counts.get(time, 0) > 0))
            return self._replace_frontier(self._minimal(candidates))
        return []

    def _holds(self, time: Time) -> bool:
        less_equal = self._domain.less_equal
        return any(less_equal(element, time) for element in self._frontier)

    def _minimal(self, times: Iterable[Time]) -> dict[Time, None]:
        less_equal = self._domain.less_equal
        minimal: dict[Time, None] = {}
        for time in times:
            if not any(less_equal(element, time) for element in minimal):
                for element in [element for element in minimal if less_equal(time, element)]:
                    del minimal[element]
                minimal[time] = None
        return minimal

    def _replace_frontier(self, frontier: dict[Time, None]) -> list[tuple[Time, int]]:
        old, self._frontier = self._frontier, frontier
        gone = [(time, -1) for time in old if time not in frontier]
        new = [(time, 1) for time in frontier if time not in old]
        return gone + new

    @property
    def frontier(self) -> Antichain:
        """The minimal times whose count is positive."""
        return Antichain.from_minimal(self._domain, self._frontier)

    def less_equal(self, time: Time) -> bool:
        """Tell whether some time whose count is positive is at or before ``time``."""
        return self._holds(time)

    def counts(self) -> Iterator[tuple[Time, int]]:
        """Iterate over the counted times, negative counts included."""
        return iter(self._counts.items())

    def __len__(self) -> int:
        """The number of times whose count is not zero."""
        return len(self._counts)

    def __repr__(self) -> str:
        return f"MutableAntichain({self._counts!r})"
