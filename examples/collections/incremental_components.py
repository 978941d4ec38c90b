"""Connected components of a graph whose edges come and go: each node, with the least node that it is connected with."""

import numpy as np

import tidewheel as tw
from examples.parts.history import added, removed, show


def components(edges: tw.Collection) -> tw.Collection:
    """Return pairs (node, least node of its component) for edges (one, other)."""

    def spread(labels: tw.Collection) -> tw.Collection:
        offers = labels.join(arcs, lambda node, label, neighbour: (neighbour, label), columns=True)
        # Small labels enter first, by the cube root of the number of their bits, so most nodes take one label only.
        late = nodes.enter_at(lambda node, label: 64 * np.cbrt(np.frexp(label)[1]).astype(int), columns=True)
        return offers.concat(late).reduce_min()

    arcs = edges.concat(edges.map(lambda one, other: (other, one), columns=True))
    nodes = arcs.reduce_min().map(lambda node, least: (node, np.minimum(node, least)), columns=True)
    return nodes.empty().iterate(spread)


if __name__ == "__main__":
    show(__doc__, components, [added([(1, 2), (2, 3), (4, 5)]), removed([(2, 3)]), added([(3, 5)])])
