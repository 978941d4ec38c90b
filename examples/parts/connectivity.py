"""Connected components and hop counts of a growing graph, found by going round a loop until nothing changes.

Edges arrive in epochs, as Arrow tables of two columns ``source`` and ``target``, numbers from 0. For each epoch the
result has the nodes whose answer changed: the least node of their component, and how many hops along the edges they are
from ``start`` (null if it does not reach them). Within an epoch all workers go round together; epochs go in order.
"""

from typing import Any

import numpy as np
import pyarrow as pa

import tidewheel as tw
from examples.parts.graph_share import Share
from examples.parts.node_arrays import distinct
from examples.parts.rounds import Round, go_round


def both_ways(edges: pa.Table) -> pa.Table:
    """Turn edges into arcs from each end; hops count along the forward ones only."""
    ends = [edges["source"].to_numpy().astype(np.int64), edges["target"].to_numpy().astype(np.int64)]
    forward = np.repeat([True, False], len(ends[0]))
    return pa.table({"node": np.concatenate(ends), "to": np.concatenate(ends[::-1]), "forward": forward})


def changes(edges: tw.Stream[Any], start: int) -> tw.Stream[Any]:
    """Return, for each epoch of ``edges``, tables (node, component, hops) of the nodes whose answer changed."""
    arcs = edges.map_batches(both_ways)
    improved = go_round(arcs, "improve", lambda: Improvement(start), ["node", "node"])
    # Each answer of a node is less than the one before, so the last of an epoch is the least.
    return improved.group_by("node").aggregate(component=("component", "min"), hops=("hops", "min"))


class Improvement:
    """One worker's share of the work: take arcs and offers, answer, and offer to neighbours."""

    def __init__(self, start: int) -> None:
        self.share = Share(start)

    def work(self, number: int, entered: list[pa.Table], returned: list[pa.Table]) -> Round:
        """Work off a round."""
        starts = new = better = np.empty(0, np.int64)
        if entered:
            starts, new = self.share.add(pa.concat_tables(entered))
        if returned:
            better = self.share.improve(pa.concat_tables(returned))
        offers = self.share.offers(distinct(starts, better))
        return Round([(1, offers)], self.share.answers(distinct(new, better)))
