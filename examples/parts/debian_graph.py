"""The dependency graph of Debian in numbers, without Spark: packages numbered in order of their names."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

DATA = Path(__file__).parents[1] / "data" / "debian-bookworm-dependencies.parquet"


@dataclass(frozen=True, slots=True)
class DebianGraph:
    """Names of packages, and for each epoch a table (source, target) of the numbers of those on both ends of edges."""

    names: list[str]
    epochs: list[pa.Table]


def load(epochs: int = 1) -> DebianGraph:
    """Read the graph, each edge once; whole sections of the archive, in alphabetical order, go to each epoch."""
    edges = pq.read_table(DATA).group_by(["source", "target"]).aggregate([("section", "min")])
    names = pc.unique(pa.chunked_array([*edges["source"].chunks, *edges["target"].chunks])).sort()
    ends = {name: pc.index_in(edges[name], value_set=names).cast(pa.int64()) for name in ("source", "target")}
    sections = pc.unique(edges["section_min"]).sort()
    number: Any = pc.index_in(edges["section_min"], value_set=sections).to_numpy() * epochs // len(sections)
    table = pa.table(ends)
    return DebianGraph(names.to_pylist(), [table.filter(np.equal(number, epoch)) for epoch in range(epochs)])


@cache
def needs() -> Mapping[int, list[int]]:
    """Return for each package those that it needs, by their numbers; read once in each process."""
    (edges,) = load().epochs
    found: dict[int, list[int]] = defaultdict(list)
    for one, other in zip(edges["source"].to_pylist(), edges["target"].to_pylist(), strict=True):
        found[one].append(other)
    return found
