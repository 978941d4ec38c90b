"""k-means in a loop that ends when no centre moves any more: where in the United States are the airports?

Points stay on their workers. What goes round are centres: all workers are told of them, find the points nearest to each
of them and sum these up; the sums of all workers make the centres of the next round.
"""

from typing import Any

import numpy as np
import pyarrow.compute as pc

import nyc_flights
import tidewheel as tw
from nearest_centre import Centre, Points, nearest
from program import by_epoch, options

CENTRES = 8


def clusters(points: tw.Stream[Any], first: tw.Stream[Centre]) -> tw.Stream[tuple[Centre, Points]]:
    """Return, for the ``points`` (x, y) of each epoch, the centres that they end up with, and the points of each.

    The loop begins with the centres ``first``, and uses those that have points; each worker sends its own points.
    """
    with points.flow.scope("until none moves") as loop:
        feedback = loop.feedback()
        centres = first.enter(loop).concat(feedback).broadcast()
        sums, settled = points.flow.operator("nearest", [points.rebalance().enter(loop), centres], 2, nearest)
        totals = sums.aggregate(lambda part: part[0], lambda: np.zeros(3), lambda total, part: total + part[1])
        feedback.connect(totals.map(lambda total: (total[0], total[1][0] / total[1][2], total[1][1] / total[1][2])))
    return settled.leave()


def main() -> None:
    chosen = options(__doc__)
    inside = (pc.field("lon") > -125) & (pc.field("lon") < -66) & (pc.field("lat") > 24) & (pc.field("lat") < 50)
    airports = nyc_flights.read("airports").filter(inside)
    places = np.column_stack([airports["lon"], airports["lat"]])
    names = airports["name"].to_pylist()
    flow = tw.Dataflow("k-means")
    points = flow.source("points", tw.IterableSource([[(0, places)]]))
    first = flow.source("first", tw.IterableSource([[(0, [(n, *places[n].tolist()) for n in range(CENTRES)])]]))
    clusters(points, first).capture("clusters")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
        job.wait(timeout=60)
        (batches,) = by_epoch(job, "clusters").values()
    sizes: dict[Centre, int] = {}
    for centre, some in (cluster for batch in batches for cluster in batch):
        sizes[centre] = sizes.get(centre, 0) + len(some)
    for (_, x, y), size in sorted(sizes.items(), key=lambda item: -item[1]):
        nearest_name = names[np.hypot(places[:, 0] - x, places[:, 1] - y).argmin()]
        print(f"{size:4} airports around {abs(x):5.1f}° W {y:4.1f}° N, near {nearest_name}")


if __name__ == "__main__":
    main()
