"""The compiled form of a graph: for pairs of locations, the minimal summaries of the paths between them."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

from tidewheel.progress.cycles import refuse_idle_cycles
from tidewheel.progress.graph import GraphShape
from tidewheel.progress.location import Location
from tidewheel.progress.path_summary import PathSummary

Paths: TypeAlias = tuple[PathSummary, ...]
"""Minimal summaries of the paths between two locations, none of them at or below another."""


class CompiledGraph:
    """A checked graph, with path summaries computed for the destinations that are asked for, and kept.

    Locations are numbered in the order of `GraphShape.locations`, the same in every worker.

    Raises GraphError if some cycle does not strictly advance time.
    """

    def __init__(self, graph: GraphShape) -> None:
        refuse_idle_cycles(graph)
        self.graph = graph
        self.locations: tuple[Location, ...] = tuple(graph.locations())
        self.index: dict[Location, int] = {location: index for index, location in enumerate(self.locations)}
        self.domains = [graph.nesting(location).domain for location in self.locations]
        self._incoming: list[list[tuple[int, PathSummary]]] = [[] for _ in self.locations]
        self._outgoing: list[list[tuple[int, PathSummary]]] = [[] for _ in self.locations]
        for step in graph.steps():
            start, end = self.index[step.start], self.index[step.end]
            self._incoming[end].append((start, step.summary))
            self._outgoing[start].append((end, step.summary))
        self._reaching: dict[Location, dict[Location, Paths]] = {}

    def summaries(self, start: Location, end: Location) -> Paths:
        """Return the minimal summaries of the paths from ``start`` to ``end``; empty if there is no path.

        A location reaches itself by the path of no steps.
        """
        return self.reaching(end).get(start, ())

    def reaching(self, end: Location) -> dict[Location, Paths]:
        """Return, for every location from which ``end`` can be reached, the minimal summaries of the paths.

        Complexity: on the first call for ``end``, the size of the part of the graph before it, for each summary kept.
        """
        found = self._reaching.get(end)
        if found is None:
            numbered = self.search_back(self.index[end], lambda _: True)
            found = self._reaching[end] = {self.locations[start]: paths for start, paths in numbered.items()}
        return found

    def route(self, start: Location, end: Location, summary: PathSummary) -> list[Location]:
        """Return the locations on a path with the fewest steps among those with this summary, one of `summaries`.

        Complexity: that of searching the graph once.
        """
        identity = PathSummary.identity(self.graph.nesting(start))
        trail: list[tuple[int, int]] = [(self.index[start], -1)]
        queue: deque[tuple[int, PathSummary]] = deque([(0, identity)])
        minimal: dict[int, list[PathSummary]] = {}
        while queue:
            position, path = queue.popleft()
            location = trail[position][0]
            if location == self.index[end] and path == summary:
                found = []
                while position >= 0:
                    location, position = trail[position]
                    found.append(self.locations[location])
                return found[::-1]
            known = minimal.setdefault(location, [])
            if any(other.less_equal(path) for other in known):
                continue
            known.append(path)
            for following, step in self._outgoing[location]:
                longer = path.followed_by(step)
                if longer is not None:
                    trail.append((following, position))
                    queue.append((len(trail) - 1, longer))
        return []

    def successors(self, location: int) -> list[int]:
        """Return the numbers of the locations one step after a location."""
        return [end for end, _ in self._outgoing[location]]

    def advancing_steps(self) -> Iterator[tuple[int, int]]:
        """Iterate over the single steps that strictly advance some coordinate, as (start, end)."""
        for start, steps in enumerate(self._outgoing):
            yield from ((start, end) for end, step in steps if step.strictly_advances())

    def search_back(self, end: int, passes: Callable[[int], bool]) -> dict[int, Paths]:
        """Return the minimal summaries of the paths to ``end`` that lead only through locations that ``passes`` allows.

        The first location of a path may be any; ``end`` itself is always passed.
        """
        return self._search(end, passes, self._incoming, lambda path, step: step.followed_by(path))

    def search_forward(self, start: int, passes: Callable[[int], bool]) -> dict[int, Paths]:
        """Return, as `search_back` does, the minimal summaries of the paths from ``start``, by their end."""
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
