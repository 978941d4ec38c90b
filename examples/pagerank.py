"""PageRank of a web that grows: ranks are kept up to date by passing round only what has changed.

Whoever visits a page follows one of its links with probability 0.85, and else goes to any page. A page passes 0.85 of
the weight that it gets on, in equal parts over its links, as long as that is more than ``least``; so the loop ends by
itself. New links change what a page should have passed before, and only the difference goes out.

Source: "Efficient PageRank tracking in evolving networks" (KDD 2015).
"""

from typing import Any

import numpy as np

import debian_graph
import tidewheel as tw
from program import by_epoch, options
from rounds import go_round
from web_share import WebShare


def rank_changes(links: tw.Stream[Any], pages: int, least: float = 1e-4) -> tw.Stream[Any]:
    """Return, for each epoch of ``links`` (source, target) between up to so many pages, (page, change of its rank).

    Ranks begin at 0, and have a mean of 1 if each page has links; else what is lost there is missing in equal parts.
    """
    passed = go_round(links, "pass on", lambda: WebShare(pages, least), ["source", "page"])
    return passed.group_by("page").aggregate(change=("change", "sum"))


def main() -> None:
    chosen = options(__doc__)
    graph = debian_graph.load(epochs=4)
    flow = tw.Dataflow("pagerank")
    links = flow.source("links", tw.IterableSource([list(enumerate(graph.epochs))]))
    rank_changes(links, len(graph.names)).capture("changes")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
        job.wait(timeout=120)
        ranks = np.zeros(len(graph.names))
        for epoch, changes in by_epoch(job, "changes").items():
            for table in changes:
                ranks[table["page"]] += table["change"]
            best = np.argsort(-ranks)[:6]
            share = ", ".join(f"{graph.names[page]} {ranks[page] / ranks.sum():.1%}" for page in best)
            print(f"epoch {epoch}: {sum(map(len, changes)):6,} ranks have changed; {share}")


if __name__ == "__main__":
    main()
