"""Strongly connected components by nested loops: which packages of Debian need each other, round in a circle?

In each round of the outer loop two inner ones run to their ends. The first finds for each node the least node from
which it can be reached, the second, against the arcs that are left, the least node that it reaches. Arcs between nodes
for which these are not the same lie on no circle. A node for which both are the same node is in the component of that
one, and done; what is left of the arcs between the others goes round again, until there is nothing left.

Source: "Finding strongly connected components in distributed graphs" (McLendon and others, 2005); Naiad's examples.
"""

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tidewheel as tw
from examples.parts import debian_graph
from examples.parts.least_labels import least_labels
from examples.parts.program import by_epoch, options


def components(edges: tw.Stream[Any]) -> tw.Stream[Any]:
    """Return, for the ``edges`` (source, target) of each epoch, tables (node, component): the least node in it."""
    with edges.flow.scope("until all are found") as loop:
        again = loop.feedback()
        arcs = edges.map_batches(arcs_of).enter(loop).concat(again)
        reached_from = least_labels(arcs, loop.inner("forward"))
        inside = agreeing(arcs, reached_from, "root")
        against = inside.select(node=pc.field("to"), to=pc.field("node"))
        reaches = least_labels(against, loop.inner("backward"))
        found = reached_from.join(reaches, "node", suffix="_against").filter(
            pc.field("label") == pc.field("label_against")
        )
        left = agreeing(inside, reaches, "end").filter(pc.field("root") != pc.field("end"))
        again.connect(left.select("node", "to"))
    return found.select("node", component=pc.field("label")).leave()


def agreeing(arcs: tw.Stream[Any], labels: tw.Stream[Any], name: str) -> tw.Stream[Any]:
    """Return the arcs whose ends have the same label, with that label in a column."""
    both = arcs.join(labels, "node").join(labels, "to", "node", suffix="_there")
    same = both.filter(pc.field("label") == pc.field("label_there"))
    return same.map_batches(lambda table: table.drop_columns(["label_there"]).rename_columns({"label": name}))


def arcs_of(edges: pa.Table) -> pa.Table:
    """Turn edges into arcs (node, to), and add one from each node to itself, so that none is forgotten."""
    nodes = pc.unique(pa.chunked_array([*edges["source"].chunks, *edges["target"].chunks]))
    ends = [pa.chunked_array([*edges[name].chunks, nodes]) for name in ("source", "target")]
    return pa.table(ends, names=["node", "to"])


def main() -> None:
    chosen = options(__doc__)
    graph = debian_graph.load()
    flow = tw.Dataflow("strongly connected")
    edges = flow.source("edges", tw.IterableSource([list(enumerate(graph.epochs))]))
    components(edges).capture("components")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
        job.wait(timeout_s=120)
        (tables,) = by_epoch(job, "components").values()
    members: dict[int, list[str]] = {}
    for row in pa.concat_tables(tables).to_pylist():
        members.setdefault(row["component"], []).append(graph.names[row["node"]])
    sizes = Counter(map(len, members.values()))
    print(f"{len(members):,} components, {len(members) - sizes[1]:,} of them of several packages; the largest are")
    for names in sorted(members.values(), key=len, reverse=True)[:5]:
        print(f"{len(names):5} {', '.join(sorted(names)[:6])}{', ...' * (len(names) > 6)}")


if __name__ == "__main__":
    main()
