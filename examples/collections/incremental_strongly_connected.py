"""Strongly connected components of a graph whose arcs come and go, by a loop in a loop."""

import tidewheel as tw
from examples.parts.history import added, removed, show


def components(arcs: tw.Collection) -> tw.Collection:
    """Return pairs (node, least node of its component) for the nodes on a circle of arcs (node, next node)."""
    return least(arcs.iterate(lambda left: turned(turned(left))))


def turned(arcs: tw.Collection) -> tw.Collection:
    """Return the arcs, turned round, between nodes that the same least node reaches: others lie on no circle."""
    labels = least(arcs)
    begun = arcs.join(labels, lambda node, then, label: (then, (node, label)))
    ended = begun.join(labels, lambda then, start, label: (start[1] == label, (then, start[0])))
    return ended.filter(lambda arc: arc[0]).map(lambda arc: arc[1])


def least(arcs: tw.Collection) -> tw.Collection:
    """Return pairs (node, least node that reaches it)."""

    def spread(labels: tw.Collection) -> tw.Collection:
        return labels.join(arcs, lambda node, label, then: (then, label)).concat(nodes).reduce_min()

    nodes = arcs.flat_map(lambda arc: [(arc[0], arc[0]), (arc[1], arc[1])]).distinct()
    return nodes.iterate(spread)


if __name__ == "__main__":
    show(__doc__, components, [added([(1, 2), (2, 1), (2, 3), (3, 4)]), added([(4, 2)]), removed([(2, 1)])])
