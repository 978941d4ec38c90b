"""The view of one worker: which times can still occur at which locations.

Invariants:

- A pointstamp holds a frontier back while its own count is positive. A negative count at one location never cancels a
  positive count at another, even if both lead to the same time at a target. So each location adds up its own counts,
  and only its frontier travels along the path summaries.
- Every source starts with one count for each worker at the minimum time: its initial token.

Source: seed "Progress Tracking", sections "Maintaining Capabilities" and "A Safety Property".
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeAlias

from tidewheel.progress.antichain import Antichain, MutableAntichain
from tidewheel.progress.compiled_graph import CompiledGraph, Passage
from tidewheel.progress.graph import Location, Source
from tidewheel.progress.time_domain import Time

_Changes: TypeAlias = list[tuple[Time, int]]


class Pointstamp(NamedTuple):
    """A time at a location, given by its number in `CompiledGraph.locations`."""

    location: int
    time: Time


class Tracker:
    """Adds up changes of pointstamps, and keeps the frontiers of locations of interest.

    Attributes:
        comparisons: the comparison of times at each location, by number.
    """

    def __init__(self, compiled: CompiledGraph, workers: int, interesting: Iterable[Location]) -> None:
        self._compiled = compiled
        self._reach = reach = compiled.reachability(interesting)
        self._occurrences: dict[int, MutableAntichain] = {}
        self._implications = [MutableAntichain(compiled.domains[number]) for number in reach.stations]
        self._live = 0
        self.comparisons = [domain.comparison() for domain in compiled.domains]
        self.update(
            (Pointstamp(number, compiled.domains[number].minimum()), workers)
            for number, location in enumerate(compiled.locations)
            if isinstance(location, Source)
        )

    def update(self, changes: Iterable[tuple[tuple[int, Time], int]]) -> set[int]:
        """Apply one indivisible batch; return the numbers of the locations whose frontier changed.

        Complexity: for each change, linear in the frontier of its location; if that moves, also in those of the next
        locations of interest, and so on.
        """
        by_location: dict[int, _Changes] = {}
        for (location, time), difference in changes:
            counted = by_location.get(location)
            if counted is None:
                by_location[location] = [(time, difference)]
            else:
                counted.append((time, difference))
        implied: dict[int, _Changes] = {}
        entries = self._reach.entries
        for location, counts in by_location.items():
            occurrences = self._occurrences.get(location)
            if occurrences is None:
                occurrences = self._occurrences[location] = MutableAntichain(self._compiled.domains[location])
            frontier_changes = occurrences.update(counts)
            for change in frontier_changes:
                self._live += change[1]
            for passage in entries.get(location, ()) if frontier_changes else ():
                _carry(passage, frontier_changes, implied)
        return self._settle(implied) if implied else set()

    def _settle(self, implied: dict[int, _Changes]) -> set[int]:
        moved: set[int] = set()
        ranks = list(implied)
        if len(ranks) > 1:
            heapify(ranks)
        while ranks:
            rank = heappop(ranks)
            frontier_changes = self._implications[rank].update(implied[rank])
            if frontier_changes:
                moved.add(self._reach.stations[rank])
                for passage in self._reach.onward[rank]:
                    if passage.rank not in implied:
                        heappush(ranks, passage.rank)
                    _carry(passage, frontier_changes, implied)
        return moved & self._reach.asked

    def frontier(self, location: Location) -> Antichain:
        """Return the lower bound on times that can still occur at a location of interest."""
        return self._implications[self._reach.rank_of[self._compiled.index[location]]].frontier

    def covered_by(self, location: int, time: Time) -> int | None:
        """Return a location of interest whose frontier shows that an earlier pointstamp leads to ``location``.

        Then the count of (location, time) makes no difference: the earlier pointstamp holds back the same frontiers.
        Only a few locations are searched; None if the search finds nothing.
        """
        for passage in self._reach.covers(location):
            station = self._reach.stations[passage.rank]
            less_equal = self.comparisons[location]
            for element in self._implications[passage.rank].elements():
                for path in passage.paths or (None,):
                    arrival = element if path is None else path.results_in(element)
                    itself = station == location and arrival == time
                    if arrival is not None and not itself and less_equal(arrival, time):
                        return station
        return None

    @property
    def is_complete(self) -> bool:
        """True if no count is positive: then no time can occur anywhere, even if some changes have not arrived yet."""
        return self._live == 0

    def count(self, location: int, time: Time) -> int:
        """Return the accumulated count of a pointstamp."""
        occurrences = self._occurrences.get(location)
        return 0 if occurrences is None else occurrences.count(time)

    def counts(self) -> Iterator[tuple[Pointstamp, int]]:
        """Iterate over the pointstamps whose accumulated count is not zero."""
        for location, occurrences in sorted(self._occurrences.items()):
            for time, count in occurrences.counts():
                yield Pointstamp(location, time), count


def _carry(passage: Passage, frontier_changes: _Changes, implied: dict[int, _Changes]) -> None:
    arriving = implied.setdefault(passage.rank, [])
    if passage.paths is None:
        arriving += frontier_changes
        return
    for path in passage.paths:
        for time, difference in frontier_changes:
            arrival = path.results_in(time)
            if arrival is not None:
                arriving.append((arrival, difference))
