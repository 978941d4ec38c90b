"""The dependency graph of Debian in numbers, and what scipy says of it: the independent computation."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, shortest_path

Numbers: TypeAlias = npt.NDArray[Any]
Answers: TypeAlias = dict[int, tuple[int, int | None]]
"""For each node, the least node of its component and its hops from the start, None if it cannot be reached."""

_FILE = Path(__file__).parents[2] / "examples" / "data" / "debian-bookworm-dependencies.parquet"


@dataclass(frozen=True)
class DependencyGraph:
    """Edges between packages, which are numbered in order of their names, and the epoch in which each edge comes."""

    names: list[str]
    source: Numbers
    target: Numbers
    epoch: Numbers
    epochs: int

    @classmethod
    def load(cls, epochs: int) -> "DependencyGraph":
        """Read the committed file; whole sections of the archive go to each epoch."""
        table = pq.read_table(_FILE)
        both = pa.chunked_array([*table["source"].chunks, *table["target"].chunks])
        names = sorted(pc.unique(both).to_pylist())
        numbers = pa.array(names)
        source, target = (pc.index_in(table[name], value_set=numbers).to_numpy() for name in ("source", "target"))
        section = pc.dictionary_encode(table["section"]).combine_chunks().indices.to_numpy()
        return cls(names, source.astype(np.int64), target.astype(np.int64), section % epochs, epochs)

    def batches(self, partitions: int) -> list[list[tuple[int, pa.Table]]]:
        """Return the edges for an `IterableSource`, spread evenly over ``partitions``."""
        turn = np.arange(len(self.source)) % partitions
        return [
            [(epoch, self._table((turn == partition) & (self.epoch == epoch))) for epoch in range(self.epochs)]
            for partition in range(partitions)
        ]

    def _table(self, mask: Numbers) -> pa.Table:
        return pa.table({"source": self.source[mask], "target": self.target[mask]})

    def expected(self, start: int, last_epoch: int) -> Answers:
        """Return the answers for the edges of all epochs up to ``last_epoch``, as scipy computes them."""
        mask = self.epoch <= last_epoch
        size = len(self.names)
        matrix = csr_matrix((np.ones(mask.sum()), (self.source[mask], self.target[mask])), shape=(size, size))
        count, labels = connected_components(matrix, directed=False)
        least = np.full(count, size)
        np.minimum.at(least, labels, np.arange(size))
        hops = shortest_path(matrix, unweighted=True, indices=start)
        nodes = np.union1d(self.source[mask], self.target[mask]).tolist()
        return {node: (int(least[labels[node]]), None if np.isinf(hops[node]) else int(hops[node])) for node in nodes}
