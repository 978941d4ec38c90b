"""One worker's view of which times can still occur where.

Invariants:

- A pointstamp holds a frontier back while its own accumulated count is positive; a negative count at one location never
  cancels a positive one at another, even where both map to the same time at a target. So the counts of each location
  are accumulated by themselves, and only the frontier of each location travels on along the path summaries.
- Every source starts with one count a worker at the minimum time: each worker owns one initial token there.

Source: seed "Progress Tracking", sections "Maintaining Capabilities" and "A Safety Property".
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidewheel.progress.antichain import Antichain
from tidewheel.progress.compiled_graph import CompiledGraph
from tidewheel.progress.location import Location, Source
from tidewheel.progress.mutable_antichain import MutableAntichain
from tidewheel.progress.path_summary import PathSummary
from tidewheel.progress.time_domain import Time


class Pointstamp(NamedTuple):
    """A time at a location, which is given by its number in `CompiledGraph.locations`."""

    location: int
    time: Time


class Tracker:
    """Accumulates changes of pointstamps and keeps the frontiers of the locations that somebody asks about.

    Args:
        compiled: the graph.
        workers: how many workers run it.
        interesting: the locations whose frontiers are kept.
    """

    def __init__(self, compiled: CompiledGraph, workers: int, interesting: Iterable[Location]) -> None:
        self._compiled = compiled
        nestings = [compiled.graph.nesting(location) for location in compiled.locations]
        self._occurrences = [MutableAntichain(nesting.domain) for nesting in nestings]
        self._implications: dict[int, MutableAntichain] = {}
        self._outgoing: list[list[tuple[int, tuple[PathSummary, ...]]]] = [[] for _ in nestings]
        self._live = 0
        for end in interesting:
            number = compiled.index[end]
            if number not in self._implications:
                self._implications[number] = MutableAntichain(nestings[number].domain)
                for start, paths in compiled.reaching(end).items():
                    self._outgoing[compiled.index[start]].append((number, paths))
        self.update(
            (Pointstamp(number, nestings[number].domain.minimum()), workers)
            for number, location in enumerate(compiled.locations)
            if isinstance(location, Source)
        )

    def update(self, changes: Iterable[tuple[tuple[int, Time], int]]) -> set[int]:
        """Apply the changes of one indivisible batch; return the numbers of the locations whose frontier changed.

        Complexity: for each change, the frontier of its location; for each change of that frontier, the locations of
        interest that it reaches.
        """
        by_location: dict[int, list[tuple[Time, int]]] = {}
        for (location, time), difference in changes:
            by_location.setdefault(location, []).append((time, difference))
        implied: dict[int, list[tuple[Time, int]]] = {}
        for location, counts in by_location.items():
            occurrences = self._occurrences[location]
            before = len(occurrences)
            for time, difference in occurrences.update(counts):
                self._imply(location, time, difference, implied)
            self._live += len(occurrences) - before
        return {location for location, counts in implied.items() if self._implications[location].update(counts)}

    def _imply(self, location: int, time: Time, difference: int, implied: dict[int, list[tuple[Time, int]]]) -> None:
        for end, paths in self._outgoing[location]:
            for path in paths:
                arrival = path.results_in(time)
                if arrival is not None:
                    implied.setdefault(end, []).append((arrival, difference))

    def frontier(self, location: Location) -> Antichain:
        """Return the lower bound on the times that can still occur at a location of interest."""
        return self._implications[self._compiled.index[location]].frontier

    def is_interesting(self, location: Location) -> bool:
        """Tell whether the frontier of ``location`` is kept."""
        return self._compiled.index[location] in self._implications

    @property
    def is_complete(self) -> bool:
        """Whether every count is zero: nothing can ever occur anywhere."""
        return self._live == 0

    def counts(self) -> Iterator[tuple[Pointstamp, int]]:
        """Iterate over the pointstamps whose accumulated count is not zero."""
        for location, occurrences in enumerate(self._occurrences):
            for time, count in occurrences.counts():
                yield Pointstamp(location, time), count
