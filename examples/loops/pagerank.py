"""PageRank to a tolerance: which packages of Debian do most others need, directly or not?

Whoever visits a page follows one of its links with probability 0.85, and else goes to any page. The ranks of all pages
go round a loop, with the links beside them, until all ranks together change by less than the tolerance.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tidewheel as tw
from examples.parts import debian_graph
from examples.parts.program import by_epoch, options

FOLLOW = 0.85
"""The probability that a visitor follows a link."""


def ranks(links: tw.Stream[Any], tolerance: float) -> tw.Stream[Any]:
    """Return, for the ``links`` (source, target) of each epoch, tables (page, rank) of their pages.

    Ranks have a mean of 1 if each page has links; else what is lost there is missing in equal parts.
    """
    pages = links.select(page=pc.field("source")).concat(links.select(page=pc.field("target"))).distinct()
    start = pages.select("page", rank=pc.scalar(1.0), change=pc.scalar(0.0))
    counted = links.join(links.group_by("source").aggregate(count="count_all"), "source")
    ranked = start.iterate(step, until=lambda change: change < tolerance, measure="change", beside=[counted])
    return ranked.select("page", "rank")


def step(ranks: tw.Stream[Any], links: tw.Stream[Any]) -> tw.Stream[Any]:
    """Have each page pass its rank on, in equal parts over its links."""
    part: Any = pc.field("rank") / pc.field("count")
    passed = links.join(ranks, "source", "page").select(page=pc.field("target"), part=part)
    received = passed.group_by("page").aggregate(sum=("part", "sum"))
    rank: Any = pc.coalesce(pc.field("sum"), pc.scalar(0.0)) * FOLLOW + (1 - FOLLOW)
    change = pc.abs(rank - pc.field("rank"))
    return ranks.join(received, "page", how="left").select("page", rank=rank, change=change)


def main() -> None:
    chosen = options(__doc__)
    graph = debian_graph.load()
    flow = tw.Dataflow("pagerank")
    links = flow.source("links", tw.IterableSource([list(enumerate(graph.epochs))]))
    ranks(links, tolerance=1e-4 * len(graph.names)).capture("ranks")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
        job.wait(timeout_s=120)
        (tables,) = by_epoch(job, "ranks").values()
    ranked = pa.concat_tables(tables).sort_by([("rank", "descending")])
    total = pc.sum(ranked["rank"]).as_py()
    for row in ranked[:6].to_pylist():
        print(f"{row['rank'] / total:6.1%} {graph.names[row['page']]}")


if __name__ == "__main__":
    main()
