"""The times that can still occur at each location, found by walking: nothing here composes or compares summaries."""

from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from tests.laws.oracles import steps_from
from tidewheel.progress import GraphShape, IntegerDomain, Nesting, PathSummary, Time

Pointstamp: TypeAlias = tuple[int, Time]
"""(location number, time)."""


class PossibleTimes:
    """Walks a graph, one step of a path at a time.

    Args:
        graph: the graph; its locations are numbered in its own order.
        endless: whether integers go on past their maximum. A path summary does not say that nothing passes it because
            of a coordinate that it drops at the end, when the loop is left; so a frontier may rightly be as early as
            this tells.
    """

    def __init__(self, graph: GraphShape, *, endless: bool = False) -> None:
        number = {location: index for index, location in enumerate(graph.locations())}
        outgoing = steps_from(graph)
        self._less_equal = [graph.nesting(location).domain.less_equal for location in number]
        self._steps: list[list[tuple[int, PathSummary]]] = [
            [(number[step.end], _endless(step.summary) if endless else step.summary) for step in outgoing[location]]
            for location in number
        ]

    def after(self, live: Iterable[Pointstamp]) -> list[list[Time]]:
        """Return, for each location, the minimal times at which something that is live can arrive.

        A walk stops where an earlier or equal time has been before, so it ends if every cycle advances time.
        """
        minimal: list[list[Time]] = [[] for _ in self._steps]
        walking = deque(live)
        while walking:
            location, time = walking.popleft()
            less_equal, known = self._less_equal[location], minimal[location]
            if any(less_equal(earlier, time) for earlier in known):
                continue
            minimal[location] = [*(other for other in known if not less_equal(time, other)), time]
            for end, path in self._steps[location]:
                arrival = time if path.is_identity else path.results_in(time)
                if arrival is not None:
                    walking.append((end, arrival))
        return minimal


def _endless(path: PathSummary) -> PathSummary:
    source, target = (
        Nesting(
            tuple(IntegerDomain() if isinstance(domain, IntegerDomain) else domain for domain in end.coordinate_domains)
        )
        for end in (path.source, path.target)
    )
    return PathSummary(source, target, path.advances, path.appended)
