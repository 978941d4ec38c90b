"""Strongly connected components: which nodes of a graph lie on a common cycle."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def strong_components(nodes: Iterable[Node], successors: Callable[[Node], Iterable[Node]]) -> dict[Node, int]:
    """Return the number of each node's strongly connected component.

    A component has a smaller number than those that lead to it.

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
