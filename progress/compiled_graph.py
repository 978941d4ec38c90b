"""The compiled form of a graph: for pairs of locations, the minimal summaries of the paths between them."""

from collections import deque

from tidewheel.progress.cycles import refuse_idle_cycles
from tidewheel.progress.graph import GraphShape, Step
from tidewheel.progress.location import Location
from tidewheel.progress.path_summary import PathSummary


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
        self._incoming: dict[Location, list[Step]] = {}
        for step in graph.steps():
            self._incoming.setdefault(step.end, []).append(step)
        self._reaching: dict[Location, dict[Location, tuple[PathSummary, ...]]] = {}

    def summaries(self, start: Location, end: Location) -> tuple[PathSummary, ...]:
        """Return the minimal summaries of the paths from ``start`` to ``end``; empty if there is no path.

        A location reaches itself by the path of no steps.
        """
        return self.reaching(end).get(start, ())

    def reaching(self, end: Location) -> dict[Location, tuple[PathSummary, ...]]:
        """Return, for every location from which ``end`` can be reached, the minimal summaries of the paths.

        Complexity: on the first call for ``end``, the size of the part of the graph before it, for each summary kept.
        """
        found = self._reaching.get(end)
        if found is None:
            found = self._reaching[end] = self._search_back_from(end)
        return found

    def _search_back_from(self, end: Location) -> dict[Location, tuple[PathSummary, ...]]:
        minimal: dict[Location, tuple[PathSummary, ...]] = {}
        queue: deque[tuple[Location, PathSummary]] = deque()
        queue.append((end, PathSummary.identity(self.graph.nesting(end))))
        while queue:
            location, path = queue.popleft()
            known = minimal.get(location, ())
            if any(other.less_equal(path) for other in known):
                continue
            minimal[location] = (*(other for other in known if not path.less_equal(other)), path)
            for step in self._incoming.get(location, ()):
                longer = step.summary.followed_by(path)
                if longer is not None:
                    queue.append((step.start, longer))
        return minimal
