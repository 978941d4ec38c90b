"""The cycles of a graph: which nodes share a cycle, and an error for a cycle that does not advance time.

If a cycle returned a time unchanged, no frontier could pass that time. A cycle keeps the outermost coordinates that all
of its steps keep, and drops the others. It is sound if and only if some step strictly advances a kept coordinate.

The check runs once for each number ``kept`` of coordinates. It looks at the steps that keep at least that many and
strictly advance none of these. If they contain a cycle with a step that keeps exactly ``kept``, the graph is refused.
Linear in the graph for each depth of nesting.

Source: seed "Progress Tracking", section "A Compiled Representation" (the one constraint on the graph).
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from tidewheel.progress.errors import GraphError
from tidewheel.progress.graph import GraphShape, Location, Step

_Adjacency: TypeAlias = Mapping[Location, list[Step]]


def refuse_idle_cycles(graph: GraphShape) -> None:
    """Raise GraphError, showing the path, if some cycle of ``graph`` does not strictly advance time."""
    steps = list(graph.steps())
    for kept in sorted({len(step.summary.advances) for step in steps}):
        idle = [
            step for step in steps if len(step.summary.advances) >= kept and not step.summary.strictly_advances(kept)
        ]
        cycle = _cycle_through(idle, kept)
        if cycle:
            path = " -> ".join(graph.describe(step.start) for step in cycle)
            raise GraphError(
                f"a cycle does not advance time: {path} -> {graph.describe(cycle[0].start)}. "
                "A message could go round it forever at one time. Close the cycle with scope.feedback(), in the "
                "scope in which the whole cycle lies, so that each time round is a later round"
            )


def _cycle_through(steps: Iterable[Step], kept: int) -> list[Step]:
    """Return a shortest cycle through a step that keeps exactly ``kept`` coordinates; [] if there is none."""
    outgoing: dict[Location, list[Step]] = {}
    for step in steps:
        outgoing.setdefault(step.start, []).append(step)
    component = strong_components(outgoing, lambda start: (step.end for step in outgoing.get(start, ())))
    for start, leaving in outgoing.items():
        for step in leaving:
            if len(step.summary.advances) == kept and component[start] == component[step.end]:
                return [step, *_shortest_path(outgoing, step.end, start)]
    return []


def _shortest_path(outgoing: _Adjacency, start: Location, end: Location) -> list[Step]:
    """Return the steps of a shortest path; [] if ``start`` is ``end``. A path must exist."""
    arrived_by: dict[Location, Step] = {}
    queue = deque([start])
    while end not in arrived_by and end != start:
        for step in outgoing.get(queue[0], ()):
            if step.end not in arrived_by:
                arrived_by[step.end] = step
                queue.append(step.end)
        queue.popleft()
    path: list[Step] = []
    while end != start:
        path.append(arrived_by[end])
        end = path[-1].start
    return path[::-1]


Node = TypeVar("Node", bound=Hashable)


def strong_components(nodes: Iterable[Node], successors: Callable[[Node], Iterable[Node]]) -> dict[Node, int]:
    """Return the number of each node's strongly connected component.

    A component has a smaller number than the components that lead to it.

    Complexity: linear in nodes and edges; no recursion.

    >>> edges = {"a": "b", "b": "cd", "c": "b", "d": ""}
    >>> strong_components("abcd", edges.__getitem__)
    {'d': 0, 'c': 1, 'b': 1, 'a': 2}

    Source: Tarjan, "Depth-first search and linear graph algorithms", SIAM Journal on Computing 1972.
    """
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    component: dict[Node, int] = {}
    stack: list[Node] = []
    found = 0
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(successors(root)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, remaining = work[-1]
            following = next(remaining, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    while node not in component:
                        component[stack.pop()] = found
                    found += 1
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                work.append((following, iter(successors(following))))
            elif following not in component:
                low[node] = min(low[node], index[following])
    return component
