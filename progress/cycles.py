"""Refusal of cycles around which a time could come back unchanged.

Such a cycle would let a message circulate for ever at one time, and no frontier past it could ever be told. A cycle
that touches depth ``d`` and nothing further out keeps coordinates ``0 .. d``; it is sound exactly if some step of it
strictly advances one of these. So for each depth: among the locations at that depth or further in, leave out every step
that advances a kept coordinate; a cycle through that depth that remains is refused. Linear in the graph for each depth.

Source: seed "Progress Tracking", section "A Compiled Representation" (the one constraint on the graph).
"""

from collections import deque
from collections.abc import Iterable, Mapping

from tidewheel.progress.errors import GraphError
from tidewheel.progress.graph import GraphShape, Step
from tidewheel.progress.location import Location

Adjacency = Mapping[Location, list[Step]]


def refuse_idle_cycles(graph: GraphShape) -> None:
    """Raise GraphError, showing the path, if some cycle of ``graph`` does not strictly advance time."""
    steps = list(graph.steps())
    depths = {location: graph.nesting(location).depth for location in graph.locations()}
    for depth in sorted(set(depths.values())):
        idle = [
            step
            for step in steps
            if depths[step.start] >= depth and depths[step.end] >= depth and not _advances(step, depth)
        ]
        cycle = _cycle_through(idle, {location for location, at in depths.items() if at == depth})
        if cycle:
            path = " -> ".join(graph.describe(step.start) for step in cycle)
            raise GraphError(
                f"a cycle does not advance time: {path} -> {graph.describe(cycle[0].start)}. "
                "A message could go round it for ever at one time. Close the cycle with scope.feedback(), in the "
                "scope in which the whole cycle lies, so that each time round is a later round"
            )


def _advances(step: Step, depth: int) -> bool:
    domains = step.summary.source.coordinate_domains[: depth + 1]
    return any(
        not domain.summary_less_equal(summary, domain.identity())
        for domain, summary in zip(domains, step.summary.advances, strict=False)
    )


def _cycle_through(steps: Iterable[Step], start_set: set[Location]) -> list[Step]:
    """Return the steps of a shortest cycle through some location of ``start_set``, [] if there is none."""
    outgoing: dict[Location, list[Step]] = {}
    for step in steps:
        outgoing.setdefault(step.start, []).append(step)
    for start in _on_cycles(outgoing):
        if start in start_set:
            return _shortest_cycle(outgoing, start)
    return []


def _on_cycles(outgoing: Adjacency) -> list[Location]:
    """Return the locations of nontrivial strongly connected components (Tarjan's algorithm, iterative)."""
    index: dict[Location, int] = {}
    low: dict[Location, int] = {}
    stack: list[Location] = []
    on_stack: set[Location] = set()
    found: list[Location] = []
    for root in outgoing:
        if root in index:
            continue
        work = [(root, iter(outgoing[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            location, remaining = work[-1]
            step = next(remaining, None)
            if step is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[location])
                if low[location] == index[location]:
                    found.extend(_pop_component(outgoing, stack, on_stack, location))
            elif step.end not in index:
                index[step.end] = low[step.end] = len(index)
                stack.append(step.end)
                on_stack.add(step.end)
                work.append((step.end, iter(outgoing.get(step.end, ()))))
            elif step.end in on_stack:
                low[location] = min(low[location], index[step.end])
    return found


def _pop_component(
    outgoing: Adjacency, stack: list[Location], on_stack: set[Location], root: Location
) -> list[Location]:
    component = []
    while True:
        location = stack.pop()
        on_stack.discard(location)
        component.append(location)
        if location == root:
            break
    loops_to_itself = any(step.end == root for step in outgoing.get(root, ()))
    return component if len(component) > 1 or loops_to_itself else []


def _shortest_cycle(outgoing: Adjacency, start: Location) -> list[Step]:
    arrived_by: dict[Location, Step] = {}
    queue = deque([start])
    while queue:
        location = queue.popleft()
        for step in outgoing.get(location, ()):
            if step.end not in arrived_by:
                arrived_by[step.end] = step
                queue.append(step.end)
        if start in arrived_by:
            break
    cycle = [arrived_by[start]]
    while cycle[-1].start != start:
        cycle.append(arrived_by[cycle[-1].start])
    return cycle[::-1]
