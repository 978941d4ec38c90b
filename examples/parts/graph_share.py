"""One worker's share of a growing graph: the nodes it owns, their best answers so far, and the arcs that leave them."""

import numpy as np
import pyarrow as pa

from examples.parts.node_arrays import Nodes, distinct, lower

FAR = np.iinfo(np.int64).max


class Share:
    """The nodes that one worker owns: their best answers so far and the arcs that start at them."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.node, self.to = np.empty(0, np.int64), np.empty(0, np.int64)
        self.forward = np.empty(0, bool)
        self.component, self.hops = np.empty(0, np.int64), np.empty(0, np.int64)

    def add(self, arcs: pa.Table) -> tuple[Nodes, Nodes]:
        """Add arcs; return the nodes at which they start, and those of them that were not known before."""
        nodes, to = arcs["node"].to_numpy(), arcs["to"].to_numpy()
        missing = max(0, int(max(nodes.max(), to.max())) + 1 - len(self.component))
        self.component = np.concatenate([self.component, np.full(missing, FAR)])
        self.hops = np.concatenate([self.hops, np.full(missing, FAR)])
        order = np.argsort(np.concatenate([self.node, nodes]), kind="stable")
        self.node, self.to = np.concatenate([self.node, nodes])[order], np.concatenate([self.to, to])[order]
        self.forward = np.concatenate([self.forward, arcs["forward"].to_numpy()])[order]
        starts = distinct(nodes)
        new = starts[self.component[starts] == FAR]
        self.component[new] = new
        self.hops[new[new == self.start]] = 0
        return starts, new

    def improve(self, offers: pa.Table) -> Nodes:
        """Take what neighbours offer; return the nodes whose answer got better."""
        nodes = offers["node"].to_numpy()
        nearer = lower(self.hops, nodes, offers["hops"].to_numpy())
        return distinct(nearer, lower(self.component, nodes, offers["component"].to_numpy()))

    def offers(self, nodes: Nodes) -> pa.Table:
        """Return what ``nodes`` have to offer to their neighbours, the best offer for each."""
        first, last = np.searchsorted(self.node, nodes), np.searchsorted(self.node, nodes, side="right")
        counts = last - first
        arcs = np.repeat(first - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
        reached, source = self.to[arcs], self.node[arcs]
        near = self.forward[arcs] & (self.hops[source] < FAR)
        table = pa.table(
            {"node": reached, "component": self.component[source], "hops": np.where(near, self.hops[source] + 1, FAR)}
        )
        best = table.group_by("node").aggregate([("component", "min"), ("hops", "min")])
        return best.rename_columns(["node", "component", "hops"])

    def answers(self, nodes: Nodes) -> pa.Table:
        """Return the answers of ``nodes``."""
        hops = pa.array(self.hops[nodes], mask=self.hops[nodes] == FAR)
        return pa.table({"node": nodes, "component": self.component[nodes], "hops": hops})
