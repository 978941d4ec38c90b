"""The probes of a dataflow as one worker sees them: their frontiers, and the operators that follow them."""

from collections.abc import Callable

from tidewheel.progress import Antichain, CompiledGraph, GraphError
from tidewheel.runtime.description.plan import Plan


class ProbeWatch:
    """The probes that have moved, and their frontiers.

    Args:
        plan: the dataflow, and ``compiled``, its graph.
        activate: has an operator scheduled, given its number.
        frontier: returns the frontier at a location, given its number.
    """

    def __init__(
        self,
        plan: Plan,
        compiled: CompiledGraph,
        activate: Callable[[int], None],
        frontier: Callable[[int], Antichain],
    ) -> None:
        self._frontier = frontier
        self._dataflow = plan.name
        self._places = {name: compiled.index[source] for name, source in plan.probes.items()}
        self._names: dict[int, list[str]] = {}
        for name, location in self._places.items():
            self._names.setdefault(location, []).append(name)
        self._activate = activate
        self._moved = set(plan.probes)
        self._followers: set[int] = set()

    def frontier(self, name: str) -> Antichain:
        """Return the frontier at a probe: the lower bound on the times that can still pass there, on any worker."""
        return self._frontier(self._places[name])

    def moved(self, location: int) -> None:
        """Take note that the frontier at a location has moved."""
        if location in self._names:
            self._moved.update(self._names[location])
            for follower in self._followers:
                self._activate(follower)

    def drain_moved(self) -> set[str]:
        """Return the names of the probes that have moved since the last call; the first time, all."""
        moved, self._moved = self._moved, set()
        return moved

    def follow(self, operator: int, name: str) -> Antichain:
        """Return the frontier at a probe, and schedule an operator whenever a probe moves.

        Raises:
            GraphError: there is no probe of that name.
        """
        if name not in self._places:
            raise GraphError(f"dataflow {self._dataflow!r} has no probe {name!r}; it has {sorted(self._places)}")
        self._followers.add(operator)
        return self.frontier(name)
