"""k-means in a loop that ends when no centre moves any more: where in the United States are the airports?

Points stay where they are, in chunks. What goes round are centres: each chunk sums up the points nearest to each of
them, and the sums of all chunks make the centres of the next round.
"""

from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow.compute as pc

import tidewheel as tw
from examples.parts import nyc_flights
from examples.parts.nearest_centre import CHUNKS, Centres, Chunk, Points, middles, split, sums
from examples.parts.program import by_epoch, options

CENTRES = 8


def clusters(chunks: tw.Stream[Chunk], first: tw.Stream[Points]) -> tw.Stream[tuple[int, Points, Points]]:
    """Return, for the points of each epoch, (number, place, points) of each centre, from each chunk of points.

    The loop begins with the centres ``first``, one record; a centre without points stays where it is.
    """
    start = first.flat_map(lambda places: [Centres(chunk, places, np.inf) for chunk in range(CHUNKS)])
    moved = itemgetter(2)
    settled = start.iterate(move, until=lambda most: most < 1e-9, measure=moved, combine=max, beside=[chunks])
    both = chunks.join(settled, itemgetter(0), itemgetter(0))
    return both.flat_map(lambda pair: [(n, pair[1].places[n], some) for n, some in enumerate(split(*pair))])


def move(centres: tw.Stream[Centres], chunks: tw.Stream[Chunk]) -> tw.Stream[Centres]:
    """Move each centre to the middle of the points nearest to it."""
    parts = chunks.join(centres, itemgetter(0), itemgetter(0)).map(lambda pair: (pair[1].places, sums(*pair)))
    both = parts.aggregate(lambda part: 0, add=lambda one, other: (one[0], one[1] + other[1]))
    return both.flat_map(lambda total: middles(*total[1]))


def main() -> None:
    chosen = options(__doc__)
    inside = (pc.field("lon") > -125) & (pc.field("lon") < -66) & (pc.field("lat") > 24) & (pc.field("lat") < 50)
    airports = nyc_flights.read("airports").filter(inside)
    places = np.column_stack([airports["lon"], airports["lat"]])
    names = airports["name"].to_pylist()
    flow = tw.Dataflow("k-means")
    chunks: Any = tw.IterableSource([[(0, list(enumerate(np.array_split(places, CHUNKS))))]])
    first: Any = tw.IterableSource([[(0, [places[:CENTRES]])]])
    clusters(flow.source("points", chunks), flow.source("first", first)).capture("clusters")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
        job.wait(timeout_s=60)
        (batches,) = by_epoch(job, "clusters").values()
    sizes: dict[int, int] = {}
    found: dict[int, Points] = {}
    for number, place, some in (cluster for batch in batches for cluster in batch):
        sizes[number], found[number] = sizes.get(number, 0) + len(some), place
    for number, size in sorted(sizes.items(), key=lambda item: -item[1]):
        x, y = found[number]
        nearest_name = names[np.hypot(places[:, 0] - x, places[:, 1] - y).argmin()]
        print(f"{size:4} airports around {abs(x):5.1f}° W {y:4.1f}° N, near {nearest_name}")


if __name__ == "__main__":
    main()
