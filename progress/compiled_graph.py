"""The compiled form of a graph: the minimal summaries of the paths between locations.

The runtime reads the frontier at some locations only, the *locations of interest*. Most paths between two of them lead
through a third, whose frontier sums up everything before it. So the tracker carries a count only to the next locations
of interest, called stations, and from there it carries frontiers: see `Reachability.entries` and `Reachability.onward`.

In a cycle, frontiers would be carried round and round. Every cycle has steps that advance time; the ends of these steps
are its *heads*. Each count in a cycle goes directly to all its heads or all its locations of interest, whichever are
fewer, by the summaries of all paths there. These heads are stations too. Then a frontier affects only later stations,
and the tracker settles each station once for each change.

The tables grow with the size of the graph times the number of such heads or locations of each cycle. They also have a
path for each pair of a location and a station that it reaches directly.

Source: seed "Progress Tracking", section "A Compiled Representation".
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from tidewheel.progress.cycles import refuse_idle_cycles, strong_components
from tidewheel.progress.graph import GraphShape, Location, Target
from tidewheel.progress.path_summary import PathSummary

Paths: TypeAlias = tuple[PathSummary, ...]
"""Minimal summaries of the paths between two locations, none of them at or below another."""


class CompiledGraph:
    """A checked graph, which computes path summaries to destinations on demand and keeps them.

    Locations are numbered in the order of `GraphShape.locations`, which is the same on every worker.

    Raises GraphError if some cycle does not strictly advance time.

    Attributes:
        together: for each location, the number of the location where the counts of all workers are added up.
    """

    def __init__(self, graph: GraphShape) -> None:
        refuse_idle_cycles(graph)
        self.graph = graph
        self.locations: tuple[Location, ...] = tuple(graph.locations())
        self.index: dict[Location, int] = {location: index for index, location in enumerate(self.locations)}
        self.together = [self.index[replace(at, worker=0) if isinstance(at, Target) else at] for at in self.locations]
        self.domains = [graph.nesting(location).domain for location in self.locations]
        self.incoming: list[list[tuple[int, PathSummary]]] = [[] for _ in self.locations]
        self._outgoing: list[list[tuple[int, PathSummary]]] = [[] for _ in self.locations]
        for step in graph.steps():
            start, end = self.index[step.start], self.index[step.end]
            self.incoming[end].append((start, step.summary))
            self._outgoing[start].append((end, step.summary))
        self._reaching: dict[Location, dict[Location, Paths]] = {}
        self._reachabilities: dict[frozenset[int], Reachability] = {}

    def reaching(self, end: Location) -> dict[Location, Paths]:
        """Return the minimal summaries of the paths to ``end``, for every location that reaches it.

        Complexity: on the first call for ``end``, the size of the graph before it, times the kept summaries.
        """
        found = self._reaching.get(end)
        if found is None:
            numbered = self.search_back(self.index[end], lambda _: True)
            found = self._reaching[end] = {self.locations[start]: paths for start, paths in numbered.items()}
        return found

    def reachability(self, interesting: Iterable[Location]) -> "Reachability":
        """Return the stations that each location reaches directly; equal arguments give the same object.

        Complexity: the size of the graph on the first call, then the number of locations of interest.
        """
        asked = frozenset(self.index[location] for location in interesting)
        found = self._reachabilities.get(asked)
        if found is None:
            found = self._reachabilities[asked] = Reachability(self, (self.locations[number] for number in asked))
        return found

    def successors(self, location: int) -> list[int]:
        """Return the numbers of the locations one step after a location."""
        return [end for end, _ in self._outgoing[location]]

    def advancing_steps(self) -> Iterator[tuple[int, int]]:
        """Iterate over the single steps that strictly advance some coordinate, as (start, end)."""
        for start, steps in enumerate(self._outgoing):
            yield from ((start, end) for end, step in steps if step.strictly_advances())

    def search_back(self, end: int, passes: Callable[[int], bool]) -> dict[int, Paths]:
        """Return the minimal summaries of the paths to ``end`` through locations that ``passes`` allows.

        A path may start anywhere; ``end`` itself is always allowed.
        """
        return self._search(end, passes, self.incoming, lambda path, step: step.followed_by(path))

    def search_forward(self, start: int, passes: Callable[[int], bool]) -> dict[int, Paths]:
        """Return the minimal summaries of the paths from ``start``, by their end; see `search_back`."""
        return self._search(start, passes, self._outgoing, lambda path, step: path.followed_by(step))

    def _search(
        self,
        origin: int,
        passes: Callable[[int], bool],
        steps: list[list[tuple[int, PathSummary]]],
        extend: Callable[[PathSummary, PathSummary], PathSummary | None],
    ) -> dict[int, Paths]:
        minimal: dict[int, Paths] = {}
        queue: deque[tuple[int, PathSummary]] = deque()
        queue.append((origin, PathSummary.identity(self.graph.nesting(self.locations[origin]))))
        while queue:
            location, path = queue.popleft()
            known = minimal.get(location, ())
            if any(other.less_equal(path) for other in known):
                continue
            minimal[location] = (*(other for other in known if not path.less_equal(other)), path)
            if location == origin or passes(location):
                for following, step in steps[location]:
                    longer = extend(path, step)
                    if longer is not None:
                        queue.append((following, longer))
        return minimal


_MOST_COVERS = 4
"""The greatest number of locations that `Reachability.covers` returns."""


@dataclass(frozen=True, slots=True)
class Passage:
    """The paths between a location and the station with number ``rank``; ``paths`` is None if they change no time."""

    rank: int
    paths: Paths | None


class Reachability:
    """The stations that each location reaches directly.

    Attributes:
        stations: the number of each station's location, ordered so that a frontier affects only later stations. The
            index is the rank.
        rank_of: the rank of each station, by its location's number.
        entries: for each location, the stations that its counts reach directly.
        onward: for each station, by rank, the stations that its frontier reaches directly.
    """

    def __init__(self, compiled: CompiledGraph, interesting: Iterable[Location]) -> None:
        self._compiled = compiled
        self.asked = {compiled.index[location] for location in interesting}
        numbers = range(len(compiled.locations))
        component = strong_components(numbers, compiled.successors)
        cut = {(a, b) for a, b in compiled.advancing_steps() if component[a] == component[b]}
        straight = strong_components(
            numbers, lambda number: (end for end in compiled.successors(number) if (number, end) not in cut)
        )
        direct = self._direct(component, {end for _, end in cut})
        self.stations = sorted(
            self.asked | direct, key=lambda number: (-component[number], number not in direct, -straight[number])
        )
        self.rank_of = {number: rank for rank, number in enumerate(self.stations)}
        self.entries: dict[int, list[Passage]] = {}
        self.onward: list[list[Passage]] = [[] for _ in self.stations]
        for end in self.stations:
            self._add_paths_to(end, component[end] if end in direct else None, component)

    def _direct(self, component: Mapping[int, int], heads: set[int]) -> set[int]:
        """Return the stations to which counts of a cycle go directly: heads or, if fewer, locations of interest."""
        by_cycle: dict[int, tuple[set[int], set[int]]] = {}
        for head in heads:
            by_cycle.setdefault(component[head], (set(), set()))[0].add(head)
        for number in self.asked:
            if component[number] in by_cycle:
                by_cycle[component[number]][1].add(number)
        return {
            number
            for own_heads, own_asked in by_cycle.values()
            for number in (own_heads if len(own_heads) < len(own_asked) else own_asked)
        }

    def _add_paths_to(self, end: int, cycle: int | None, component: Mapping[int, int]) -> None:
        """Record the paths to a station: from earlier stations; if it is in ``cycle``, from those before the cycle."""
        passes = lambda number: component[number] == cycle or number not in self.rank_of  # noqa: E731
        for start, paths in self._compiled.search_back(end, passes).items():
            passage = Passage(self.rank_of[end], _unless_unchanged(paths))
            if start in self.rank_of and start != end and component[start] != cycle:
                self.onward[self.rank_of[start]].append(passage)
            else:
                self.entries.setdefault(start, []).append(passage)

    def covers(self, location: int) -> list[Passage]:
        """Return paths from some locations of interest that reach ``location``.

        Complexity: on the first call, the size of the graph; then O(1).
        """
        return self._covers.get(location, [])

    @cached_property
    def _covers(self) -> dict[int, list[Passage]]:
        found: dict[int, list[Passage]] = {}
        has_room = lambda number: number not in self.asked and len(found.get(number, ())) < _MOST_COVERS  # noqa: E731
        for rank, start in enumerate(self.stations):
            if start not in self.asked:
                continue
            for end, paths in self._compiled.search_forward(start, has_room).items():
                known = found.setdefault(end, [])
                if len(known) < _MOST_COVERS:
                    known.append(Passage(rank, _unless_unchanged(paths)))
        return found


def _unless_unchanged(paths: Paths) -> Paths | None:
    return None if len(paths) == 1 and paths[0].is_identity else paths
