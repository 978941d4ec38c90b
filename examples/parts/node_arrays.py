"""Arrays of nodes, which are numbers from 0, as graphs in NumPy are made of."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Nodes: TypeAlias = npt.NDArray[Any]


def distinct(*nodes: Nodes) -> Nodes:
    """Return the nodes in some arrays, each once and in order; for numbers like these faster than ``np.unique``."""
    seen = np.zeros(1 + max((int(array.max()) for array in nodes if len(array)), default=-1), bool)
    for array in nodes:
        seen[array] = True
    return np.flatnonzero(seen)


def lower(values: Nodes, nodes: Nodes, offered: Nodes) -> Nodes:
    """Change the values of nodes to what is offered to them where that is less; return the nodes for which it was."""
    less = offered < values[nodes]
    np.minimum.at(values, nodes[less], offered[less])
    return distinct(nodes[less])
