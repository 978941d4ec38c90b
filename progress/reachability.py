"""How what is known of one location bears on others: the compiled graph, reduced to the locations somebody asks about.

Between two locations of interest many paths lead through others of interest, and their frontiers sum up all that is
before them. So a count at a location is carried only as far as the next locations of interest, and from there on the
frontiers are: `Reachability.entries` and `Reachability.onward`. Where locations of interest lie on a common cycle, each
of them gets every count that comes into the cycle directly, by the summaries of all ways round; so frontiers only ever
travel forward, from one strongly connected component to a later one, and each is settled once for each change.

The size of these tables is that of the graph, for locations of interest in a row; a pair for each two of interest on a
common cycle; and a path for each of interest that a location reaches directly, side by side.

Source: seed "Progress Tracking", section "A Compiled Representation".
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidewheel.progress.compiled_graph import CompiledGraph, Paths
from tidewheel.progress.location import Location
from tidewheel.progress.strong_components import strong_components

_MOST_COVERS = 4
"""So many locations of interest before a location are remembered; see `Reachability.covers`."""


@dataclass(frozen=True, slots=True)
class Passage:
    """The paths between a location and one of interest, ``rank``; ``paths`` is None for one that changes nothing."""

    rank: int
    paths: Paths | None


class Reachability:
    """Which locations of interest a location reaches directly.

    Attributes:
        ranks: the number of each location of interest, in an order in which a frontier only bears on later ones.
        rank_of: the place of each in that order.
        entries: for each location, the locations of interest on whose frontiers its counts bear directly.
        onward: for each location of interest, by rank, those on which its frontier bears directly.
    """

    def __init__(self, compiled: CompiledGraph, interesting: Iterable[Location]) -> None:
        self._compiled = compiled
        component = strong_components(range(len(compiled.locations)), compiled.successors)
        chosen = {compiled.index[location] for location in interesting}
        self.ranks: list[int] = sorted(chosen, key=lambda number: (-component[number], number))
        self.rank_of = {number: rank for rank, number in enumerate(self.ranks)}
        self.entries: dict[int, list[Passage]] = {}
        self.onward: list[list[Passage]] = [[] for _ in self.ranks]
        self._covers: dict[int, list[Passage]] | None = None
        for rank, end in enumerate(self.ranks):
            reaching = compiled.search_back(end, self._passes(component, component[end]))
            for start, paths in reaching.items():
                passage = Passage(rank, _unless_unchanged(paths))
                if start in chosen and component[start] != component[end]:
                    self.onward[self.rank_of[start]].append(passage)
                else:
                    self.entries.setdefault(start, []).append(passage)

    def _passes(self, component: dict[int, int], own: int) -> Callable[[int], bool]:
        return lambda number: number not in self.rank_of or component[number] == own

    def covers(self, location: int) -> list[Passage]:
        """Return some of the locations of interest before a location: what is possible there is possible here later.

        Complexity: on the first call, the size of the graph; then O(1).
        """
        if self._covers is None:
            self._covers = self._find_covers()
        return self._covers.get(location, [])

    def _find_covers(self) -> dict[int, list[Passage]]:
        found: dict[int, list[Passage]] = {}
        for rank, start in enumerate(self.ranks):
            has_room = lambda number: number not in self.rank_of and len(found.get(number, ())) < _MOST_COVERS  # noqa: E731
            for end, paths in self._compiled.search_forward(start, has_room).items():
                known = found.setdefault(end, [])
                if len(known) < _MOST_COVERS:
                    known.append(Passage(rank, _unless_unchanged(paths)))
        return found


def _unless_unchanged(paths: Paths) -> Paths | None:
    return None if len(paths) == 1 and paths[0].is_identity else paths
