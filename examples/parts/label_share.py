"""One worker's share of a graph along which labels spread: its nodes, and the least label that has reached each."""

import numpy as np
import pyarrow as pa

from examples.parts.node_arrays import Nodes, lower


class LabelShare:
    """One worker's nodes: the arcs that begin there, their labels so far, and the least label sent to each node."""

    def work(self, entered: list[pa.Table], returned: list[pa.Table]) -> pa.Table:
        """Take arcs, all at once, or labels; return the labels to be sent, (node, label)."""
        changed = self.add(pa.concat_tables(entered)) if entered else self.improve(pa.concat_tables(returned))
        counts = self.count[changed]
        arcs = np.repeat(self.first[changed] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        nodes = lower(self.sent, self.to[arcs], np.repeat(self.label[changed], counts))
        return pa.table({"node": nodes, "label": self.sent[nodes]})

    def add(self, arcs: pa.Table) -> Nodes:
        """Take arcs; return the nodes at which they begin, each of which is its own label."""
        node, to = arcs["node"].to_numpy(), arcs["to"].to_numpy()
        self.to = np.sort(node << 32 | to) & 0xFFFFFFFF  # in order of node; argsort takes twice as long
        self.count = np.bincount(node, minlength=int(to.max()) + 1)
        self.first = np.cumsum(self.count) - self.count
        self.label, self.sent = np.arange(len(self.count)), np.arange(len(self.count))
        return np.flatnonzero(self.count)

    def improve(self, offers: pa.Table) -> Nodes:
        """Take labels; return the nodes that have got a lesser one."""
        return lower(self.label, offers["node"].to_numpy(), offers["label"].to_numpy())

    def table(self) -> pa.Table:
        """Return the label of each node."""
        nodes = np.flatnonzero(self.count)
        return pa.table({"node": nodes, "label": self.label[nodes]})
