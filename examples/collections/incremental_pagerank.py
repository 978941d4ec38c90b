"""PageRank of pages whose links come and go, in whole millionths, so that what is added can be taken back exactly."""

import tidewheel as tw
from examples.parts.history import added, removed
from examples.parts.program import options

MEAN = 1_000_000
FOLLOWED = 85
"""The percentage of visitors who follow a link; the others go to any page."""


def ranks(links: tw.Collection, rounds: int = 20) -> tw.Collection:
    """Return pairs (page, rank in millionths of the mean) for links (page, other page)."""

    def step(ranks: tw.Collection) -> tw.Collection:
        parts = ranks.join(counts, lambda page, rank, count: (page, rank * FOLLOWED // (100 * count)), columns=True)
        passed = parts.join(links, lambda page, part, other: (other, part), columns=True)
        return passed.concat(pages.map(lambda page: (page, MEAN * (100 - FOLLOWED) // 100))).reduce_sum()

    pages = links.flat_map(lambda link: link).distinct()
    counts = links.map(lambda link: link[0]).count()
    return pages.map(lambda page: (page, MEAN)).iterate(step, max_rounds=rounds)


if __name__ == "__main__":
    chosen, flow = options(__doc__), tw.Dataflow("ranks")
    ranks(flow.input("links").as_collection(diff=True)).lookup("ranks")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job, job.input("links") as links:
        for epoch, changes in enumerate([added([(1, 2), (2, 1), (3, 1)]), removed([(3, 1)]), added([(3, 2)])]):
            links.send(changes)
            links.advance_to(epoch + 1)
            found = job.lookup("ranks", [1, 2, 3], time=epoch, timeout_s=60)
            print(f"epoch {epoch}:", *((page, *found[page]) for page in found.counts))
